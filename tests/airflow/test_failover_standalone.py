"""The failover DAG as `airflow standalone` runs it: scheduler, triggerer and DAG processor, begun by the asset's watcher."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from demo.airflow_standalone import Airflow
from embedded.zookeeper import ZooKeeperServer
from tests.airflow_standalone import running
from tests.zk.fixtures import lasting_hbase as hbase
from tests.zk.fixtures import new_client
from tests.zk.hbase_znodes import DEAD, OTHER, HBaseZNodes, LastingZNodes, wal

from .znodes_cluster import Cluster, until

__all__ = ["hbase", "new_client"]  # fixtures

FAILOVER, BY_HAND = "regionserver_failover", "drain_recovered_queue"
FAILOVER_WEST = f"{FAILOVER}-west"
STEPS = ("find", "claim", "plan", "clean_up")

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]


@pytest.fixture
def cluster(hbase: HBaseZNodes, tmp_path: Path) -> Cluster:
    return Cluster(hbase, tmp_path)


@pytest.fixture
def west(new_client: Callable[[], KazooClient], tmp_path: Path) -> Cluster:
    """Another source, with the same ZooKeeper and the same root of Walferry there."""
    znodes = LastingZNodes.new(new_client())
    znodes.add_peer("p")
    return Cluster(znodes, tmp_path / "west")


@pytest.fixture
def airflow(cluster: Cluster, west: Cluster, zookeeper: ZooKeeperServer, tmp_path: Path) -> Iterator[Airflow]:
    root = cluster.znodes.root
    environment = {
        "AIRFLOW__WALFERRY__SOURCES": "hbase_source,west",
        "AIRFLOW_CONN_HBASE_SOURCE": cluster.connection(zookeeper.quorum, root, password="s3cret-pass"),
        "AIRFLOW_CONN_WEST": west.connection(zookeeper.quorum, root),
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "INFO",
    }
    with running(Airflow(tmp_path / "airflow", environment), FAILOVER, FAILOVER_WEST, BY_HAND) as airflow:
        yield airflow


def test_deaths_begin_runs_by_themselves(airflow: Airflow, cluster: Cluster, west: Cluster, tmp_path: Path) -> None:
    third = "rs-4.example.org,16020,1700000000004"
    cluster.start(DEAD, OTHER, third)
    west.start(DEAD, OTHER)
    for dag in (FAILOVER, FAILOVER_WEST, BY_HAND):
        airflow.unpause(dag)

    time.sleep(20)
    assert airflow.runs(FAILOVER) == []  # all are alive
    # A death at another source begins a run of that source's DAG, although the same servers live here.
    west.kill(OTHER)
    run = until(lambda: airflow.runs(FAILOVER_WEST), "a run of the other source")[0]
    assert (run["run_type"], airflow.await_run(FAILOVER_WEST, run["dag_run_id"])["state"]) == ("asset_triggered", "success")
    assert airflow.returned(FAILOVER_WEST, run["dag_run_id"], "find") == [OTHER]
    assert (west.servers_with_queues(), cluster.servers_with_queues()) == ([DEAD], sorted([DEAD, OTHER, third]))
    assert airflow.runs(FAILOVER) == []

    cluster.kill(DEAD)
    first = begun(airflow, 1)
    assert first["run_type"] == "asset_triggered"
    assert airflow.returned(FAILOVER, first["dag_run_id"], "find") == [DEAD]
    assert ended(airflow, first) == "success"
    assert DEAD not in cluster.servers_with_queues()

    cluster.kill(OTHER, third)
    runs = until(lambda: with_servers(airflow, {OTHER, third}), "runs for both that died at once")
    assert all(ended(airflow, run) == "success" for run in runs)
    assert cluster.servers_with_queues() == []

    # Again, from any step on: nothing is left to do, and that is a success.
    for step in STEPS:
        airflow.clear(FAILOVER, first["dag_run_id"], step)
        until(lambda: state(airflow, first) != "success", f"{step} was cleared")
        assert ended(airflow, first) == "success"

    # While Airflow is stopped, two servers die. One of them also has a queue of a deleted peer.
    before = len(airflow.runs(FAILOVER))
    airflow.stop()
    cluster.start("rs-5,1,5", "rs-6,1,6")
    cluster.znodes.add_wal("rs-6,1,6", "gone", wal(1, "rs-6,1,6"))
    cluster.kill("rs-5,1,5", "rs-6,1,6")
    airflow.launch()
    for dag in (FAILOVER, BY_HAND):
        airflow.await_dag(dag)
    runs = until(lambda: with_servers(airflow, {"rs-5,1,5", "rs-6,1,6"}), "runs for those that died unseen")
    assert all(ended(airflow, run) == "success" for run in runs)
    assert cluster.servers_with_queues() == ["rs-6,1,6"]
    time.sleep(20)
    assert len(airflow.runs(FAILOVER)) == before + len(runs)  # no server is announced twice

    # The form proposes the queue that is left, and a run by hand deletes it.
    proposed = until(lambda: examples(airflow, "queue"), "the form's proposals")
    assert proposed == ["rs-6,1,6/gone"]
    assert examples(airflow, "peer") == ["gone"]
    run_id = airflow.trigger(BY_HAND, {"peer": "gone", "queue": "", "delete_orphan": True})
    until(lambda: "awaiting_input" in [task["state"] for task in airflow.tasks(BY_HAND, run_id)], "the run asks a person")
    assert cluster.servers_with_queues() == ["rs-6,1,6"]
    airflow.answer(BY_HAND, run_id, "approve", "Approve")
    assert airflow.await_run(BY_HAND, run_id)["state"] == "success"
    assert "1 WAL" in airflow.returned(BY_HAND, run_id, "report")["notes"][0]
    until(lambda: examples(airflow, "queue") is None, "no proposals any more")
    assert west.servers_with_queues() == [DEAD]
    assert len(airflow.runs(FAILOVER_WEST)) == 1

    logs = "".join(path.read_text(errors="replace") for path in (tmp_path / "airflow").rglob("*.log"))
    assert "s3cret-pass" not in logs


def begun(airflow: Airflow, number: int) -> dict[str, Any]:
    """Wait for the DAG's run with this number."""
    runs: list[dict[str, Any]] = until(lambda: len(all_runs := airflow.runs(FAILOVER)) >= number and all_runs, f"run {number}")
    until(lambda: airflow.returned(FAILOVER, runs[number - 1]["dag_run_id"], "find") is not None, "what it has found")
    return runs[number - 1]


def with_servers(airflow: Airflow, servers: set[str]) -> list[dict[str, Any]]:
    """Return the runs that have found any of the servers, if together they have found all."""
    found = {
        run["dag_run_id"]: (run, set(airflow.returned(FAILOVER, run["dag_run_id"], "find") or ()) & servers)
        for run in airflow.runs(FAILOVER)
    }
    theirs = [(run, mine) for run, mine in found.values() if mine]
    return [run for run, _ in theirs] if set().union(*(mine for _, mine in theirs)) == servers else []


def state(airflow: Airflow, run: dict[str, Any]) -> str:
    return next(str(r["state"]) for r in airflow.runs(FAILOVER) if r["dag_run_id"] == run["dag_run_id"])


def ended(airflow: Airflow, run: dict[str, Any]) -> str:
    return str(airflow.await_run(FAILOVER, run["dag_run_id"])["state"])


def examples(airflow: Airflow, param: str) -> list[str] | None:
    schema = airflow.details(BY_HAND)["params"][param]["schema"]
    return schema.get("examples") or None
