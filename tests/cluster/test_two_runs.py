"""Two runs at once for one peer: one ships, the other says who holds the queue."""

from __future__ import annotations

import pytest

from tests.cluster.walferry_runs import Shipping, plan, roll, ship_one
from walferry import shipping
from walferry.summary import Status


@pytest.fixture(autouse=True)
def _short_patience(monkeypatch):
    monkeypatch.setattr(shipping, "SESSION_TIMEOUT_S", 1.0)  # how long a killed holder's session is waited for


def test_the_second_run_names_the_first(sides, both, proxied, proxied_peer):
    table = both()
    sides.source.put_many(table, 3000, ["f:a"])
    roll(sides.at, proxied_peer)
    (group,) = plan(sides.at, proxied_peer).groups
    proxied.sink.answers.hold()
    with Shipping(sides.at, proxied_peer, roll_first=False, run_id="first") as first:
        while not proxied.sink.requests.passed:
            assert first.running
        second = ship_one(sides.at, proxied_peer, roll_first=False, run_id="second", groups=[group.group])
        proxied.sink.answers.let_go()
        assert first.summary().status is Status.DONE, first.summary().error
    assert second.status is Status.HELD
    assert second.failed
    assert f"WAL group {group.group} of peer {proxied_peer} is held by run first since" in second.error
    assert second.shippedBatches == 0
    assert sides.source.compare(table, sides.slave).same


def test_the_next_run_finds_the_queue_free(sides, both, peer):
    table = both()
    for run in ("first", "second"):
        sides.source.put_many(table, 100, ["f:a"], first=len(run) * 1000)
        summary = ship_one(sides.at, peer, run_id=run)
        assert summary.status is Status.DONE, summary.error
    assert sides.source.compare(table, sides.slave).same
