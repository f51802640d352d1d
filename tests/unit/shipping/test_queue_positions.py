"""A group's progress where the queue keeps one offset a group, as in HBase 3, while WALs are copied to the archive."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from walferry.engine.in_flight import WalOffset
from walferry.shipping.queue_positions import QueuePositions

ENDS = {0: 100, 1: 0, 2: 100, 3: 100}  # WAL 1 has no edits


class Queue:
    """A lease whose queue keeps one offset: it notes what counts as done, in order."""

    def __init__(self, one_offset: bool) -> None:
        self.one_offset = one_offset
        self.done: list[str] = []

    def register_position(self, wal: str, offset: int, pushed: object) -> None:
        self.done.append(f"{wal}:{offset}")

    def remove_wal(self, wal: str, pushed: object) -> bool:
        self.done.append(f"{wal} removed")
        return True


class Archive:
    wanted = True
    pending = False

    def __init__(self) -> None:
        self.added: list[int] = []
        self.copied: set[int] = set()

    def add(self, number: int, wal: object) -> None:
        self.added.append(number)

    def has(self, number: int) -> bool:
        return number in self.copied


def positions(queue: Queue, archive: Archive) -> QueuePositions:
    wals: Any = SimpleNamespace(
        wals=[SimpleNamespace(queued=SimpleNamespace(name=SimpleNamespace(text=f"w{n}"), position=0)) for n in range(4)],
        count=4, ends=ENDS, lost=set(), unclean={}, bytes_done=lambda watermark: 0,
    )  # fmt: skip
    counters: Any = SimpleNamespace(done=lambda n: None, completed=lambda ignored: None)
    return QueuePositions(wals, queue, counters, archive)  # type: ignore[arg-type]


def test_an_offset_does_not_pass_a_wal_that_is_still_to_be_copied() -> None:
    queue, archive = Queue(one_offset=True), Archive()
    commit = positions(queue, archive)
    commit.commit(WalOffset(3, 50))
    assert archive.added == [0, 2]
    assert queue.done == ["w0:100"], "everything behind would let HBase delete w0, which is not in the archive"
    archive.copied = {2}
    commit.commit(WalOffset(3, 50))
    assert queue.done == ["w0:100"]
    archive.copied = {0, 2}
    commit.commit(WalOffset(3, 50))
    assert queue.done == ["w0:100", "w0 removed", "w1 removed", "w2 removed", "w3:50"]


@pytest.mark.parametrize("copied", [set(), {0}])
def test_in_a_queue_with_a_position_for_each_wal_the_others_go_on(copied: set[int]) -> None:
    queue, archive = Queue(one_offset=False), Archive()
    archive.copied = copied
    positions(queue, archive).commit(WalOffset(3, 50))
    removed = ["w0 removed"] if copied else []
    assert queue.done == ["w0:100", "w1 removed", "w2:100", *removed, "w3:50"]
