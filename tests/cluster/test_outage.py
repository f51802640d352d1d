"""The slave, or the source's ZooKeeper, goes away in mid-shipment and comes back: the run goes on, or the next one does."""

from __future__ import annotations

import time

import pytest

from embedded.client import even_splits
from tests.cluster.proxy import proxied_zookeeper
from tests.cluster.test_shipping import eventually
from tests.cluster.walferry_runs import Shipping, WalTruth, await_progress, plan, positions, roll, ship_one
from walferry.lanes import LaneLimits
from walferry.source import SourceCluster
from walferry.summary import Status

ROWS = 30_000  # of 1 kB: seconds of shipping
SMALL = LaneLimits(shipment_bytes=64 << 10, buffer_bytes=1 << 20)


@pytest.fixture
def backlog(sides, both):
    """`backlog(peer)` → name of a table whose rows are queued for the peer, and the truth about its WALs."""

    def write(peer: str, rows: int = ROWS) -> tuple[str, WalTruth]:
        table = both(splits=even_splits(8))  # regions for all lanes: entries are not acknowledged in the WAL's order
        sides.source.put_many(table, rows, ["f:a"], value_bytes=1000, batch=20)
        roll(sides.at, peer)
        truth = WalTruth(sides.at, peer, sides.source, sides.slave)
        assert truth.read_closed()
        return table, truth

    return write


def through_proxy(sides, port: int) -> SourceCluster:
    return SourceCluster(quorum=f"localhost:{port}", wal_root=sides.at.wal_root, znode_parent=sides.at.znode_parent)


@pytest.mark.parametrize("how", ["kill -9", pytest.param("in order", marks=pytest.mark.soak)])
def test_a_run_outlives_a_slave_that_is_stopped_and_started_again(sides, peer, backlog, how):
    table, truth = backlog(peer)
    before = positions(sides.at, peer)
    with Shipping(sides.at, peer, roll_first=False, limits=SMALL, deadline=400) as shipping:
        await_progress(sides.at, peer, before)
        sides.slave_cluster.kill() if how == "kill -9" else sides.slave_cluster.stop()
        was_running = shipping.running
        sides.slave_cluster.start()
        summary = shipping.summary(400)
    assert was_running
    assert summary.status is Status.DONE, summary.error
    assert summary.failedBatches > 0
    truth.check()
    assert not truth.unfinished
    assert sides.source.compare(table, sides.slave).same


@pytest.mark.parametrize("what", ["zookeeper and server", "server"])
def test_while_the_slave_is_away_nothing_moves_and_the_run_after_ships_it(sides, proxied, proxied_peer, backlog, what):
    table, truth = backlog(proxied_peer, 2000)
    queued = positions(sides.at, proxied_peer).keys()
    proxied.sink.cut()
    if what == "zookeeper and server":
        proxied.zookeeper.cut()
    summary = ship_one(sides.at, proxied_peer, roll_first=False, deadline=4)
    assert summary.status is Status.FAILED
    print(f"unreachable slave ({what}): {summary.error}")
    assert f"slave localhost:{proxied.zookeeper.port}:/proxied" in (summary.error or "")
    assert "acknowledged nothing until the deadline" in (summary.error or "")
    assert positions(sides.at, proxied_peer).keys() == queued
    assert truth.check() == 0
    assert summary.shippedBatches == 0

    proxied.sink.mend()
    if what == "zookeeper and server":
        proxied.zookeeper.mend()
    assert ship_one(sides.at, proxied_peer, roll_first=False, run_id="again").status is Status.DONE
    assert sides.source.compare(table, sides.slave).same


def test_a_slave_that_goes_silent_while_a_window_is_handed_out_has_all_before_the_position(
    sides, proxied, proxied_peer, backlog
):
    """Some lanes have entries of the window then, others none yet, and those may lie before."""
    table, truth = backlog(proxied_peer, 8000)
    proxied.sink.requests.hold_after(1 << 20)
    with Shipping(sides.at, proxied_peer, roll_first=False, limits=SMALL, lanes=8, deadline=8) as shipping:
        proxied.sink.requests.await_held()
        time.sleep(3)  # for some registrations
        proxied.sink.cut()
        summary = shipping.summary()
    assert summary.status is Status.FAILED, summary.error
    truth.check()
    assert truth.unfinished

    proxied.sink.requests.let_go()
    proxied.sink.mend()
    assert ship_one(sides.at, proxied_peer, roll_first=False, run_id="again").status is Status.DONE
    assert sides.source.compare(table, sides.slave).same


def test_what_was_applied_but_not_acknowledged_is_shipped_again(sides, proxied, proxied_peer, backlog):
    """The answers are lost on their way: the slave has the cells, and only a second acknowledgement counts."""
    table, truth = backlog(proxied_peer, 2000)
    proxied.sink.answers.hold()
    with Shipping(sides.at, proxied_peer, roll_first=False, limits=SMALL) as shipping:
        eventually(lambda: sides.slave.count_rows(table) > 0, "a shipment is applied")
        assert truth.check() == 0
        proxied.sink.cut()
        proxied.sink.answers.let_go()
        proxied.sink.mend()
        summary = shipping.summary()
    assert summary.status is Status.DONE, summary.error
    assert summary.failedBatches > 0
    assert summary.shippedCells == 2000  # counted once, when acknowledged
    assert sides.source.compare(table, sides.slave).same


def test_a_run_outlives_a_short_loss_of_the_sources_zookeeper(sides, proxied, proxied_peer, backlog):
    table, truth = backlog(proxied_peer, 6000)
    proxied.sink.requests.speed = 2 << 20
    with proxied_zookeeper(sides.at.quorum) as zookeeper:
        source = through_proxy(sides, zookeeper.port)
        before = positions(sides.at, proxied_peer)
        with Shipping(source, proxied_peer, roll_first=False, limits=SMALL) as shipping:
            await_progress(sides.at, proxied_peer, before)
            zookeeper.cut()
            time.sleep(3)
            assert truth.check() > 0
            zookeeper.mend()
            summary = shipping.summary()
    assert summary.status is Status.DONE, summary.error
    truth.check()
    assert not truth.unfinished
    assert sides.source.compare(table, sides.slave).same


@pytest.mark.soak
def test_a_run_that_lost_its_session_writes_nothing_more_and_the_next_goes_on(sides, proxied, proxied_peer, backlog):
    table, truth = backlog(proxied_peer, 6000)
    proxied.sink.requests.speed = 200 << 10
    with proxied_zookeeper(sides.at.quorum) as zookeeper:
        source = through_proxy(sides, zookeeper.port)
        before = positions(sides.at, proxied_peer)
        with Shipping(source, proxied_peer, roll_first=False, limits=SMALL) as shipping:
            await_progress(sides.at, proxied_peer, before)
            zookeeper.cut()
            left = positions(sides.at, proxied_peer)
            proxied.sink.requests.speed = 20 << 20
            # Another run waits for the lease that goes with the lost session, and ships the rest.
            other = ship_one(sides.at, proxied_peer, roll_first=False, run_id="other")
            assert other.status is Status.DONE, other.error
            zookeeper.mend()
            summary = shipping.summary()
    assert left != before
    assert summary.status is Status.FAILED
    print(f"lost session: {summary.error}")
    assert f"of peer {proxied_peer} is lost" in (summary.error or "")
    truth.check()
    assert not truth.unfinished
    assert sides.source.compare(table, sides.slave).same


@pytest.mark.soak
def test_after_the_source_cluster_died_in_mid_shipment_a_run_ships_the_dead_servers_queue(sides, peer, backlog):
    """HBase and its ZooKeeper at once; the queue stays under the dead server's name, or is claimed meanwhile."""
    table, truth = backlog(peer)
    before = positions(sides.at, peer)
    with Shipping(sides.at, peer, roll_first=False, limits=SMALL, deadline=60) as shipping:
        await_progress(sides.at, peer, before)
        sides.source_cluster.kill()
        sides.source_cluster.start()
        summary = shipping.summary()
    print(f"source died: {summary.status} {summary.error}")
    truth.check()
    while plan(sides.at, peer).to_ship:
        summary = ship_one(sides.at, peer, roll_first=False, run_id="after")
        assert summary.status is Status.DONE, summary.error
    truth.check()
    assert not truth.unfinished
    assert sides.source.compare(table, sides.slave).same
