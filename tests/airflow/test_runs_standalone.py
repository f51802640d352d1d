"""Runs as operators see them under Airflow's own scheduler and workers: logs, links, notes and metrics.

The log of a real task differs from a test run's log: the supervisor writes it, with the runner's own lines.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from demo.airflow_standalone import Airflow
from embedded.zookeeper import ZooKeeperServer
from tests.airflow_standalone import running
from tests.otlp_receiver import otlp_receiver
from tests.statsd_server import StatsdServer
from tests.zk.hbase_znodes import SERVER, HBaseZNodes, LastingZNodes, wal
from tests.zk.test_agreement import be_of
from walferry.base.zk.client import connected

DAG, WATCH = "replicate_peer", "watch_replication"
HOUR_MS = 3_600_000
PAUSED = {"walferry.managed": "true", "walferry.paused": "true"}
MARKS = ("::group::", "::endgroup::")  # the UI makes folds from these

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def hbase(zookeeper: ZooKeeperServer) -> Iterator[HBaseZNodes]:
    with connected(zookeeper.quorum) as zk:
        cluster = LastingZNodes.new(zk)
        cluster.add_peer("p")
        be_of(cluster, "1.7.2")  # a release whose Master, which is absent here, is not asked for peers
        yield cluster


@pytest.fixture(scope="module")
def statsd() -> Iterator[StatsdServer]:
    with StatsdServer() as server:
        yield server


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("standalone")
    (folder / "oldWALs").mkdir()
    return folder


@pytest.fixture(scope="module")
def environment(hbase: HBaseZNodes, zookeeper: ZooKeeperServer, folder: Path) -> dict[str, str]:
    extra = {"znode_parent": hbase.nodes.base, "wal_root": f"file://{folder}", "walferry_root": hbase.root}
    connection = {"conn_type": "generic", "host": zookeeper.quorum, "extra": extra}
    return {
        "AIRFLOW_CONN_HBASE_SOURCE": json.dumps(connection),
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "INFO",
        "AIRFLOW__WALFERRY__WATCH_SCHEDULE": "* * * * * */5",  # the last field is seconds
    }


@pytest.fixture(scope="module")
def airflow(environment: dict[str, str], folder: Path, statsd: StatsdServer) -> Iterator[Airflow]:
    with running(Airflow(folder / "airflow", {**environment, **statsd.settings}), DAG, WATCH) as airflow:
        airflow.unpause(DAG)
        yield airflow


def instance(run_id: str, task: str, dag_id: str = DAG) -> str:
    return f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task}"


def log_of(airflow: Airflow, run_id: str, task: str, map_index: int = -1, dag_id: str = DAG) -> list[dict[str, Any]]:
    """Return the lines of a task's log as the UI gets them."""
    place = instance(run_id, task, dag_id)
    (tries,) = (
        each["try_number"] for each in airflow.tasks(dag_id, run_id) if (each["task_id"], each["map_index"]) == (task, map_index)
    )
    answer = airflow._get(f"{place}/logs/{tries}?map_index={map_index}&full_content=true") or {"content": []}
    assert answer["content"], (answer, tries, airflow.log_tail())
    return [line if isinstance(line, dict) else {"event": str(line)} for line in answer["content"]]


def after_groups(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the lines that lie in no group, as the UI sorts them. The UI folds the lines of a group away."""
    open_groups, shown = 0, []
    for line in lines:
        if MARKS[0] in line["event"]:
            open_groups += 1
        elif MARKS[1] in line["event"]:
            open_groups = max(0, open_groups - 1)
        elif not open_groups:
            shown.append(line)
    assert shown, lines
    return shown


def ended(airflow: Airflow, **conf: Any) -> dict[str, Any]:
    return airflow.await_run(DAG, airflow.trigger(DAG, conf))


def shipping(airflow: Airflow, peer: str) -> dict[str, Any]:
    """Return a run that ships the peer itself. A run that closed WALs have begun may hold the lock."""
    for _ in range(3):
        run = ended(airflow, peer=peer, roll=False)
        (state,) = (each["state"] for each in airflow.tasks(DAG, run["dag_run_id"]) if each["task_id"] == "peer.ship")
        if state != "skipped":
            return run
    raise AssertionError(f"each run left {peer} to another: {airflow.runs(DAG)}")


def forget(hbase: HBaseZNodes, peer: str) -> None:
    """Delete the peer and its queue."""
    for znode in (hbase.nodes.peer(peer), f"{hbase.nodes.queues}/{SERVER}/{peer}"):
        if hbase.zk.exists(znode):
            hbase.zk.delete(znode, recursive=True)


@pytest.fixture
def lost(hbase: HBaseZNodes) -> Iterator[str]:
    """Yield a peer whose WALs are queued, but lie nowhere."""
    hbase.add_peer("lost")
    for number in (1, 2):
        hbase.add_wal(SERVER, "lost", wal(number))
    yield "lost"
    forget(hbase, "lost")


def test_what_an_operator_sees_of_runs(airflow: Airflow, lost: str) -> None:
    refused_run = ended(airflow, peers="p")
    assert refused_run["state"] == "failed"
    lines = log_of(airflow, refused_run["dag_run_id"], "peers")
    last = after_groups(lines)[-1]
    assert last["level"] == "error"
    assert last["event"].startswith("there is no parameter 'peers' (did you mean 'peer'?). Parameters of replicate_peer: ")
    assert [line["event"] for line in lines if line is not last and lines.index(line) > lines.index(last)] == ["::endgroup::"]
    assert not [line for line in lines if line.get("error_detail")]  # a traceback
    assert refused_run["note"].startswith("Walferry: there is no parameter 'peers' (did you mean 'peer'?).")

    # Nothing waits, so the task that ships is skipped; it leads to the peer on the page all the same, and nowhere else.
    idle = ended(airflow, peer="p", roll=False)
    assert (idle["state"], idle["note"]) == ("success", None)
    links = airflow._get(f"{instance(idle['dag_run_id'], 'peer.ship')}/links?map_index=0")
    assert links is not None
    assert links["extra_links"] == {
        "Replication": "/plugin/walferry/walferry/replication?source=hbase_source&peer=p", "Spark": None,
    }  # fmt: skip

    failed = shipping(airflow, lost)
    assert failed["state"] == "failed"
    end = after_groups(log_of(airflow, failed["dag_run_id"], "peer.report", 0))[-1]
    assert (end["level"], end["event"].split()[0]) == ("error", "FAILED")
    assert f"Walferry: Peer {lost}: " in failed["note"]
    links = airflow._get(f"{instance(failed['dag_run_id'], 'peer.report')}/links?map_index=0")
    assert links is not None
    assert links["extra_links"] == {"Replication": f"/plugin/walferry/walferry/replication?source=hbase_source&peer={lost}"}


@pytest.fixture
def behind(hbase: HBaseZNodes) -> Iterator[str]:
    """Yield a peer with a lag of two hours. The other tests' peer has a peer cluster that does not exist, and must cause no
    alert."""
    hbase.set_config("p", PAUSED)
    hbase.add_peer("w", config=PAUSED)
    now = int(time.time() * 1000)
    for begun in (now - 2 * HOUR_MS, now - HOUR_MS):
        hbase.add_wal(SERVER, "w", wal(begun))
    yield "w"
    for peer in ("w", "gone"):
        forget(hbase, peer)
    hbase.set_config("p", {"walferry.managed": "true"})


def watched(airflow: Airflow, state: str, task_state: str, after: str = "") -> dict[str, Any]:
    """Wait for a scheduled run of the watching DAG that begins after `after` and ends in these states."""
    give_up = time.monotonic() + 300
    while time.monotonic() < give_up:
        for run in airflow.runs(WATCH):
            if run["run_after"] > after and run["state"] == state:
                (task,) = airflow.tasks(WATCH, run["dag_run_id"])
                if task["state"] == task_state:
                    return run
        time.sleep(0.5)
    raise AssertionError(f"no run of {WATCH} is {state}: {airflow.runs(WATCH)}")


def test_replication_is_watched_on_schedule(airflow: Airflow, hbase: HBaseZNodes, statsd: StatsdServer, behind: str) -> None:
    began, earlier = time.time() * 1000, [run["run_after"] for run in airflow.runs(WATCH)]
    airflow.unpause(WATCH)
    well = watched(airflow, "success", "success", after=max(earlier, default=""))
    assert (well["run_type"], well["note"]) == ("scheduled", None)
    gauges = statsd.await_gauge(f"hbase_source.source.{behind}.sizeOfLogQueue", 2)
    assert gauges["hbase_source.source.up"] == gauges[f"hbase_source.source.{behind}.paused"] == 1
    assert gauges["hbase_source.source.orphanedQueues"] == 0
    assert gauges[f"hbase_source.source.{behind}.replicationLag"] >= 2 * HOUR_MS  # as HBase has it, in ms
    assert gauges["hbase_source.source.snapshotAt"] >= began

    hbase.add_wal(SERVER, "gone", wal(1))  # the queue of a peer that does not exist
    alert = watched(airflow, "failed", "failed", after=well["run_after"])
    text = f"orphaned queues: 1 queue with 1 WAL are of peers that do not exist, and nothing ships them: {SERVER}/gone"
    assert alert["run_type"] == "scheduled"
    assert alert["note"].startswith("Walferry: orphaned queues: 1 queue with 1 WAL are of peers that do not exist")
    lines = log_of(airflow, alert["dag_run_id"], "watch", dag_id=WATCH)
    last = after_groups(lines)[-1]
    assert (last["level"], last["event"].replace("\n  ", " ").startswith(text)) == ("error", True)
    assert not [line for line in lines if line.get("error_detail")]  # a traceback
    assert statsd.await_gauge("hbase_source.source.orphanedQueues", 1)["hbase_source.source.orphanedWals"] == 1
    watched(airflow, "success", "skipped", after=alert["run_after"])  # the alert was sent already
    assert [run["state"] for run in airflow.runs(WATCH) if run["run_after"] > well["run_after"]].count("failed") == 1


@pytest.mark.soak  # Airflow starts once more; what its backend sends is in tests/airflow/test_stats.py
def test_its_metrics_arrive_by_opentelemetry_though_its_task_ends_at_once(
    airflow: Airflow, environment: dict[str, str], folder: Path, behind: str
) -> None:
    airflow.unpause(WATCH)
    airflow.stop()
    with otlp_receiver(folder) as receiver, running(Airflow(folder / "airflow", {**environment, **receiver.settings}), WATCH):
        gauges = receiver.await_gauge(("source.sizeoflogqueue", "hbase_source", behind))
    assert gauges["source.sizeoflogqueue", "hbase_source", behind] == 2
    assert gauges["source.replicationlag", "hbase_source", behind] >= 2 * HOUR_MS
    assert gauges["source.up", "hbase_source", None] == 1
