"""The status of real clusters: lag while a peer cluster is down, after shipping, and of WALs that are being written."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from embedded.client import GLOBAL
from tests.cluster.walferry_runs import roll, ship, ship_one
from walferry.engine.summary import Status
from walferry.observe.status.ages import Certainty
from walferry.observe.status.history import INTERVAL_SECONDS, read_histories, record
from walferry.observe.status.model import BytesLeft, PeerStatus, SourceStatus
from walferry.observe.status.statuses import Statuses, look_at_old_wals
from walferry.observe.status.view import view
from walferry.replication.queues import rolling
from walferry.replication.source.cluster import SourceCluster
from walferry.replication.source.session import open_session

ROWS = 200


def status_of(source: SourceCluster) -> SourceStatus:
    """Return a status without any history."""
    return Statuses(files_seconds=30, peer_clusters_seconds=15).of(source)


def peer_of(source: SourceCluster, peer_id: str) -> PeerStatus:
    status = status_of(source)
    assert status.unreachable is None
    return next(peer for peer in status.peers or () if peer.id == peer_id)


def now_ms() -> int:
    return int(time.time() * 1000)


def test_the_lag_grows_while_the_peer_cluster_is_down_and_goes_when_all_is_shipped(sides, proxied, proxied_peer, both) -> None:
    table = both()
    before = now_ms()
    sides.source.put_many(table, ROWS, ["f:a"])
    written = now_ms()
    roll(sides.at, proxied_peer)

    behind = peer_of(sides.at, proxied_peer)
    assert behind.peer_cluster.reachable is True
    assert (behind.state, behind.managed, behind.refusal) == ("DISABLED", True, None)
    assert behind.closed_lag.certainty is Certainty.EXACT
    assert behind.closed_lag.ms is not None
    assert now_ms() - written < behind.closed_lag.ms + 60_000
    assert behind.closed_lag.ms <= now_ms() - before + 60_000
    assert (behind.replicationLag, behind.wals_left) == (behind.closed_lag, 1)
    assert behind.bytes_left is not None
    assert behind.bytes_left.known > 1000
    assert behind.bytes_left.unsure == 0
    assert (behind.last_success_ms, behind.error, behind.ageOfLastShippedOp) == (None, None, None)

    proxied.zookeeper.cut()
    proxied.sink.cut()
    assert ship_one(sides.at, proxied_peer, roll_first=False, deadline=4, run_id="down").status is Status.PEER_DOWN
    down = peer_of(sides.at, proxied_peer)
    assert down.peer_cluster.reachable is False
    assert f"localhost:{proxied.zookeeper.port}" in (down.peer_cluster.why or "")
    assert down.closed_lag.ms is not None
    assert down.closed_lag.ms > behind.closed_lag.ms + 3000
    assert "has acknowledged nothing since" in (down.error or "")
    assert down.failing_since_ms == pytest.approx(now_ms(), abs=60_000)
    assert down.bytes_left == behind.bytes_left
    (queue,) = down.queues or ()
    (group,) = queue.groups
    assert group.last_run is not None
    assert (group.last_run.run_id, group.last_run.status, group.holder) == ("down", "peer-down", None)

    proxied.zookeeper.mend()
    proxied.sink.mend()
    assert ship_one(sides.at, proxied_peer, roll_first=False, run_id="up").status is Status.DONE
    shipped = peer_of(sides.at, proxied_peer)
    assert shipped.closed_lag.nothing_waits
    assert (shipped.wals_left, shipped.bytes_left, shipped.error) == (0, BytesLeft(0, 0), None)
    assert shipped.ageOfLastShippedOp is not None
    assert shipped.ageOfLastShippedOp > behind.closed_lag.ms - 60_000
    assert shipped.last_success_ms == pytest.approx(now_ms(), abs=60_000)
    assert shipped.peer_cluster.reachable is True


def test_an_edit_in_a_wal_that_is_being_written_waits(sides, peer, both) -> None:
    table = both()
    roll(sides.at, peer)
    ship(sides.at, peer, roll_first=False)
    sides.source.put_many(table, 1, ["f:a"])
    waiting = peer_of(sides.at, peer)
    assert waiting.closed_lag.nothing_waits
    assert not waiting.replicationLag.nothing_waits
    assert waiting.replicationLag.ms is not None
    assert 0 < waiting.replicationLag.ms < 120_000
    assert waiting.replicationLag.certainty is Certainty.EXACT
    assert (waiting.wals_left, waiting.sizeOfLogQueue) == (0, 1)


def test_without_the_files_the_lag_is_a_bound_and_the_bytes_are_not_known(sides, peer, both) -> None:
    table = both()
    sides.source.put_many(table, ROWS, ["f:a"])
    roll(sides.at, peer)
    exact = peer_of(sides.at, peer)
    elsewhere = replace(sides.at, wal_root=sides.at.wal_root + "/elsewhere")
    blind = peer_of(elsewhere, peer)
    assert exact.replicationLag.certainty is Certainty.EXACT
    assert blind.replicationLag.certainty is Certainty.AT_MOST
    assert (blind.replicationLag.ms or 0) > (exact.replicationLag.ms or 0)
    assert blind.bytes_left == BytesLeft(0, unsure=1)
    assert any("/elsewhere" in problem for problem in status_of(elsewhere).problems)


def test_a_status_of_a_real_cluster_is_recorded(sides, peer, both) -> None:
    sides.source.put_many(both(), ROWS, ["f:a"])
    begun = int(time.time()) // INTERVAL_SECONDS
    summary = ship_one(sides.at, peer)
    status = status_of(sides.at)
    with open_session(sides.at) as session:
        assert record(session, status) >= 1
        assert record(session, status) == 0
        (sample,) = read_histories(session, [peer])[0][peer]
    assert begun <= sample.interval <= begun + 1
    assert (sample.wals_left, sample.bytes_left) == (0, 0)
    assert sample.shipped_bytes == summary.shippedBytes > 0


@pytest.fixture
def hdfs_peer(many_servers, managed_peer) -> str:
    return managed_peer(many_servers.source_cluster.address, many_servers.peer_hbase.address)


def test_on_hdfs_an_open_wal_is_not_believed_to_be_empty_and_the_disk_s_end_is_foreseen(many_servers, hdfs_peer, unique) -> None:
    at, table = many_servers.at, unique("t")
    for client in (many_servers.source, many_servers.peer_cluster):
        client.create_table(table, {"f": GLOBAL})
    many_servers.source.put_many(table, ROWS, ["f:a"])
    with open_session(at) as session:
        assert not rolling.roll(session, [hdfs_peer]).failures
    behind = peer_of(at, hdfs_peer)
    assert behind.closed_lag.certainty is Certainty.EXACT
    assert behind.bytes_left is not None
    assert (behind.bytes_left.known > 1000, behind.bytes_left.unsure) == (True, 0)
    assert len(status_of(at).live_servers or ()) == len(many_servers.source.region_servers())

    assert all(summary.status is Status.DONE for summary in ship(at, hdfs_peer, roll_first=False))
    many_servers.source.put_many(table, ROWS, ["f:a"])
    waiting = peer_of(at, hdfs_peer)
    assert waiting.closed_lag.nothing_waits
    assert not waiting.replicationLag.nothing_waits  # the NameNode does not know yet that there are edits
    assert waiting.replicationLag.certainty is Certainty.AT_MOST

    with open_session(at, look_only=True) as session:
        old = look_at_old_wals(session.store, view(session))
    assert old.problem == ""
    assert old.forecast.space is not None
    assert old.forecast.space.capacity > old.forecast.space.remaining > 0
