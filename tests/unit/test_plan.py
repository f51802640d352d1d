"""What is taken for finished leaves its queue without being read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.wal.encoder import TRAILER, encode_header, encode_wal, entry
from walferry.closedness import WalMissing
from walferry.plan import Candidate, PlannedWal, plan_wal
from walferry.storage import WalLocation, WalStore, WrongRoot
from walferry.wal.names import WalName, parse_wal_name
from walferry.zk.queues import QueuedWal

SERVER = "rs-1.example.org,16020,1700000000001"
WAL = parse_wal_name("rs-1.example.org%2C16020%2C1700000000001.1700000000123")
HEADER = encode_header()
WHOLE = encode_wal([entry(), entry()], trailer=b"")


@pytest.fixture
def splitting(tmp_path: Path) -> Path:
    folder = tmp_path / f"WALs/{SERVER}-splitting"
    folder.mkdir(parents=True)
    return folder / WAL.text


def planned(store: WalStore, position: int = 0) -> PlannedWal:
    return plan_wal(store, Candidate(QueuedWal(WAL, "/queue/wal", position), False, (SERVER,)))


@pytest.mark.parametrize("beyond", [1, 1000, 10**9])
@pytest.mark.parametrize("data", [b"", HEADER, WHOLE, WHOLE + TRAILER], ids=["empty", "header", "entries", "closed"])
def test_a_position_that_no_such_file_has_does_not_make_it_finished(
    splitting: Path, tmp_path: Path, data: bytes, beyond: int
) -> None:
    """The job names it; swept away, nobody would."""
    splitting.write_bytes(data)
    assert not planned(WalStore(f"file://{tmp_path}"), len(data) + beyond).finished


class Stale(WalStore):
    """HDFS told a length just before the lease of the file was recovered."""

    def __init__(self, root: str, size: int) -> None:
        super().__init__(root)
        self.size = size

    def locate(self, wal: WalName, dead_servers: Sequence[str] = ()) -> WalLocation | None:
        found = super().locate(wal, dead_servers)
        return found and replace(found, size=self.size)


@pytest.mark.parametrize(
    ("data", "position", "finished"),
    [
        (b"", 0, True),
        (HEADER, 0, True),
        (HEADER + TRAILER, 0, True),
        (WHOLE, 0, False),
        (WHOLE, len(WHOLE), True),
        (WHOLE + TRAILER, len(WHOLE), True),
        (HEADER[:-1], 0, False),
    ],
    ids=["empty", "header", "header and trailer", "entries", "all shipped", "all shipped, trailer", "part of a header"],
)
def test_a_closed_file_without_an_entry_behind_the_position_is_finished(
    splitting: Path, tmp_path: Path, data: bytes, position: int, finished: bool
) -> None:
    splitting.write_bytes(data)
    assert planned(WalStore(f"file://{tmp_path}"), position).finished == finished


@pytest.mark.parametrize("size", [0, len(HEADER)])
@pytest.mark.parametrize("trailer", [b"", TRAILER], ids=["unclean", "clean"])
def test_a_length_from_before_the_file_was_closed_does_not_make_it_finished(
    splitting: Path, tmp_path: Path, size: int, trailer: bytes
) -> None:
    splitting.write_bytes(WHOLE + trailer)
    assert not planned(Stale(f"file://{tmp_path}", size)).finished


def test_a_wal_that_is_nowhere_is_missing_only_where_wals_are(tmp_path: Path) -> None:
    with pytest.raises(WrongRoot, match="there is no such folder"):
        planned(WalStore(f"file://{tmp_path}/nowhere"))
    (tmp_path / "oldWALs").mkdir()
    with pytest.raises(WalMissing, match="is queued, but there is no such file"):
        planned(WalStore(f"file://{tmp_path}"))


def test_a_local_file_that_was_not_closed_is_as_long_as_it_is(splitting: Path, tmp_path: Path) -> None:
    splitting.write_bytes(WHOLE)
    wal = planned(WalStore(f"file://{tmp_path}", look_only=True))
    assert (wal.size, wal.growing) == (len(WHOLE), False)
