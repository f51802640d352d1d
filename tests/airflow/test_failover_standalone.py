"""The failover DAG as `airflow standalone` runs it: scheduler, triggerer and DAG processor, begun by the asset's watcher."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from demo.airflow_standalone import Airflow
from embedded.zookeeper import ZooKeeperServer
from tests.airflow_standalone import running
from tests.zk.fixtures import lasting_hbase as hbase
from tests.zk.fixtures import new_client
from tests.zk.hbase_znodes import DEAD, OTHER, HBaseZNodes, wal
from tests.zk.test_agreement import be_of

__all__ = ["hbase", "new_client"]  # fixtures

FAILOVER, BY_HAND = "regionserver_failover", "drain_recovered_queue"
WAIT_SECONDS = 180
STEPS = ("find", "claim", "plan", "clean_up")
EMPTY_WAL = b"PWAL\x00" + b"\x00\x00\x00\x00LAWP"  # closed, without an entry: it only has to leave its queue

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]


def until(condition: Callable[[], Any], what: str) -> Any:
    give_up = time.monotonic() + WAIT_SECONDS
    while not (found := condition()):
        assert time.monotonic() < give_up, f"not within {WAIT_SECONDS} s: {what}"
        time.sleep(0.5)
    return found


class Cluster:
    """RegionServers that tests can start and kill. Each has an empty WAL queued for peer p."""

    def __init__(self, znodes: HBaseZNodes, folder: Path) -> None:
        self.znodes = znodes
        self._archive = folder / "oldWALs"
        self._archive.mkdir()

    def start(self, *servers: str) -> None:
        for server in servers:
            self.znodes.start_server(server)
            (self._archive / wal(1, server)).write_bytes(EMPTY_WAL)
            self.znodes.add_wal(server, "p", wal(1, server))

    def kill(self, *servers: str) -> None:
        for server in servers:
            self.znodes.stop_server(server)

    def servers_with_queues(self) -> list[str]:
        return sorted(self.znodes.zk.get_children(self.znodes.nodes.queues))


@pytest.fixture
def cluster(hbase: HBaseZNodes, tmp_path: Path) -> Cluster:
    be_of(hbase, "1.7.2")  # a release whose Master, which is absent here, is not asked for peers
    return Cluster(hbase, tmp_path)


@pytest.fixture
def airflow(cluster: Cluster, hbase: HBaseZNodes, zookeeper: ZooKeeperServer, tmp_path: Path) -> Iterator[Airflow]:
    host, port = zookeeper.quorum.split(":")
    extra = {"znode_parent": hbase.nodes.base, "wal_root": f"file://{tmp_path}", "walferry_root": hbase.root}
    connection = {"conn_type": "generic", "host": host, "port": int(port), "password": "s3cret-pass", "extra": extra}
    environment = {"AIRFLOW_CONN_HBASE_SOURCE": json.dumps(connection), "AIRFLOW__LOGGING__LOGGING_LEVEL": "INFO"}
    with running(Airflow(tmp_path / "airflow", environment), FAILOVER, BY_HAND) as airflow:
        yield airflow


def test_deaths_begin_runs_by_themselves(airflow: Airflow, cluster: Cluster, tmp_path: Path) -> None:
    third = "rs-4.example.org,16020,1700000000004"
    cluster.start(DEAD, OTHER, third)
    airflow.unpause(FAILOVER)
    airflow.unpause(BY_HAND)

    time.sleep(20)
    assert airflow.runs(FAILOVER) == []  # all are alive
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
    assert airflow.await_run(BY_HAND, run_id)["state"] == "success"
    assert "1 WAL" in airflow.returned(BY_HAND, run_id, "report")["notes"][0]
    until(lambda: examples(airflow, "queue") is None, "no proposals any more")

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
