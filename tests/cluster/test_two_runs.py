"""Two runs ship one peer at once: one ships, and the other names the holder of the queue."""

from __future__ import annotations

import pytest

from tests.cluster.spark_runs import Job, run
from tests.cluster.test_shipping import eventually
from tests.cluster.walferry_runs import BY_REPLICATE, Shipping, positions, roll, ship_one
from tests.sessions import session_of
from walferry.base.zk.client import connected
from walferry.engine.summary import Status
from walferry.replication.peers.settings import PeerSettings
from walferry.shipping.runs import read_run

ROWS = 4000
SMALL = PeerSettings(shipment_bytes=64 << 10)


@pytest.fixture
def table(sides, both, proxied_peer) -> str:
    name = both()
    sides.source.put_many(name, ROWS, ["f:a"], batch=100)
    roll(sides.at, proxied_peer)
    return name


def test_one_ships_and_the_other_names_the_holder(sides, table, proxied, proxied_peer):
    proxied.sink.answers.lock()
    with Shipping(sides.at, proxied_peer, roll_first=False, run_id="first", settings=SMALL) as first:
        eventually(lambda: proxied.sink.requests.passed > 0, "the first run's shipment is on its way")
        second = ship_one(sides.at, proxied_peer, roll_first=False, run_id="second", deadline=1)
        assert second.status is Status.HELD
        assert second.failed
        assert f"of peer {proxied_peer} is held by run first since 2" in (second.error or "")
        print(f"held: {second.error}")
        assert second.shippedBatches == 0
        proxied.sink.answers.let_go()
        assert first.summary().status is Status.DONE, first.summary().error
    assert sides.source.compare(table, sides.peer_cluster).same
    with connected(sides.at.quorum) as zk:
        kept = [read_run(session_of(zk, sides.at), proxied_peer, run_id)[0] for run_id in ("first", "second")]
    assert [summary.status for summary in kept] == [Status.DONE, Status.HELD]


def test_a_run_that_comes_while_another_ends_ships_what_is_left(sides, table, proxied, proxied_peer):
    proxied.sink.answers.lock()
    with Shipping(sides.at, proxied_peer, roll_first=False, run_id="first", settings=SMALL) as first:
        eventually(lambda: proxied.sink.requests.passed > 0, "the first run's shipment is on its way")
        groups = [first_group(sides, proxied_peer)]
        with Shipping(sides.at, proxied_peer, roll_first=False, run_id="second", groups=groups) as second:
            proxied.sink.answers.let_go()
            assert first.summary().status is Status.DONE
            assert second.summary().status is Status.DONE, second.summary().error
    assert first.summary().shippedCells + second.summary().shippedCells == ROWS
    assert sides.source.compare(table, sides.peer_cluster).same


def first_group(sides, peer: str) -> str:
    return next(iter(positions(sides.at, peer))).rpartition(".")[0]


@pytest.mark.soak
@BY_REPLICATE
def test_of_two_jobs_one_ships_and_the_other_fails_naming_it(sides, table, proxied, proxied_peer, tmp_path):
    proxied.sink.answers.lock()
    with Job(sides.at, proxied_peer, "first", tmp_path) as first:
        eventually(lambda: proxied.sink.requests.passed > 0, "the first run's shipment is on its way")
        second = run(sides.at, proxied_peer, "second", tmp_path, deadline=20)
        assert second.code == 1, second.output
        assert "is held by run first on " in second.output
        proxied.sink.answers.let_go()
        done = first.finish()
    assert done.code == 0, done.output
    assert sides.source.compare(table, sides.peer_cluster).same
