"""Two real source clusters in one `airflow standalone`, each with DAGs on its own schedule, and a peer of the same id."""

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
from embedded.client import GLOBAL, LOCAL, JavaClient
from embedded.hbase import ClusterAddress
from embedded.standalone import StandaloneCluster
from tests.unit.airflow.page.pages import Parsed, parsed
from walferry.airflow.sources import own_name

from . import znodes_cluster

EAST, WEST = "hbase_source", "west"
SHIP, WATCH = "replicate_peer", "watch_replication"
ROWS, MORE = 300, 50
WAIT_SECONDS = 400  # servers roll every 5 minutes
until = partial(znodes_cluster.until, seconds=WAIT_SECONDS)
PAGE_SECONDS = 10

pytestmark = pytest.mark.timeout(1500)


@dataclass(frozen=True)
class World:
    """East replicates its table to the peer cluster, and west its own to east, both through a peer of the same id."""

    airflow: Airflow
    peer: str
    east_table: str
    west_table: str
    east: JavaClient
    west: JavaClient
    peer_cluster: JavaClient
    west_cluster: StandaloneCluster

    def page(self) -> Parsed:
        """The replication page, as Airflow's api server shows it."""
        answer = self.airflow._client.get("/walferry/replication")
        assert answer.status_code == 200, answer.text
        return parsed(answer.text)

    def ended(self, dag: str, of: str, run_id: str) -> dict[str, Any]:
        return self.airflow.await_run(own_name(dag, of), run_id)


def connection(address: ClusterAddress) -> str:
    extra = {"znode_parent": address.znode_parent, "wal_root": address.wal_root}
    return json.dumps({"conn_type": "generic", "host": address.quorum, "extra": extra})


@pytest.fixture
def world(
    tmp_path: Path, standalone_pair: Any, java_client: Callable[[ClusterAddress], JavaClient], unique: Callable[[str], str]
) -> Iterator[World]:
    with ExitStack() as started:
        cluster = StandaloneCluster(tmp_path / "west", name="west")
        started.callback(cluster.kill)
        cluster.launch()
        environment = {
            "AIRFLOW__WALFERRY__SOURCES": f"{EAST},{WEST}",
            "AIRFLOW_CONN_HBASE_SOURCE": connection(standalone_pair.source.address),
            "AIRFLOW_CONN_WEST": connection(cluster.address),
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[1]"}),
            "AIRFLOW__CORE__PARALLELISM": "8",
        }
        airflow = Airflow(tmp_path / "airflow", environment)
        started.callback(airflow.stop)
        airflow.launch()
        cluster.await_ready()
        addresses = (standalone_pair.source.address, cluster.address, standalone_pair.peer_cluster.address)
        east, west, peer_cluster = map(java_client, addresses)
        peer, of_east, of_west = unique("peer"), unique("t"), unique("u")
        for client, table, scope in ((east, of_east, GLOBAL), (peer_cluster, of_east, GLOBAL), (east, of_west, LOCAL)):
            client.create_table(table, {"f": scope})
            started.callback(client.drop_table, table)
        west.create_table(of_west, {"f": GLOBAL})
        east.roll_wals()  # earlier tests' edits are not queued
        east.add_managed_peer(peer, peer_cluster.address.cluster_key)
        started.callback(east.remove_peer, peer)
        west.add_managed_peer(peer, east.address.cluster_key)
        for of in (EAST, WEST):
            airflow.await_dag(own_name(SHIP, of))
        yield World(airflow, peer, of_east, of_west, east, west, peer_cluster, cluster)


def test_each_source_is_shipped_watched_and_shown_by_itself(world: World) -> None:
    airflow = world.airflow
    world.east.put_many(world.east_table, ROWS, ["f:q"])
    world.west.put_many(world.west_table, ROWS, ["f:q"])
    for of in (EAST, WEST):
        airflow.unpause(own_name(SHIP, of))
    until(lambda: world.peer_cluster.count_rows(world.east_table) == ROWS, "east's rows are at its peer cluster")
    until(lambda: world.east.count_rows(world.west_table) == ROWS, "west's rows are at east")
    for of in (EAST, WEST):
        runs = airflow.await_runs(own_name(SHIP, of))  # unpausing may begin one of the schedule's
        assert {run["run_type"] for run in runs} <= {"asset_triggered", "scheduled"}, runs
        assert {run["state"] for run in runs} == {"success"}, runs
        reports = [airflow.returned(own_name(SHIP, of), run["dag_run_id"], "peer.report", 0) for run in runs]
        found = [(report["peer"], report["totals"]["shippedOps"]) for report in reports if report]
        assert ({peer for peer, _ in found}, sum(ops for _, ops in found)) == ({world.peer}, ROWS)
    assert world.east.compare(world.east_table, world.peer_cluster).same
    assert world.west.compare(world.west_table, world.east).same
    assert not world.peer_cluster.table_exists(world.west_table)
    assert not world.west.table_exists(world.east_table)

    until(lambda: world.page().text.count(f"Peer {world.peer}") == 2, "both peers are on the page")
    page = world.page()
    assert [text for text in page.texts if text in (EAST, WEST)][:2] == [EAST, WEST]
    dags = {str(link["href"]).rpartition("/")[2] for link in page.all("a") if "/dags/" in str(link["href"])}
    assert {own_name(SHIP, EAST), own_name(SHIP, WEST)} <= dags

    # West is away: its own runs fail, and nothing of east waits for that.
    world.west_cluster.kill()
    world.east.put_many(world.east_table, MORE, ["f:q"], first=ROWS)
    for of in (EAST, WEST):
        airflow.unpause(own_name(WATCH, of))
    runs = {of: airflow.trigger(own_name(SHIP, of), {"peer": world.peer}) for of in (WEST, EAST)}
    assert world.ended(SHIP, EAST, runs[EAST])["state"] == "success"
    assert world.peer_cluster.count_rows(world.east_table) == ROWS + MORE
    assert world.ended(SHIP, WEST, runs[WEST])["state"] == "failed"
    west_watched = until(lambda: failed(airflow, own_name(WATCH, WEST)), "people are notified of west")
    assert "unreachable: the source cannot be read" in west_watched["note"]
    east_watched = until(lambda: watched(airflow), "east is watched")
    assert "unreachable" not in (east_watched["note"] or "")
    began = time.monotonic()
    world.page()
    assert time.monotonic() - began < PAGE_SECONDS
    page = until(lambda: (now := world.page()).text.count("Unreachable, so lag is unknown") == 1 and now, "west is shown as away")
    assert page.text.count(f"Peer {world.peer}") == 1


def failed(airflow: Airflow, dag_id: str) -> dict[str, Any] | None:
    return next((run for run in airflow.runs(dag_id) if run["state"] == "failed"), None)


def watched(airflow: Airflow) -> dict[str, Any] | None:
    return next((run for run in airflow.runs(own_name(WATCH, EAST)) if run["state"] in ("success", "failed")), None)
