"""The peer cluster, or the source's ZooKeeper, goes away in mid-shipment and comes back: this run or the next one goes on."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from kazoo.client import KazooClient

from embedded.client import even_splits
from tests.cluster.proxy import proxied_zookeeper
from tests.cluster.test_shipping import eventually
from tests.cluster.walferry_runs import (
    BOTH_SINKS,
    BOTH_SINKS_IN_SOAK,
    Shipping,
    WalTruth,
    await_progress,
    leases,
    plan,
    positions,
    roll,
    ship_one,
)
from tests.sessions import session_of
from walferry.base.security.login import Login
from walferry.base.zk.client import connect, connected, disconnect
from walferry.engine.summary import GroupSummary, Status
from walferry.replication.peers.settings import PeerSettings
from walferry.replication.source.cluster import SourceCluster
from walferry.shipping.runs import read_run

ROWS = 30_000  # of 1 kB: seconds of shipping
BRIEF_SESSION_SECONDS = 4.0
PATIENCE_SECONDS = 8.0
SMALL = PeerSettings(shipment_bytes=64 << 10, buffer_bytes=1 << 20)


@pytest.fixture
def backlog(sides, both):
    """`backlog(peer)` → a table whose rows are queued for the peer, and the truth about its WALs."""

    def write(peer: str, rows: int = ROWS) -> tuple[str, WalTruth]:
        table = both(splits=even_splits(8))  # regions for all senders, so entries are not acknowledged in the WAL's order
        sides.source.put_many(table, rows, ["f:a"], value_bytes=1000, batch=20)
        roll(sides.at, peer)
        truth = WalTruth(sides.at, peer, sides.source, sides.peer_cluster)
        assert truth.read_closed()
        return table, truth

    return write


def through_proxy(sides, port: int) -> SourceCluster:
    return replace(sides.at, quorum=f"localhost:{port}")


def kept(sides, peer: str) -> list[GroupSummary]:
    with connected(sides.at.quorum) as zk:
        return read_run(session_of(zk, sides.at), peer, "test")


@BOTH_SINKS_IN_SOAK
@pytest.mark.parametrize("how", ["kill -9", pytest.param("in order", marks=pytest.mark.soak)])
def test_a_run_outlives_a_peer_cluster_that_is_stopped_and_started_again(sides, peer, backlog, how):
    table, truth = backlog(peer)
    before = positions(sides.at, peer)
    with Shipping(sides.at, peer, roll_first=False, settings=SMALL, deadline=400) as shipping:
        await_progress(sides.at, peer, before)
        sides.peer_hbase.kill() if how == "kill -9" else sides.peer_hbase.stop()
        was_running = shipping.running
        sides.peer_hbase.start()
        summary = shipping.summary(400)
    assert was_running
    assert summary.status is Status.DONE, summary.error
    assert summary.failedBatches > 0
    truth.check()
    assert not truth.unfinished
    assert sides.source.compare(table, sides.peer_cluster).same


@BOTH_SINKS
@pytest.mark.parametrize("what", ["zookeeper and server", "server"])
def test_nothing_moves_while_the_peer_cluster_is_away_and_the_next_run_ships_it(sides, proxied, proxied_peer, backlog, what):
    table, truth = backlog(proxied_peer, 2000)
    queued = positions(sides.at, proxied_peer).keys()
    proxied.sink.cut()
    if what == "zookeeper and server":
        proxied.zookeeper.cut()
    summary = ship_one(sides.at, proxied_peer, roll_first=False, deadline=4)
    assert summary.status is Status.PEER_DOWN
    assert summary.failed
    print(f"unreachable peer cluster ({what}): {summary.error}")
    assert f"peer cluster localhost:{proxied.zookeeper.port}:/proxied" in (summary.error or "")
    assert "has acknowledged nothing since" in (summary.error or "")
    assert "until the deadline" in (summary.error or "")
    assert positions(sides.at, proxied_peer).keys() >= queued
    assert truth.check() == 0
    assert summary.shippedBatches == 0

    proxied.sink.mend()
    if what == "zookeeper and server":
        proxied.zookeeper.mend()
    assert ship_one(sides.at, proxied_peer, roll_first=False, run_id="again").status is Status.DONE
    assert sides.source.compare(table, sides.peer_cluster).same


@BOTH_SINKS
def test_when_a_peer_cluster_goes_silent_in_mid_batch_it_has_everything_before_the_position(
    sides, proxied, proxied_peer, backlog
):
    """By then, some senders have entries of the batch. Others have none yet, and theirs may come before."""
    table, truth = backlog(proxied_peer, 8000)
    proxied.sink.requests.hold_after(1 << 20)
    with Shipping(sides.at, proxied_peer, roll_first=False, settings=SMALL, senders=8, deadline=8) as shipping:
        proxied.sink.requests.await_held()
        time.sleep(3)  # time for some registrations
        proxied.sink.cut()
        summary = shipping.summary()
    assert summary.status is Status.PEER_DOWN, summary.error
    truth.check()
    assert truth.unfinished

    proxied.sink.requests.let_go()
    proxied.sink.mend()
    assert ship_one(sides.at, proxied_peer, roll_first=False, run_id="again").status is Status.DONE
    assert sides.source.compare(table, sides.peer_cluster).same


@BOTH_SINKS
def test_edits_that_were_applied_but_not_acknowledged_are_shipped_again(sides, proxied, proxied_peer, backlog):
    """The answers are lost on their way: the peer cluster has the cells, and only a second acknowledgement counts."""
    table, truth = backlog(proxied_peer, 2000)
    proxied.sink.answers.lock()
    with Shipping(sides.at, proxied_peer, roll_first=False, settings=SMALL) as shipping:
        eventually(lambda: sides.peer_cluster.count_rows(table) > 0, "a shipment is applied")
        assert truth.check() == 0
        proxied.sink.cut()
        proxied.sink.answers.let_go()
        proxied.sink.mend()
        summary = shipping.summary()
    assert summary.status is Status.DONE, summary.error
    assert summary.failedBatches > 0
    assert summary.shippedCells == 2000  # counted once, when acknowledged
    assert sides.source.compare(table, sides.peer_cluster).same


@BOTH_SINKS
def test_a_run_outlives_a_short_loss_of_the_sources_zookeeper(sides, proxied, proxied_peer, backlog):
    table, truth = backlog(proxied_peer, 6000)
    proxied.sink.requests.speed = 2 << 20
    with proxied_zookeeper(sides.at.quorum) as zookeeper:
        source = through_proxy(sides, zookeeper.port)
        before = positions(sides.at, proxied_peer)
        with Shipping(source, proxied_peer, roll_first=False, settings=SMALL) as shipping:
            await_progress(sides.at, proxied_peer, before)
            zookeeper.cut()
            time.sleep(3)
            assert truth.check() > 0
            zookeeper.mend()
            summary = shipping.summary()
    assert summary.status is Status.DONE, summary.error
    truth.check()
    assert not truth.unfinished
    assert sides.source.compare(table, sides.peer_cluster).same


@BOTH_SINKS
@pytest.mark.soak
def test_a_run_that_lost_its_session_writes_nothing_more_and_the_next_goes_on(sides, proxied, proxied_peer, backlog):
    table, truth = backlog(proxied_peer, 6000)
    proxied.sink.requests.speed = 200 << 10
    with proxied_zookeeper(sides.at.quorum) as zookeeper:
        source = through_proxy(sides, zookeeper.port)
        before = positions(sides.at, proxied_peer)
        with Shipping(source, proxied_peer, roll_first=False, settings=SMALL) as shipping:
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
    assert summary.status is Status.DONE, summary.error  # in its own session, with nothing left to do
    truth.check()
    assert not truth.unfinished
    assert sides.source.compare(table, sides.peer_cluster).same


@pytest.fixture
def brief_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions with the source's ZooKeeper end sooner than usual."""

    @contextmanager
    def connected_briefly(quorum: str, *, login: Login) -> Iterator[KazooClient]:
        zk = connect(quorum, login=login, session_timeout=BRIEF_SESSION_SECONDS, call_timeout=5)
        try:
            yield zk
        finally:
            disconnect(zk)

    monkeypatch.setattr("walferry.replication.source.session.connected", connected_briefly)


def test_a_run_whose_session_ends_in_mid_shipment_goes_on_in_a_new_one(sides, proxied, proxied_peer, backlog, brief_sessions):
    table, truth = backlog(proxied_peer, 6000)
    proxied.sink.requests.speed = 300 << 10
    with proxied_zookeeper(sides.at.quorum) as zookeeper:
        source = through_proxy(sides, zookeeper.port)
        before = positions(sides.at, proxied_peer)
        with Shipping(source, proxied_peer, roll_first=False, settings=SMALL) as shipping:
            await_progress(sides.at, proxied_peer, before)
            assert leases(sides.at, proxied_peer)
            zookeeper.cut()
            eventually(lambda: not leases(sides.at, proxied_peer), "the session ends")
            left = positions(sides.at, proxied_peer)
            time.sleep(2)  # while the senders ship on
            assert positions(sides.at, proxied_peer) == left
            truth.check()
            proxied.sink.requests.speed = 20 << 20
            zookeeper.mend()
            summary = shipping.summary()
    assert summary.status is Status.DONE, summary.error
    truth.check()
    assert not truth.unfinished
    assert sides.source.compare(table, sides.peer_cluster).same
    assert leases(sides.at, proxied_peer) == []


SOAK = [pytest.param(what, marks=pytest.mark.soak) for what in ("refusing", "servers silent")]


@BOTH_SINKS
@pytest.mark.parametrize("what", ["silent", "servers refusing", *SOAK])
def test_a_run_gives_up_a_silent_peer_cluster_after_its_patience_and_the_next_run_goes_on(
    sides, proxied, proxied_peer, backlog, what
):
    """This happens in mid-shipment, long before the deadline. Groups that begin later end at once."""
    table, truth = backlog(proxied_peer, 8000)
    before = positions(sides.at, proxied_peer)
    impatient = replace(SMALL, patience_seconds=PATIENCE_SECONDS)
    proxied.sink.requests.speed = 400 << 10
    with Shipping(sides.at, proxied_peer, roll_first=False, settings=impatient, deadline=600) as shipping:
        await_progress(sides.at, proxied_peer, before)
        while not truth.check():  # the WAL that left the queue may have had no edits
            time.sleep(0.1)
        for flow in (proxied.sink,) if what.startswith("servers") else (proxied.sink, proxied.zookeeper):
            if what.endswith("silent"):
                flow.requests.lock()
                flow.answers.lock()
            else:
                flow.cut()
        started = time.monotonic()
        summary = shipping.summary(120)
        took = time.monotonic() - started
    print(f"{what}: ended after {took:.1f} s: {summary.error}")
    assert (summary.status, summary.failed) == (Status.PEER_DOWN, True)
    assert took < 90  # the deadline would come after 600
    assert f"for more than {PATIENCE_SECONDS:g} s" in summary.error
    assert f"peer cluster {proxied.cluster_key} has acknowledged nothing since" in summary.error
    truth.check()
    assert truth.unfinished

    started = time.monotonic()
    later = ship_one(sides.at, proxied_peer, roll_first=False, settings=impatient, deadline=600)  # a later group of the same run
    assert later.status is Status.PEER_DOWN
    assert time.monotonic() - started < PATIENCE_SECONDS  # this group does not wait itself

    proxied.sink.requests.speed = math.inf
    for flow in (proxied.sink, proxied.zookeeper):
        flow.requests.let_go()
        flow.answers.let_go()
        if what.endswith("refusing") and (flow is proxied.sink or not what.startswith("servers")):
            flow.mend()
    assert ship_one(sides.at, proxied_peer, roll_first=False, run_id="again").status is Status.DONE
    assert sides.source.compare(table, sides.peer_cluster).same


@pytest.mark.parametrize("what", ["silent", "refusing"])
def test_a_run_says_within_seconds_that_its_peer_cluster_is_away_and_ends_soon_after_its_deadline(
    sides, proxied, proxied_peer, backlog, what
):
    _, truth = backlog(proxied_peer, 2000)
    written = time.time()
    for flow in (proxied.zookeeper, proxied.sink):
        if what == "silent":
            flow.requests.lock()
            flow.answers.lock()
        else:
            flow.cut()
    started = time.monotonic()
    with Shipping(sides.at, proxied_peer, roll_first=False, deadline=16) as shipping:
        seen: list[GroupSummary] = []
        eventually(lambda: seen.extend(s for s in kept(sides, proxied_peer) if s.sinkError) or bool(seen), "it says so")
        said_after = time.monotonic() - started
        summary = shipping.summary()
    took = time.monotonic() - started
    print(f"{what}: said after {said_after:.1f} s, ended after {took:.1f} s; {seen[0].sinkError}; {summary.error}")
    assert said_after < 12
    assert took < 16 + 12
    for s in (*seen, summary):
        assert s.peer_cluster == f"localhost:{proxied.zookeeper.port}:{proxied.cluster_key.rpartition(':')[2]}"
        assert written - 60 < s.sinkSilentSince / 1000 < time.time()
        assert s.sinkTries > 0
        assert written - 60 < s.timestampOfNextToReplicate / 1000 <= written
        assert 0 < s.replicationLag < 120_000
    assert summary.ageOfLastShippedOp is None  # nothing was shipped
    assert f"cluster key of peer {proxied_peer}" in summary.error
    assert "The backlog is kept" in summary.error
    assert truth.check() == 0


@pytest.mark.soak
def test_a_run_ships_the_dead_servers_queue_after_the_source_died_in_mid_shipment(sides, peer, backlog):
    """HBase and its ZooKeeper at once; the queue stays under the dead server's name, or is claimed meanwhile."""
    table, truth = backlog(peer)
    before = positions(sides.at, peer)
    with Shipping(sides.at, peer, roll_first=False, settings=SMALL, deadline=60) as shipping:
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
    assert sides.source.compare(table, sides.peer_cluster).same
