"""Batches of clusters on HDFS roll the RegionServers that have written something for a peer, and ship everything all the same."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from embedded.client import GLOBAL, LOCAL
from embedded.wire import Mutation, append, delete_row, increment, put
from tests.cluster.conftest import ManyServers
from tests.cluster.walferry_runs import queues, ship
from walferry.engine.summary import Status
from walferry.hbase.cluster import live_servers
from walferry.replication.queues import needed_rolls, rolling
from walferry.replication.queues.queue import groups
from walferry.replication.source.session import open_session
from walferry.runs.steps import batch

BATCHES_A_DAY = 288


@dataclass
class Batches:
    """Runs batches of a peer, and notes which servers each has rolled."""

    at: ManyServers
    peer: str
    rolled: list[set[str]] = field(default_factory=list)

    def newest(self) -> dict[str, int]:
        return {
            queue.server: max(wals[-1].name.timestamp for wals in groups(queue).values())
            for queue in queues(self.at.at, self.peer)
        }

    def run(self) -> set[str]:
        """Roll, and ship what is closed. Returns the servers that have begun new WALs."""
        before = self.newest()
        report = batch.roll(self.at.at, [self.peer])
        after = self.newest()
        rolled = {server for server in after if after[server] > before[server]}
        assert report is not None
        assert (list(report.problems), report.servers, report.spared) == ([], len(rolled), len(after) - len(rolled))
        assert {summary.status for summary in ship(self.at.at, self.peer, roll_first=False)} <= {Status.DONE}
        self.rolled.append(rolled)
        return rolled

    def rest(self) -> None:
        """Run batches until they roll no server."""
        for _ in range(5):
            if not self.run():
                return
        pytest.fail("an idle cluster is rolled again and again")


@pytest.fixture
def batches(many_servers: ManyServers, managed_peer: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> Batches:
    monkeypatch.setattr(needed_rolls, "APART_MS", 1)  # these batches follow each other at once
    peer = managed_peer(many_servers.source_cluster.address, many_servers.peer_hbase.address)
    many_servers.source.switch_balancer(False)
    return Batches(many_servers, peer)


def test_only_servers_with_edits_for_a_peer_are_rolled_and_one_batch_ships_these_edits(
    batches: Batches, many_servers: ManyServers, unique: Callable[[str], str]
) -> None:
    at, table, local = many_servers, unique("t"), unique("l")
    for client in (at.source, at.peer_cluster):
        client.create_table(table, {"f": GLOBAL}, [b"m"])
    at.source.create_table(local, {"f": LOCAL}, [b"m"])
    low, high = at.source.region_servers()[:2]
    for name in (table, local):
        for region, server in zip(at.source.regions(name), (low, high), strict=True):
            if region.server != server:
                at.source.move_region(region.encoded_name, server)

    def written_and_shipped(mutations: list[Mutation]) -> set[str]:
        at.source.write(table, mutations)
        rolled = batches.run()
        assert at.source.compare(table, at.peer_cluster).same
        return rolled

    batches.rest()
    idle = [batches.run() for _ in range(4)]
    assert idle == [set()] * 4
    at.source.write(local, [put("a", {"f:q": b"1"}), put("z", {"f:q": b"1"})])
    at.source.flush(local)
    assert batches.run() == set()

    assert written_and_shipped([put("a", {"f:q": b"1"})]) == {low}
    assert [batches.run() for _ in range(3)] == [{low}, set(), set()]
    for each in (increment("z", {"f:n": 1}), append("z", {"f:q": b"2"}), delete_row("z")):
        assert written_and_shipped([each]) == {high}
    batches.rest()

    at.source.write(table, [put("b", {"f:q": b"1"})])
    at.source.move_region(at.source.regions(table)[0].encoded_name, high)
    assert low in batches.run()  # the edit lies in the WAL of the server that had the region
    assert at.source.compare(table, at.peer_cluster).same
    batches.rest()
    at.source.bulk_load(table, [put("c", {"f:q": b"1"})], f"{at.at.wal_root}/loaded-{table}")
    assert batches.run() == {high}


def test_an_edit_that_is_written_while_a_batch_rolls_is_shipped_by_one_of_the_next_two(
    batches: Batches, many_servers: ManyServers, unique: Callable[[str], str]
) -> None:
    at, table = many_servers, unique("t")
    for client in (at.source, at.peer_cluster):
        client.create_table(table, {"f": GLOBAL}, [b"4", b"8", b"c"])
    load = at.source.start_load(table, threads=6, pause_ms=1)
    for _ in range(3):
        assert batches.run() == set(at.source.region_servers())
    load.stop()
    batches.run()
    batches.run()
    assert at.source.compare(table, at.peer_cluster).same
    batches.rest()


def test_the_decision_is_cheaper_than_the_rolls_that_it_spares(batches: Batches, many_servers: ManyServers) -> None:
    at = many_servers.at
    batches.rest()
    with open_session(at) as session:
        servers = live_servers(session.zk, session.nodes)
        times = []
        for _ in range(5):
            began = time.monotonic()
            choice = needed_rolls.choose(session)
            decided = time.monotonic()
            rolled = rolling.roll(session, [batches.peer])
            times.append((decided - began, time.monotonic() - decided))
            assert (choice.needed, rolled.servers, rolled.failures) == (frozenset(), len(servers), {})
    decisions, rolls = (sorted(column)[2] for column in zip(*times, strict=True))
    print(f"{len(servers)} servers: {decisions:.3f} s to decide, {rolls:.3f} s to roll")
    print(f"an idle server is rolled {BATCHES_A_DAY * sum(map(len, batches.rolled[2:]))} times a day, before {BATCHES_A_DAY}")
