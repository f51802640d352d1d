"""Three peer clusters, one stopped and one silent: over several periods of the real DAG the third peer cluster's lag stays the
same.

The shorter test has one period, and one cluster in place of the three peer clusters, which proxies stop and silence. The same
test without Airflow's scheduler, in `make test`: tests/cluster/test_peer_clusters_apart.py.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from demo.airflow_standalone import Airflow
from embedded.client import GLOBAL, JavaClient
from embedded.hbase import ClusterAddress
from embedded.standalone import StandaloneCluster
from tests.cluster.proxy import ProxiedPeerCluster, proxied_peer_cluster, proxied_zookeeper

from . import znodes_cluster

DAG, TABLE = "replicate_peer", "t"
SILENT, STOPPED, WELL = "silent", "stopped", "well"
PEERS = (SILENT, STOPPED, WELL)  # in the order of their branches
ROWS = 200  # of a period
PERIOD_SECONDS = 30  # servers roll every 5 minutes by themselves
BEFORE, DURING = 2, 3  # periods with all peer clusters well, and with only one
DEADLINE_SECONDS = 900  # of a batch: all periods would end before a run that waited for it
NOISE_SECONDS = 60  # a busy machine's delay, with Spark's start; a batch that waited would take at least 90
WAIT_SECONDS = 480
until = partial(znodes_cluster.until, seconds=WAIT_SECONDS)
SILENT_AFTER_BYTES = 8000  # a batch may still find the peer cluster there, and then waits in the middle of its shipment


@dataclass
class World:
    """The source and its peer clusters, through HBase's own client, and Airflow."""

    source: JavaClient
    peer_clusters: dict[str, JavaClient]
    stopped: StandaloneCluster
    silent: ProxiedPeerCluster
    airflow: Airflow
    written: int = 0

    def period(self) -> tuple[str, float]:
        """Write, begin a batch, and wait until the well peer cluster has got it. Returns the run, and the seconds until then."""
        began = time.monotonic()
        self.source.put_many(TABLE, ROWS, ["f:q"], first=self.written)
        self.written += ROWS
        run_id = self.airflow.trigger(DAG, {"deadline": DEADLINE_SECONDS})
        until(
            lambda: self.peer_clusters[WELL].count_rows(TABLE) == self.written,
            f"batch {run_id} has arrived at the well peer cluster",
        )
        arrived = time.monotonic() - began
        until(lambda: self.state(run_id, "report", WELL) == "success", f"the report of the well peer in {run_id}")
        time.sleep(max(0.0, began + PERIOD_SECONDS - time.monotonic()))
        return run_id, arrived

    def state(self, run_id: str, step: str, peer: str) -> str | None:
        return state_of(self.airflow, run_id, step, peer)

    def report(self, run_id: str, peer: str) -> dict[str, Any]:
        found: dict[str, Any] = until(
            lambda: self.airflow.returned(DAG, run_id, "peer.report", PEERS.index(peer)), f"the report of {peer} in {run_id}"
        )
        return found


def state_of(airflow: Airflow, run_id: str, step: str, peer: str) -> str | None:
    for task in airflow.tasks(DAG, run_id):
        if (task["task_id"], task["map_index"]) == (f"peer.{step}", PEERS.index(peer)):
            return task["state"] and str(task["state"])
    return None


@pytest.fixture
def world(tmp_path: Path, standalone_pair: Any, java_client: Callable[[ClusterAddress], JavaClient]) -> Iterator[World]:
    with ExitStack() as started:
        clusters = {name: StandaloneCluster(tmp_path / name, name=name, heap="384m") for name in (SILENT, STOPPED)}
        for cluster in clusters.values():
            started.callback(cluster.kill)
            cluster.launch()
        airflow = airflow_of(tmp_path / "airflow", standalone_pair.source.address)
        started.callback(airflow.stop)
        airflow.launch()
        for cluster in clusters.values():
            cluster.await_ready()
        addresses = {name: cluster.address for name, cluster in clusters.items()} | {WELL: standalone_pair.peer_cluster.address}
        silent = started.enter_context(proxied_peer_cluster(addresses[SILENT]))
        source = java_client(standalone_pair.source.address)
        peer_clusters = {name: java_client(address) for name, address in addresses.items()}
        for client in (source, *peer_clusters.values()):
            client.create_table(TABLE, {"f": GLOBAL})
        source.roll_wals()
        for name in PEERS:
            source.add_managed_peer(name, silent.cluster_key if name == SILENT else addresses[name].cluster_key)
            started.callback(source.remove_peer, name)
        started.callback(peer_clusters[WELL].drop_table, TABLE)
        started.callback(source.drop_table, TABLE)
        airflow.await_dag(DAG)
        yield World(source, peer_clusters, clusters[STOPPED], silent, airflow)


def airflow_of(home: Path, source: ClusterAddress) -> Airflow:
    host, port = source.quorum.split(":")
    # The silent peer cluster's proxy is the address in its list of servers. Calls to its regions do not pass the proxy.
    extra = {"znode_parent": source.znode_parent, "wal_root": source.wal_root, "sink": "replicate"}
    connection = {"conn_type": "generic", "host": host, "port": int(port), "extra": extra}
    environment = {
        "AIRFLOW_CONN_HBASE_SOURCE": json.dumps(connection),
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[1]"}),
        "AIRFLOW__CORE__PARALLELISM": "12",
    }
    return Airflow(home, environment)


@pytest.fixture
def airflow(tmp_path: Path, standalone_pair: Any) -> Iterator[Airflow]:
    airflow = airflow_of(tmp_path / "airflow", standalone_pair.source.address)
    airflow.launch()
    yield airflow
    airflow.stop()


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_a_batch_of_the_well_peer_cluster_ends_while_the_others_wait(
    airflow: Airflow, standalone_pair: Any, java_client: Callable[[ClusterAddress], JavaClient]
) -> None:
    to = standalone_pair.peer_cluster.address
    source, peer_cluster = java_client(standalone_pair.source.address), java_client(to)
    with ExitStack() as ended:
        silent = ended.enter_context(proxied_peer_cluster(to))
        stopped = ended.enter_context(proxied_zookeeper(to.quorum))
        keys = {SILENT: silent.cluster_key, STOPPED: f"localhost:{stopped.port}:{to.znode_parent}", WELL: to.cluster_key}
        for client in (peer_cluster, source):
            client.create_table(TABLE, {"f": GLOBAL})
            ended.callback(client.drop_table, TABLE)
        source.roll_wals()
        for name in PEERS:
            source.add_managed_peer(name, keys[name])
            ended.callback(source.remove_peer, name)
        source.put_many(TABLE, ROWS, ["f:q"])
        silent.sink.requests.hold_after(SILENT_AFTER_BYTES)
        stopped.cut()
        airflow.await_dag(DAG)
        airflow.unpause(DAG)
        began = time.monotonic()
        run_id = airflow.trigger(DAG, {"deadline": DEADLINE_SECONDS})
        until(lambda: peer_cluster.count_rows(TABLE) == ROWS, "the well peer cluster has the rows")
        until(lambda: state_of(airflow, run_id, "report", WELL) == "success", "the report of the well peer")
        print(f"{time.monotonic() - began:.1f} s until the report of the well peer cluster's peer")
        # its batch waits as long as the peer cluster's patience allows
        assert state_of(airflow, run_id, "report", SILENT) is None
        assert state_of(airflow, run_id, "ship", STOPPED) != "success"


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_two_peer_clusters_that_are_down_do_not_delay_the_third(world: World) -> None:
    world.airflow.unpause(DAG)
    before = [world.period()[1] for _ in range(BEFORE)]

    world.stopped.kill()
    world.silent.sink.requests.hold_after(SILENT_AFTER_BYTES)
    during = [world.period() for _ in range(DURING)]
    print(
        f"seconds until the well peer cluster had a period's rows: {before}, and with two peer clusters down "
        f"{[s for _, s in during]}"
    )
    runs = [run_id for run_id, _ in during]
    assert max(seconds for _, seconds in during) < max(before) + NOISE_SECONDS
    # A run that closed WALs have begun may have held the lock of the well peer instead.
    ages = [world.report(run_id, WELL)["totals"]["ageOfLastShippedOp"] for run_id in runs]
    assert max(age or 0 for age in ages) < 1000 * (max(before) + NOISE_SECONDS)

    reported = [world.report(run_id, STOPPED) for run_id in runs]
    assert all(report["failures"] or report["left_to"] for report in reported)
    down = [report for report in reported if "no job is started, as its peer cluster is down" in "".join(report["failures"])]
    lags = [report["totals"]["replicationLag"] for report in down]  # the peer cluster is tried in each period, and the lag grows
    assert len(lags) >= DURING - 1
    assert lags == sorted(lags)
    # The job on the silent peer cluster waits out its patience. Meanwhile other runs leave the peer to it.
    reported = [world.report(run_id, SILENT) for run_id in runs]
    assert any(report["left_to"] for report in reported)
    reasons = "".join(reason for report in reported for reason in report["failures"])
    assert "peer-down" in reasons
    assert {world.state(run_id, "ship", SILENT) for run_id in runs} <= {"skipped", "failed"}

    world.silent.sink.requests.let_go()
    world.stopped.start()

    def all_arrived() -> bool:
        world.airflow.await_run(DAG, world.airflow.trigger(DAG, {"deadline": DEADLINE_SECONDS}))
        return all(world.source.compare(TABLE, world.peer_clusters[name]).same for name in PEERS)

    until(all_arrived, "all three peer clusters have all rows")
