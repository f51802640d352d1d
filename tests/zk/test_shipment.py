"""A task that ships a WAL group's part of an interval again is paused, or meets an initial snapshot. A real ZooKeeper."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from kazoo.client import KazooClient

from embedded.processes import wait_until
from tests.zk.replays import EDITS, NAMES, PeerCluster, World, peer_cluster, soon, world
from walferry.engine.summary import Status
from walferry.load.copy_records import Records, TableRecord
from walferry.load.fence import Claim
from walferry.load.records import Load
from walferry.replication.locks.peer_lock import NO_TURN, holding_peer
from walferry.replication.source.peer_state import disabled_guard
from walferry.replication.source.session import Session

__all__ = ["peer_cluster", "world"]  # fixtures


@pytest.fixture
def at(world: World, zk: KazooClient) -> Session:
    return Session(world.job.source, zk)


def test_a_task_whose_peer_is_paused_stops_within_seconds_and_goes_on_where_it_was(
    world: World, peer_cluster: PeerCluster, caplog: pytest.LogCaptureFixture
) -> None:
    with ThreadPoolExecutor(1) as pool:
        shipping = pool.submit(world.ship)
        wait_until(soon(peer_cluster, EDITS + 3), "it ships the second WAL", processes=[], timeout=60)
        peer_cluster.seconds = 1.0  # so that much is left when the pause is seen
        world.pause(True)
        summary = shipping.result(15)
    assert (summary.status, summary.failed) == (Status.PAUSED, False)
    assert summary.error
    assert "it is paused" in summary.error
    assert not [record for record in caplog.records if record.exc_info], "no traceback"
    assert len(set(peer_cluster.got)) < 2 * EDITS
    peer_cluster.got.clear()
    peer_cluster.seconds = 0.0
    assert world.ship().status is Status.PAUSED
    assert peer_cluster.got == []
    world.pause(False)
    assert world.ship().status is Status.DONE
    assert peer_cluster.got == list(range(EDITS, 2 * EDITS)), "the first WAL was done"


def test_what_is_older_than_the_peer_s_initial_snapshot_is_left_out(world: World, peer_cluster: PeerCluster, at: Session) -> None:
    peer_cluster.seconds = 0.0
    with holding_peer(world.job.source, "q", "copy", "an initial snapshot", NO_TURN) as attempt:
        records = Records(at, "q", Claim(at, "q", attempt, disabled_guard(at, "q").version))
        state = records.begin("copy")
        first = records.add_border(Load("copy", {world.files.group: NAMES[0]}, initial_snapshot=True))
        records.begin_table("t", TableRecord("life", first, whole=True, families=("f",)))
        records.complete(replace(state, complete=True))
    assert world.ship().status is Status.DONE
    assert peer_cluster.got == list(range(EDITS, 2 * EDITS))


def test_nothing_is_shipped_while_an_initial_snapshot_is_under_way(world: World, peer_cluster: PeerCluster, at: Session) -> None:
    def copying() -> None:
        with holding_peer(world.job.source, "q", "copy", "an initial snapshot", NO_TURN) as attempt:
            Records(at, "q", Claim(at, "q", attempt, disabled_guard(at, "q").version)).begin("copy")

    with ThreadPoolExecutor(1) as pool:
        shipping = pool.submit(world.ship)
        wait_until(soon(peer_cluster, 3), "it ships", processes=[], timeout=60)
        peer_cluster.seconds = 1.0  # so that much is left when the copy is seen
        copying()
        summary = shipping.result(15)
    assert summary.status is Status.FAILED
    assert "its initial snapshot, begun by run copy, is not complete" in str(summary.error)
    assert len(set(peer_cluster.got)) < EDITS
    peer_cluster.got.clear()
    assert world.ship().status is Status.FAILED
    assert peer_cluster.got == []
