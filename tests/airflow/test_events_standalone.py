"""The DAG replicate_peer as `airflow standalone` runs it: begun by closed WALs, by due rolls, and by its period."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from kazoo.client import KazooClient

from demo.airflow_standalone import Airflow
from embedded.zookeeper import ZooKeeperServer
from tests.airflow_standalone import running
from tests.zk.fixtures import lasting_hbase as hbase
from tests.zk.fixtures import new_client
from tests.zk.hbase_znodes import OTHER, HBaseZNodes, LastingZNodes
from tests.zk.rolling_site import RollingSite, rolling_site
from tests.zk.test_agreement import be_of

from .airflow_processes import processes_of
from .znodes_cluster import Cluster, until

__all__ = ["hbase", "new_client"]  # fixtures

SHIP, SHIP_WEST = "replicate_peer", "replicate_peer-west"
BURST = 6

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]


class FiledZNodes(LastingZNodes):
    """Each WAL that is queued has a file, without an entry."""

    cluster: Cluster | None = None

    def add_wal(self, server: str, queue_id: str, name: str, position: int | None = None) -> str:
        if self.cluster is not None:
            self.cluster.file(name)
        return super().add_wal(server, queue_id, name, position)


@pytest.fixture
def cluster(new_client: Callable[[], KazooClient], tmp_path: Path) -> Cluster:
    znodes = FiledZNodes.new(new_client())
    znodes.add_peer("p")
    znodes.cluster = Cluster(znodes, tmp_path / "source")
    return znodes.cluster


@pytest.fixture
def west(hbase: HBaseZNodes, tmp_path: Path) -> Cluster:
    """Another source."""
    cluster = Cluster(hbase, tmp_path / "west")
    cluster.start(OTHER)
    return cluster


@pytest.fixture
def site(cluster: Cluster) -> Iterator[RollingSite]:
    """The RegionServer of the source, which rolls when it is asked."""
    with rolling_site(cluster.znodes, {"t": 1}, servers=1) as site:
        be_of(cluster.znodes, "1.7.2", site.servers[0].name)
        yield site


@pytest.fixture
def airflow(cluster: Cluster, west: Cluster, zookeeper: ZooKeeperServer, tmp_path: Path) -> Iterator[Airflow]:
    environment = {
        "AIRFLOW__WALFERRY__SOURCES": "hbase_source,west",
        "AIRFLOW__WALFERRY__REPLICATE_SCHEDULE": "0 0 1 1 *; west=* * * * *",
        "AIRFLOW_CONN_HBASE_SOURCE": cluster.connection(zookeeper.quorum, cluster.znodes.root),
        "AIRFLOW_CONN_WEST": west.connection(zookeeper.quorum, cluster.znodes.root),
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "INFO",
    }
    with running(Airflow(tmp_path / "airflow", environment), SHIP, SHIP_WEST) as airflow:
        yield airflow


def test_closed_wals_are_shipped_by_themselves(airflow: Airflow, cluster: Cluster, site: RollingSite) -> None:
    (server,) = site.servers
    airflow.unpause(SHIP)
    # The server is to roll when the watcher begins, and the run that rolls it ships what that closes.
    until(lambda: server.rolls and len(cluster.wals(server.name, "p")) == 1, "a roll, and its closed WAL is shipped")
    before = ended(airflow, 1)
    assert {tuple(airflow.returned(SHIP, run["dag_run_id"], "peers")) for run in before} == {("p",)}

    # HBase rolls by itself, often, and closes WALs for a peer that has just become managed.
    cluster.znodes.add_peer("q", config={})
    site.peers.append("q")
    began = time.monotonic()
    for number in range(BURST):
        site.begin_wal(server)
        if number == 1:
            cluster.znodes.set_config("q", {"walferry.managed": "true"})
        time.sleep(0.5)
    until(lambda: all(len(cluster.wals(server.name, peer)) == 1 for peer in ("p", "q")), "the burst is shipped")
    print(f"{time.monotonic() - began:.1f} s for a burst of {BURST} WALs")
    time.sleep(15)
    runs = ended(airflow, len(before) + 1)[len(before) :]
    assert len(runs) <= 4  # not one for each WAL
    shipped = [airflow.returned(SHIP, run["dag_run_id"], "peers") for run in runs]
    assert {peer for peers in shipped for peer in peers} == {"p", "q"}

    # While Airflow is stopped, a WAL is closed.
    airflow.stop()
    site.begin_wal(server)
    (_, newest) = cluster.wals(server.name, "p")
    airflow.launch()
    airflow.await_dag(SHIP)
    until(lambda: cluster.wals(server.name, "p")[0] >= newest, "what was closed meanwhile is shipped")
    assert len(ended(airflow, len(before) + len(runs) + 1)) <= len(before) + len(runs) + 3

    # The lag that a peer may have says how often servers roll.
    rolls = server.rolls
    cluster.znodes.set_config("p", {"walferry.managed": "true", "walferry.max_lag": "40"})
    began = time.monotonic()
    until(lambda: server.rolls >= rolls + 3, "three rolls")
    print(f"{time.monotonic() - began:.1f} s for three rolls")
    assert time.monotonic() - began > 35


def test_without_a_triggerer_the_period_ships(airflow: Airflow, west: Cluster) -> None:
    end_triggerer(airflow)
    west.add_wal(OTHER, "p", 2)
    airflow.unpause(SHIP_WEST)
    until(lambda: west.wals(OTHER, "p") == [2], "the period ships")
    assert {run["run_type"] for run in airflow.runs(SHIP_WEST)} == {"scheduled"}


def ended(airflow: Airflow, least: int) -> list[dict[str, Any]]:
    """Wait until events have begun so many runs, and all have ended well. Unpausing may have begun one by the period."""
    until(lambda: len(begun_by_events(airflow.runs(SHIP))) >= least, f"{least} runs")
    runs = airflow.await_runs(SHIP)
    assert {run["state"] for run in runs} == {"success"}, runs
    assert len(runs) - len(begun_by_events(runs)) <= 1
    return begun_by_events(runs)


def begun_by_events(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [run for run in runs if run["run_type"] == "asset_triggered"]


def end_triggerer(airflow: Airflow) -> None:
    found = processes_of(airflow, "triggerer")
    assert found
    for process in found:
        process.kill()
    psutil.wait_procs(found, 30)
