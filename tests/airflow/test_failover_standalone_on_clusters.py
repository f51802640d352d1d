"""RegionServers of a real cluster are killed; `airflow standalone` notices, claims, drains with Spark, and reports."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from demo.airflow_standalone import Airflow
from embedded.client import GLOBAL, JavaClient, even_splits
from embedded.distributed import ClusterOptions, DistributedCluster, DistributedClusters
from embedded.hbase import ClusterAddress
from tests.airflow_standalone import running
from tests.cluster.walferry_runs import source_of
from tests.sessions import session_of
from walferry.base.zk.client import connected
from walferry.replication.queues.dead_servers import find_dead
from walferry.replication.source.cluster import SourceCluster

from . import znodes_cluster

FAILOVER, REPLICATE = "regionserver_failover", "replicate_peer"
TABLE, PEER = "t", "2"
ROWS = 200_000  # of 1 kB
WAIT_SECONDS = 300
until = partial(znodes_cluster.until, seconds=WAIT_SECONDS)

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]


@pytest.fixture
def clusters(tmp_path: Path) -> Iterator[tuple[DistributedCluster, DistributedCluster]]:
    options = {"source": ClusterOptions(regionservers=4), "peer_cluster": ClusterOptions(regionservers=1, regionserver_heap="2g")}
    with DistributedClusters(tmp_path / "clusters", options) as started:
        yield started["source"], started["peer_cluster"]


@pytest.fixture
def airflow(clusters: tuple[DistributedCluster, DistributedCluster], tmp_path: Path) -> Iterator[Airflow]:
    at = clusters[0].address
    host, port = at.quorum.split(":")
    extra = {"znode_parent": at.znode_parent, "wal_root": at.wal_root}
    source = {"conn_type": "generic", "host": host, "port": int(port), "extra": extra}
    spark = {"conn_type": "spark", "host": "local[2]"}
    environment = {
        "AIRFLOW_CONN_HBASE_SOURCE": json.dumps(source),
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(spark),
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "INFO",
    }
    with running(Airflow(tmp_path / "airflow", environment), FAILOVER, REPLICATE) as airflow:
        yield airflow


def test_killed_servers_edits_arrive_without_anybody_s_doing(
    clusters: tuple[DistributedCluster, DistributedCluster], airflow: Airflow, java_client: Callable[[ClusterAddress], JavaClient]
) -> None:
    cluster, _ = clusters
    source, peer_cluster = (java_client(each.address) for each in clusters)
    for client in (source, peer_cluster):
        client.create_table(TABLE, {"f": GLOBAL}, even_splits(6))
    source.add_managed_peer(PEER, clusters[1].address.cluster_key)
    source.put_many(TABLE, ROWS, ["f:q"], value_bytes=1000)
    airflow.unpause(FAILOVER)

    first = cluster.kill_regionserver(0).server_name
    run = until(lambda: run_for(airflow, first), f"a run for {first}")
    assert run["run_type"] == "asset_triggered"
    until(lambda: killed_spark(airflow), "the drain's Spark job, to be killed")
    second = cluster.kill_regionserver(0).server_name
    other = until(lambda: run_for(airflow, second), f"a run for {second}")
    assert other["dag_run_id"] != run["dag_run_id"]

    for each, server in ((run, first), (other, second)):
        run_id = each["dag_run_id"]
        state = airflow.await_run(FAILOVER, run_id)["state"]
        report = airflow.returned(FAILOVER, run_id, "report")
        assert state == "success", report
        print(json.dumps(report))
        assert [q["dead_server"] for q in report["queues"]] == [server]
        assert report["totals"]["completedRecoverQueues"] == 1
    drains = [t for t in airflow.tasks(FAILOVER, run["dag_run_id"]) if t["task_id"] == "drain"]
    assert [t["try_number"] for t in drains] == [2]  # the first was killed
    log = airflow.task_log(FAILOVER, run["dag_run_id"], "drain", 0, 2)
    assert f"peer {PEER}: " in log
    assert "(100 %); left: 0 WALs, 0 B" in log

    airflow.stop()  # while Airflow is stopped, a server dies, and HBase claims its queue
    at = source_of(cluster.address)
    third = cluster.kill_regionserver(0).server_name
    until(lambda: claimed_by_hbase(at, third), f"HBase has claimed the queue of {third}")
    airflow.launch()
    airflow.await_dag(FAILOVER)
    unseen = until(lambda: run_for(airflow, third), f"a run for {third}")
    assert airflow.await_run(FAILOVER, unseen["dag_run_id"])["state"] == "success"
    (drained,) = airflow.returned(FAILOVER, unseen["dag_run_id"], "report")["queues"]
    assert (drained["dead_server"], drained["claimed_by"], drained["state"]) == (third, "HBase", "complete")
    assert drained["shippedOps"] > 0

    with connected(at.quorum) as zk:
        assert find_dead(session_of(zk, at)) == ()
    airflow.unpause(REPLICATE)  # ships the live servers' queues
    run_id = airflow.trigger(REPLICATE, {"peer": PEER})
    airflow.await_run(REPLICATE, run_id)
    airflow.await_runs(REPLICATE)
    assert source.compare(TABLE, peer_cluster).same
    assert peer_cluster.count_rows(TABLE) == ROWS


def run_for(airflow: Airflow, server: str) -> dict[str, Any] | None:
    """Return the run that has found the server dead."""
    for run in airflow.runs(FAILOVER):
        if server in (airflow.returned(FAILOVER, run["dag_run_id"], "find") or ()):
            return run
    return None


def claimed_by_hbase(at: SourceCluster, server: str) -> bool:
    with connected(at.quorum) as zk:
        queues = [queue for dead in find_dead(session_of(zk, at)) if dead.name == server for queue in dead.queues]
    return bool(queues) and all(queue.claimed for queue in queues)


def killed_spark(airflow: Airflow) -> bool:
    """Kill -9 the Spark job once it ships. Returns whether it was killed."""
    for process in psutil.Process(airflow.pid).children(recursive=True):
        try:
            command = process.cmdline()
            if "java" in command[0] and any("run_job.py" in word for word in command):
                if not any("pyspark" in " ".join(child.cmdline()) for child in process.children()):
                    continue  # it has no Python worker yet
                process.kill()
                return True
        except (psutil.Error, IndexError):
            continue
    return False
