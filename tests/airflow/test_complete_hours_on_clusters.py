"""A DAG that waits for a table's complete hours, in a real Airflow over a real cluster, with a dead server's queue in between.

HBase's WALs are minutes old, so the dead server's queue is made by hand: its WAL is named as one that was begun two hours ago.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from demo.airflow_standalone import Airflow
from embedded.client import GLOBAL, LOCAL, JavaClient
from embedded.hbase import ClusterAddress
from tests.zk.hbase_znodes import DEAD, wal
from walferry.airflow.tasks.complete_hours import VARIABLE
from walferry.base.zk.client import connected
from walferry.hbase.layout import ZNodes
from walferry.observe.complete_hours import HOUR_MS, hour_text, table_uri

from .znodes_cluster import until

TELLS, WAITS = "complete_hours", "hours_of_the_table"
BUNDLES = "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST"
LOCAL_BUNDLE = "airflow.dag_processing.bundles.local.LocalDagBundle"
DOWNSTREAM = """
from airflow.sdk import Asset, PartitionedAssetTimetable, dag, task

@dag(schedule=PartitionedAssetTimetable(assets=Asset({uri!r})))
def hours_of_the_table():
    @task
    def read(dag_run=None):
        return dag_run.partition_key
    read()

hours_of_the_table()
"""

pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def peer(
    standalone_pair: Any, java_client: Callable[[ClusterAddress], JavaClient], unique: Callable[[str], str]
) -> Iterator[tuple[str, str]]:
    """A managed peer, and the only table of the source that it gets."""
    source, peer_cluster = (java_client(each.address) for each in (standalone_pair.source, standalone_pair.peer_cluster))
    peer, table = unique("peer"), unique("t")
    with ExitStack() as ended:
        source.create_table(table, {"f": GLOBAL, "g": LOCAL})
        ended.callback(source.drop_table, table)
        source.add_managed_peer(peer, peer_cluster.address.cluster_key)
        ended.callback(source.remove_peer, peer)
        yield peer, table


@pytest.fixture
def airflow(tmp_path: Path, standalone_pair: Any, peer: tuple[str, str]) -> Iterator[Airflow]:
    at, folder = standalone_pair.source.address, tmp_path / "downstream"
    folder.mkdir()
    (folder / "downstream.py").write_text(DOWNSTREAM.format(uri=table_uri("hbase_source", *peer)))
    extra = {"znode_parent": at.znode_parent, "wal_root": at.wal_root}
    bundles = [
        {"name": "dags-folder", "classpath": LOCAL_BUNDLE, "kwargs": {}},
        {"name": "downstream", "classpath": LOCAL_BUNDLE, "kwargs": {"path": str(folder)}},
    ]
    environment = {
        "AIRFLOW_CONN_HBASE_SOURCE": json.dumps({"conn_type": "generic", "host": at.quorum, "extra": extra}),
        BUNDLES: json.dumps(bundles),
    }
    airflow = Airflow(tmp_path / "airflow", environment)
    airflow.launch()
    try:
        for dag in (TELLS, WAITS):
            airflow.await_dag(dag)
            airflow.unpause(dag)
        yield airflow
    finally:
        airflow.stop()


@pytest.fixture
def zk(standalone_pair: Any) -> Iterator[KazooClient]:
    with connected(standalone_pair.source.address.quorum) as client:
        yield client


def test_the_waiting_dag_runs_for_complete_hours_only(
    airflow: Airflow, peer: tuple[str, str], standalone_pair: Any, zk: KazooClient
) -> None:
    peer_id, _ = peer
    nodes = ZNodes(standalone_pair.source.address.znode_parent)
    (live,) = zk.get_children(nodes.rs)
    died_in = (int(time.time() * 1000) // HOUR_MS - 2) * HOUR_MS
    queue = nodes.queue(live, f"{peer_id}-{DEAD}")
    zk.create(f"{queue}/{wal(died_in + 120_000, DEAD)}", makepath=True)
    mark = {peer_id: {"sure_ms": died_in - 2 * HOUR_MS, "told_ms": 0, "by": ""}}
    airflow.command("variables", "set", VARIABLE, json.dumps(mark))

    tell(airflow)
    before = [hour_text(died_in - 2 * HOUR_MS), hour_text(died_in - HOUR_MS)]
    assert until(lambda: partitions(airflow) if len(partitions(airflow)) == 2 else None, "runs for two hours") == before
    tell(airflow)
    assert partitions(airflow) == before

    zk.delete(queue, recursive=True)
    tell(airflow)
    until(lambda: hour_text(died_in) in partitions(airflow), "a run for the hour in which the server died")
    assert partitions(airflow)[:3] == [*before, hour_text(died_in)]
    assert all(hour < hour_text(int(time.time() * 1000) // HOUR_MS * HOUR_MS) for hour in partitions(airflow))


def tell(airflow: Airflow) -> None:
    run_id = airflow.trigger(TELLS, {})
    assert airflow.await_run(TELLS, run_id)["state"] == "success", airflow.task_log(TELLS, run_id, "announce")


def partitions(airflow: Airflow) -> list[str]:
    """The hours for which the waiting DAG has ended runs, each once."""
    return sorted({run["partition_key"] for run in airflow.runs(WAITS) if run["state"] == "success"})
