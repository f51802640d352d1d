"""The right to ship rows of a scan, in a real ZooKeeper: the next holder waits for the requests of a killed task."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from kazoo.client import KazooClient

from tests.sessions import session_of
from tests.zk.hbase_znodes import HBaseZNodes, expire
from walferry.base.zk.client import children
from walferry.base.zk.right import LEAST_SPARE_SECONDS, Right
from walferry.hbase.errors import EnabledPeer
from walferry.hbase.tables.snapshots import SnapshotRegion
from walferry.initial_snapshot.region_copy import copy_rows
from walferry.replication.locks import peer_lock
from walferry.replication.locks.peer_lock import NO_TURN, RightLost, RowsTaken, holding_peer, row_right, turn_of
from walferry.replication.source.cluster import SourceCluster
from walferry.replication.source.peers import read_peer
from walferry.shipping import rows
from walferry.shipping.garbage_collection import collect_garbage_of_gone_peers
from walferry.verification.repair import repairing

SECONDS = 1.0
WHOLE = SECONDS + LEAST_SPARE_SECONDS  # a request may take effect for so long


@contextmanager
def next_run(zk: KazooClient, at: SourceCluster) -> Iterator[tuple[str, float]]:
    """Yield another run that holds the peer lock: its attempt, and how long it has waited for the lock."""
    planned, began = turn_of(session_of(zk, at), "p", "next").number, time.monotonic()
    with holding_peer(at, "p", "next", "batch 1", planned) as attempt:
        yield attempt, time.monotonic() - began


def test_the_next_holder_of_a_peer_waits_for_the_requests_of_a_killed_one_s_task(
    zk: KazooClient, new_client: Callable[[], KazooClient], at: SourceCluster
) -> None:
    task = new_client()
    with holding_peer(at, "p", "repair", "repair", NO_TURN) as attempt:
        rights = row_right(session_of(task, at), "p", attempt, "a region", "rows of it", SECONDS)
        right = rights.__enter__()
        right.begin(SECONDS).may_go_on()
        expire(task)  # with its process
    with next_run(zk, at) as (_, waited):
        assert waited > WHOLE - 0.5
    with next_run(zk, at) as (_, waited):
        assert waited < 1, "what has come to its end is waited for again"
    assert not children(zk, session_of(zk, at).own.row_shipments("p"))


def test_the_next_holder_waits_no_longer_than_a_task_that_ended_well_has_said(zk: KazooClient, at: SourceCluster) -> None:
    session = session_of(zk, at)
    with holding_peer(at, "p", "copy", "copy", NO_TURN) as attempt:
        with row_right(session, "p", attempt, "a region", "rows of it", 600.0) as right, right.request(600.0) as request:
            request.may_go_on()
        assert not children(zk, session.own.row_shipments("p")), "nothing is to be waited for"
        with row_right(session, "p", attempt, "a region", "rows of it", 600.0) as right:
            request = right.begin(SECONDS)
            request.may_go_on()
            request.cut()
        time.sleep(1)
    with next_run(zk, at) as (_, waited):
        assert WHOLE - 2 < waited < WHOLE - 0.5


def test_a_task_waits_for_the_requests_of_the_killed_one_in_whose_place_it_comes(
    zk: KazooClient, new_client: Callable[[], KazooClient], at: SourceCluster
) -> None:
    session, killed = session_of(zk, at), new_client()
    with holding_peer(at, "p", "copy", "copy", NO_TURN) as attempt:
        before = row_right(session_of(killed, at), "p", attempt, "a region", "rows of it", SECONDS)
        before.__enter__().begin(SECONDS).may_go_on()
        with row_right(session, "p", attempt, "another region", "rows of it", SECONDS) as right:
            assert right.is_sure()
        with (
            pytest.raises(RowsTaken, match="rows of it are shipped by a task on"),
            row_right(session, "p", attempt, "a region", "rows of it", SECONDS),
        ):
            pytest.fail("two tasks ship the same rows")
        expire(killed)
        began = time.monotonic()
        with row_right(session, "p", attempt, "a region", "rows of it", SECONDS) as right:
            assert time.monotonic() - began > WHOLE - 0.5
            assert right.is_sure()


def test_nothing_more_is_sent_once_another_run_has_the_peer(zk: KazooClient, at: SourceCluster) -> None:
    session = session_of(zk, at)
    with holding_peer(at, "p", "copy", "copy", NO_TURN) as attempt:
        rights = row_right(session, "p", attempt, "a region", "rows of it", SECONDS)
        right = rights.__enter__()
        assert right.is_sure()
    with next_run(zk, at) as (theirs, _):
        with pytest.raises(RightLost, match="lock of peer p"):
            right.is_sure()
        with row_right(session, "p", theirs, "of theirs", "rows of it", SECONDS) as right:
            assert right.is_sure()


def test_nothing_more_is_sent_once_the_peer_was_enabled(zk: KazooClient, hbase: HBaseZNodes, at: SourceCluster) -> None:
    """HBase ships edits newer than the rows that were read: also deletions, which the peer cluster may have compacted away
    since."""
    session = session_of(zk, at)
    with (
        holding_peer(at, "p", "copy", "copy", NO_TURN) as attempt,
        row_right(session, "p", attempt, "a region", "rows of it", SECONDS) as right,
    ):
        assert right.is_sure()
        hbase.set_state("p", "ENABLED")
        with pytest.raises(EnabledPeer):
            right.is_sure()
        hbase.set_state("p", "DISABLED")
        with pytest.raises(EnabledPeer, match="RegionServers may have begun to ship it"):
            right.is_sure()


def test_an_initial_snapshot_and_a_repair_send_by_this_right(
    zk: KazooClient, at: SourceCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, rights = session_of(zk, at), list[Right]()

    @contextmanager
    def open_sink(*_: object, right: Right, **__: object) -> Iterator[Any]:
        rights.append(right)
        yield SimpleNamespace(id=uuid.uuid4(), sender=lambda: None)

    monkeypatch.setattr(rows, "open_sink", open_sink)
    peer: Any = read_peer(session, "p")
    tables: Any = SimpleNamespace(scan=lambda *_: ())
    with holding_peer(at, "p", "copy", "copy", NO_TURN) as attempt:
        copy_rows(session, peer, tables, SnapshotRegion("t", "abc", b"", b"", ()), [b"f"], attempt)
    with repairing(session, peer, "t"):
        pass
    with next_run(zk, at):
        for right in rights:
            with pytest.raises(RightLost):
                right.is_sure()
    assert len(rights) == 2


def test_a_longer_request_is_told_to_the_next_holder(
    zk: KazooClient, new_client: Callable[[], KazooClient], at: SourceCluster
) -> None:
    task = new_client()
    with holding_peer(at, "p", "repair", "repair", NO_TURN) as attempt:
        rights = row_right(session_of(task, at), "p", attempt, "a region", "rows of it", 0.1)
        rights.__enter__().begin(3.0).may_go_on()
        expire(task)
    with next_run(zk, at) as (_, waited):
        assert waited > 3.0 + LEAST_SPARE_SECONDS - 0.5


def test_what_tasks_for_a_peer_that_is_gone_have_left_is_swept(
    zk: KazooClient, hbase: HBaseZNodes, new_client: Callable[[], KazooClient], at: SourceCluster
) -> None:
    task, killed = new_client(), []
    hbase.add_peer("gone")
    for peer in ("p", "gone"):
        with holding_peer(at, peer, "repair", "repair", NO_TURN) as attempt:
            killed.append(row_right(session_of(task, at), peer, attempt, "region", "rows of it", SECONDS))
            killed[-1].__enter__()
    expire(task)
    zk.delete(hbase.nodes.peer("gone"), recursive=True)
    collect_garbage_of_gone_peers(session_of(zk, at))
    own = session_of(zk, at).own
    assert (children(zk, own.row_shipments("gone")), children(zk, own.row_shipments("p"))) == (None, ["region"])


@pytest.mark.parametrize("during", ["turn_of_attempt", "read"])
def test_a_right_that_is_lost_while_it_is_looked_after_is_not_sure(
    new_client: Callable[[], KazooClient], at: SourceCluster, monkeypatch: pytest.MonkeyPatch, during: str
) -> None:
    client = new_client()
    with holding_peer(at, "p", "copy", "copy", NO_TURN) as attempt:
        rights = row_right(session_of(client, at), "p", attempt, "a region", "rows of it", SECONDS)
        right = rights.__enter__()
        really, ended = getattr(peer_lock, during), list[bool]()

        def ends(*arguments: Any) -> Any:
            found = really(*arguments)
            if not ended and (during != "read" or arguments[1] == at.nodes.peer_state("p")):
                ended.append(True)
                expire(client)
                time.sleep(0.5)  # until the client has heard of it
            return found

        monkeypatch.setattr(peer_lock, during, ends)
        with pytest.raises(RightLost):
            right.begin(SECONDS).may_go_on()
        assert ended
