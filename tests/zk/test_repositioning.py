"""An operator sets a queued WAL's position: under the lease, to the start of an entry, leaving nothing out unasked."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from tests.sessions import session_of
from tests.unit.hbase.wal.encoder import encode_wal
from tests.unit.hbase.wal.memory_file import MemoryFile
from tests.unit.replication.filters.test_entry_filter import entry, put
from tests.zk.hbase_znodes import DEAD, SERVER, HBaseZNodes, prefixed, wal
from walferry.base.zk.errors import Contention
from walferry.hbase.files import closedness
from walferry.hbase.names import parse_wal_name
from walferry.hbase.values import decode_position, encode_position
from walferry.hbase.wal.reader import read_wal_batches
from walferry.replication.queues.errors import LastWal, LeaseHeld, WalGone
from walferry.replication.queues.lease import acquire
from walferry.replication.source.cluster import SourceCluster
from walferry.replication.source.session import Session
from walferry.shipping import repositioning
from walferry.shipping.repositioning import PositionRefused, look, set_position

CONTENT = encode_wal([entry(put(value=b"v" * i)) for i in range(6)])
(WAL_BATCH,) = read_wal_batches(MemoryFile(CONTENT), "wal", 0, partial_tail="error")
STARTS = WAL_BATCH.positions.tolist()


class At:
    """A queue of a dead server with one WAL."""

    def __init__(self, zk: KazooClient, hbase: HBaseZNodes, folder: Path) -> None:
        self.hbase, self.name, self.folder = hbase, wal(1, DEAD), folder
        (folder / "oldWALs").mkdir()
        (folder / "WALs").mkdir()
        (folder / "oldWALs" / self.name).write_bytes(CONTENT)
        self.source = SourceCluster(quorum="", wal_root=f"file://{folder}", znode_parent=hbase.nodes.base, root=hbase.root)
        self.session = Session(self.source, zk)
        self.path = hbase.add_wal(DEAD, "p", self.name)

    def begin(self, value: bytes) -> None:
        self.hbase.zk.set(self.path, value)

    @property
    def position(self) -> int:
        return decode_position(self.hbase.zk.get(self.path)[0], self.path)


@pytest.fixture
def at(zk: KazooClient, hbase: HBaseZNodes, tmp_path: Path) -> At:
    return At(zk, hbase, tmp_path)


@pytest.mark.parametrize(
    ("before", "to", "again"),
    [
        (encode_position(len(CONTENT) + 4096), 0, 6),  # beyond the end, as HBASE-29987 leaves it
        (encode_position(STARTS[3] + 5), 0, 6),  # within an entry
        (encode_position(STARTS[3]), STARTS[1], 2),
        (encode_position(int(WAL_BATCH.next_positions[-1])), STARTS[4], 2),  # all of it is shipped
        (prefixed(b"PBUF\xff"), 0, 6),
    ],
)
def test_a_position_goes_back_to_the_start_of_an_entry(at: At, before: bytes, to: int, again: int) -> None:
    at.begin(before)
    change = look(at.session, "p", at.name, to)
    assert at.hbase.zk.get(at.path)[0] == before, "a look has changed the position"
    assert (change.again, change.left_out, change.entries) == (again, 0, 6)
    done = set_position(at.session, "p", at.name, to, "operator")
    assert (done.before, done.again, done.left_out) == (change.before, again, 0)
    assert at.position == to


def test_only_the_start_of_an_entry_is_taken(at: At) -> None:
    at.begin(encode_position(STARTS[3]))
    for to in (1, STARTS[2] + 1, len(CONTENT), len(CONTENT) + 1):
        with pytest.raises(PositionRefused, match=f"begins at byte {to}: one begins at byte") as refused:
            set_position(at.session, "p", at.name, to, "operator", leave_out=True)
        assert "0 for the whole file" in str(refused.value)
    assert at.position == STARTS[3]


WRONG = [encode_position(len(CONTENT) + 4096), encode_position(STARTS[4] + 5), prefixed(b"PBUF\xff")]  # invalid here


@pytest.mark.parametrize("before", [encode_position(STARTS[1]), b"", *WRONG])
def test_nothing_is_left_out_unless_that_is_said(at: At, before: bytes) -> None:
    at.begin(before)
    with pytest.raises(PositionRefused, match=r"entries of .* before byte .* would be left out.*--leave-out"):
        set_position(at.session, "p", at.name, STARTS[4], "operator")
    assert at.hbase.zk.get(at.path)[0] == before
    assert set_position(at.session, "p", at.name, STARTS[4], "operator", leave_out=True).left_out in (3, 4)
    assert at.position == STARTS[4]


def test_a_position_that_was_changed_since_it_was_looked_at_stays(at: At, monkeypatch: pytest.MonkeyPatch) -> None:
    """HBase may have claimed the queue meanwhile, and set the position."""
    look_at = repositioning.look

    def and_then(*args: Any) -> repositioning.PositionChange:
        change = look_at(*args)
        at.begin(encode_position(STARTS[4]))
        return change

    at.begin(encode_position(STARTS[3]))
    monkeypatch.setattr(repositioning, "look", and_then)
    with pytest.raises(Contention, match="was moved or changed"):
        set_position(at.session, "p", at.name, STARTS[1], "operator")
    assert at.position == STARTS[4]


def test_of_a_wal_that_is_not_closed_no_position_is_set(at: At, monkeypatch: pytest.MonkeyPatch) -> None:
    """The seeming end of the WAL may be the middle of an entry."""
    for timestamp in (1, 2):
        at.hbase.add_wal(SERVER, "p", wal(timestamp))
    folder = at.folder / "WALs" / SERVER
    folder.mkdir()
    (folder / wal(1)).write_bytes(CONTENT[: STARTS[4]])
    monkeypatch.setattr(closedness, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(repositioning, "await_closed", partial(closedness.await_closed, timeout_seconds=0.1))
    with pytest.raises(closedness.WalNotClosed):
        set_position(at.session, "p", wal(1), STARTS[1], "operator", leave_out=True)
    assert at.hbase.zk.get(at.hbase.nodes.wal(SERVER, "p", wal(1)))[0] == b""


def test_the_group_s_holder_and_a_live_server_s_newest_wal_are_left_alone(at: At, new_client: Callable[[], KazooClient]) -> None:
    lease = acquire(session_of(new_client(), at), "p", parse_wal_name(at.name).group, "a run")
    with lease, pytest.raises(LeaseHeld, match="a run"):
        set_position(at.session, "p", at.name, 0, "operator")
    at.hbase.add_wal(SERVER, "p", wal(5))
    with pytest.raises(LastWal):
        set_position(at.session, "p", wal(5), 0, "operator")
    with pytest.raises(WalGone):
        set_position(at.session, "p", wal(7), 0, "operator")
