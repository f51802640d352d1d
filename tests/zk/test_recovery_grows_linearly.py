"""A recovery makes requests in proportion to the queues that dead servers have left, from the claims to the report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from embedded.zookeeper import ZooKeeperServer
from tests.sessions import session_of
from tests.zk.counted_site import READS
from tests.zk.hbase_znodes import LastingZNodes, wal
from walferry.engine.summary import GroupSummary, Status
from walferry.replication.queues.lease import acquire
from walferry.replication.source.cluster import SourceCluster
from walferry.runs.reports.recovery import Recovery
from walferry.runs.steps import recovery
from walferry.shipping import ship_run
from walferry.shipping.candidates import candidates
from walferry.shipping.ship_run import ShipRun

PEERS = ("p", "q")
RUN = "dag/run.1"
SERVERS = 6  # of the smallest cluster
SPARE = 10  # requests of sessions, which look after themselves
NOT_CLOSED_BYTES = 80_000  # of files that nobody looks into


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """The requests of all clients to ZooKeeper."""
    counted: Counter[str] = Counter()
    send = KazooClient._call

    def call(client: KazooClient, request: Any, result: Any) -> Any:
        counted["reads" if type(request).__name__ in READS else "writes"] += 1
        return send(client, request, result)

    monkeypatch.setattr(KazooClient, "_call", call)
    monkeypatch.setattr(recovery, "disagreements", lambda *_: {})  # no Master runs here
    return counted


@pytest.fixture
def make_cluster(
    new_client: Callable[[], KazooClient], zookeeper: ZooKeeperServer, tmp_path: Path
) -> Callable[[int], SourceCluster]:
    """Clusters with so many dead servers. Each has left a queue for each peer, and a third of the queues have nothing to ship."""

    def make(servers: int) -> SourceCluster:
        hbase = LastingZNodes.new(new_client())
        archive = tmp_path / str(servers) / "oldWALs"
        archive.mkdir(parents=True)
        for peer in PEERS:
            hbase.add_peer(peer)
        for number in range(servers):
            server = f"rs-{number:03}.example.org,16020,1600000000001"
            with (archive / wal(1, server)).open("wb") as file:
                file.truncate(NOT_CLOSED_BYTES if number % 3 else 0)
            for peer in PEERS:
                hbase.add_wal(server, peer, wal(1, server))
        return SourceCluster(
            quorum=zookeeper.quorum, wal_root=f"file://{archive.parent}", znode_parent=hbase.nodes.base, root=hbase.root
        )

    return make


def recover(source: SourceCluster, zk: KazooClient, monkeypatch: pytest.MonkeyPatch) -> Recovery:
    """Run a whole recovery, with jobs that acknowledge everything at once."""
    monkeypatch.setattr(ship_run, "check_peer", lambda session, peer_id: recovery.read_peer(session, peer_id))
    servers = recovery.find(source, "", ()).servers
    claims = [recovery.claim(source, server, "dag/run") for server in servers]
    planned = recovery.plan(source, recovery.wanted_by_claims(claims), servers, RUN)
    shipped = []

    def ship(free: bool) -> list[str]:
        assert free
        run = ShipRun(source=source, peer_id=each.peer, run_id=RUN, deadline=60, recovery=True)
        jobs = ship_run.begin(run)
        for job in jobs:
            with acquire(session_of(zk, source), job.peer_id, job.group, "task") as lease:
                (found,) = candidates(lease.read(job.place))
                for candidate in found.wals:
                    lease.remove_wal(candidate.queued.name.text)
        ship_run.finish(run, [GroupSummary(group=job.group, status=Status.DONE) for job in jobs])
        shipped.append(each.peer)
        return []

    for each in planned.jobs:
        recovery.ship_in_rounds(source, each, 0.0, ship)
    assert shipped == [each.peer for each in planned.jobs]
    recovery.clean_up(source, {drain.dead_server for drain in planned.drains}, "dag/run")
    drains = recovery.drains_of(source, planned.peers, RUN)
    return Recovery(claims, recovery.outcome(source, drains, RUN, {}))


def test_each_further_queue_takes_as_many_requests_as_the_one_before(
    make_cluster: Callable[[int], SourceCluster], zk: KazooClient, requests: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, list[int]] = {"reads": [], "writes": []}
    for servers in (SERVERS, 2 * SERVERS, 3 * SERVERS):
        source = make_cluster(servers)
        requests.clear()
        done = recover(source, zk, monkeypatch)
        for kind, numbers in asked.items():
            numbers.append(requests[kind])
        assert done.counts == {"completedRecoverQueues": servers * len(PEERS), "failedRecoverQueues": 0}
        assert sum(len(each.summaries) for each in done.drained) == len(PEERS) * (servers - servers // 3)
    print(f"{[servers * len(PEERS) for servers in (SERVERS, 2 * SERVERS, 3 * SERVERS)]} queues: {asked}")
    for first, second, third in asked.values():
        assert third - second <= second - first + SPARE
