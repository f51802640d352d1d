"""Values that end like a closed WAL, `int32 n, "LAWP"`: each edit arrives, and no WAL counts as closed because of one."""

from __future__ import annotations

import struct
import threading
from pathlib import Path

import pytest

from embedded.client import GLOBAL
from embedded.wire import put
from tests.cluster.dead_queues import DeadQueue, Recording, record_edits
from tests.cluster.test_bad_input import rows_at
from tests.cluster.walferry_runs import plan, positions, roll, ship_one
from walferry.engine import run
from walferry.engine.summary import Status
from walferry.shipping import closed_wal

MESSAGE = b"\x08\x01" * 20
SIZES = (0, 2, 3, len(MESSAGE), 150, 300, 100_000, -1)  # of the seeming trailer; some are as long as the whole entry, or longer


def ending(size: int) -> bytes:
    return MESSAGE + struct.pack(">i", size) + b"LAWP"


@pytest.fixture
def recording(sides, both) -> Recording:
    """A put for each size, then one with two such values, then one that ends like nothing."""
    edits = [put(f"row{i:04}", {"f:q": ending(size)}) for i, size in enumerate(SIZES)]
    edits += [put("two", {"f:a": ending(0), "f:b": ending(0)}), put("zzz", {"f:q": b"v"})]
    return record_edits(sides.source, both({"f": GLOBAL}), edits)


def test_a_dead_servers_wals_that_end_so_are_shipped_to_their_last_whole_entry(sides, recording, peer):
    queue = DeadQueue(sides.at, sides.source, peer)
    for written in recording.puts[: len(SIZES)]:
        queue.add(recording.content[: written.end])
    inside = recording.content.index(ending(0), recording.puts[len(SIZES) - 1].end) + len(ending(0))
    assert inside < recording.puts[len(SIZES)].end
    queue.add(recording.content[:inside])  # the newest WAL: the part of its last entry ends like this
    assert not any(wal.finished for group in plan(sides.at, peer).groups for wal in group.wals)

    summary = ship_one(sides.at, peer, roll_first=False, groups=[queue.group])
    assert summary.status is Status.DONE, summary.error
    assert (summary.completedLogs, summary.uncleanlyClosedLogs) == (len(SIZES) + 1, len(SIZES) + 1)
    assert rows_at(sides.peer_cluster, recording.table) == [f"row{i:04}" for i in range(len(SIZES))]
    assert queue.positions() == {}


def test_a_live_servers_wal_that_ends_so_is_neither_swept_nor_given_up_before_it_is_closed(sides, both, peer, monkeypatch):
    table = both({"f": GLOBAL})
    sides.source.write(table, [put(f"row{i}", {"f:q": ending(0)}) for i in range(5)], one_by_one=True)
    roll(sides.at, peer)
    (group,) = plan(sides.at, peer).groups
    (wal,) = (Path(wal.url.removeprefix("file://")) for wal in group.wals)
    closed = wal.read_bytes()
    ends = [e.end for e in sides.source.read_wal(f"file://{wal}") if e.table == table and e.scopes]
    open_at = closed[: ends[2]]  # as its server left it open a moment ago: the newer WAL is queued, this one not closed

    wal.write_bytes(open_at)
    assert not any(wal.finished for group in plan(sides.at, peer).groups for wal in group.wals)
    with monkeypatch.context() as patch:
        for module in (closed_wal, run):
            patch.setattr(module, "CLOSE_TIMEOUT_SECONDS", 0.5)
        summary = ship_one(sides.at, peer, roll_first=False)
    assert summary.status is Status.FAILED
    assert "what looks like its trailer is part of an entry" in summary.error
    assert positions(sides.at, peer)[wal.name] == len(open_at)
    assert not any(wal.finished for group in plan(sides.at, peer).groups for wal in group.wals)

    writer = threading.Timer(2, wal.write_bytes, [closed])
    writer.start()
    done = ship_one(sides.at, peer, roll_first=False, run_id="closed meanwhile")
    writer.join()
    assert (done.status, done.uncleanlyClosedLogs) == (Status.DONE, 0), done.error
    assert sides.source.compare(table, sides.peer_cluster).same
    assert wal.name not in positions(sides.at, peer)
