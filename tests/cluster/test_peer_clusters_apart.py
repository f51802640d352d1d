"""A peer cluster that is down or silent does not delay another peer cluster's rows: the short version of
airflow/test_three_peer_clusters.py.

Each peer's branch of a batch runs in a thread here, by the steps of its tasks, without Airflow's scheduler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from embedded.client import GLOBAL
from tests.cluster.conftest import Sides
from tests.cluster.proxy import ProxiedPeerCluster, TcpProxy, proxied_peer_cluster, proxied_zookeeper
from tests.cluster.walferry_runs import BY_REPLICATE, ship_one
from walferry.engine.summary import GroupSummary, Status
from walferry.replication.peers.settings import PeerSettings
from walferry.runs.steps import batch

ROWS = 200
SILENT_AFTER_BYTES = 8000  # in the middle of a shipment
VERY_PATIENT = PeerSettings(patience_seconds=3600)  # so a batch waits for its peer cluster until the test has ended


@dataclass(frozen=True)
class Peers:
    """Peers to one real peer cluster: straight, and through proxies that take it away or silence it."""

    well: str
    away: str
    silent: str
    away_zookeeper: TcpProxy
    silent_cluster: ProxiedPeerCluster


@pytest.fixture
def peers(sides: Sides, peer: str, unique: Callable[[str], str]) -> Iterator[Peers]:
    to = sides.peer_hbase.address
    with ExitStack() as ended:
        zookeeper, peer_cluster = ended.enter_context(proxied_zookeeper(to.quorum)), ended.enter_context(proxied_peer_cluster(to))
        keys = {unique("away"): f"localhost:{zookeeper.port}:{to.znode_parent}", unique("silent"): peer_cluster.cluster_key}
        for name, key in keys.items():
            sides.source.add_managed_peer(name, key)
            ended.callback(sides.source.remove_peer, name)
        for flow in (zookeeper.requests, peer_cluster.sink.requests):
            ended.callback(flow.let_go)  # before the peers are removed
        yield Peers(peer, *keys, zookeeper, peer_cluster)  # type: ignore[call-arg]


def branch(sides: Sides, peer: str, run: str) -> str | GroupSummary:
    """Plan and ship one peer. Returns why nothing is shipped, or the summary."""
    planned = batch.plan(sides.at, peer, f"{run}.1", run)
    if planned.left_to:
        return planned.left_to
    with batch.holding_peer(sides.at, planned, run):
        why = batch.why_down(sides.at, peer)
        return why or ship_one(sides.at, peer, roll_first=False, run_id=planned.run_id, deadline=3600, settings=VERY_PATIENT)


@BY_REPLICATE  # the peers share a peer cluster, and differ only by the address in its list of servers
def test_a_peer_cluster_s_rows_arrive_while_other_peer_clusters_are_down_or_silent(sides, both, peers):
    table, silent = both({"f": GLOBAL}), peers.silent_cluster.sink.requests
    written = 0

    def ship_more(run: str) -> str | GroupSummary:
        """Run one batch. Returns the outcome of the peer whose cluster is away, once the well peer cluster has all rows."""
        away = pool.submit(branch, sides, peers.away, run)
        shipped = pool.submit(branch, sides, peers.well, run).result()
        assert isinstance(shipped, GroupSummary)
        assert (shipped.status, shipped.shippedOps) == (Status.DONE, ROWS), shipped.error
        assert sides.source.compare(table, sides.peer_cluster).same
        assert not waiting.done()
        return away.result()

    def write(run: str) -> None:
        nonlocal written
        sides.source.put_many(table, ROWS, ["f:q"], first=written, value_bytes=200)
        written += ROWS
        batch.roll(sides.at, [peers.well, peers.away, peers.silent])

    with ThreadPoolExecutor(3) as pool, ExitStack() as ended:
        ended.callback(silent.let_go)  # otherwise the pool would wait for its batch if the test fails
        write("first")
        silent.hold_after(SILENT_AFTER_BYTES)
        waiting = pool.submit(branch, sides, peers.silent, "first")
        silent.await_held()
        peers.away_zookeeper.cut()  # nobody listens there
        assert f"localhost:{peers.away_zookeeper.port}" in ship_more("first")

        write("second")
        peers.away_zookeeper.requests.lock()
        peers.away_zookeeper.mend()  # now it accepts connections, and never answers
        assert f"localhost:{peers.away_zookeeper.port}" in ship_more("second")
        assert "first" in branch(sides, peers.silent, "second")  # the queue is left to the run that holds it

        silent.let_go()
        late = waiting.result()
    assert isinstance(late, GroupSummary)
    assert late.status is Status.DONE, late.error
