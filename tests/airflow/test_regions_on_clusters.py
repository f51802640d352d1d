"""The DAGs for regions of HBase 1, run by Airflow, with real RegionServers and HMasters of 1.7.2."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from embedded.client import LOCAL, JavaClient
from embedded.hbase import ClusterAddress
from embedded.masterless import MasterlessCluster
from embedded.wire import Cell
from tests.cluster.classic_failover import tried_again
from tests.cluster.walferry_runs import source_of
from walferry.airflow.operators.approval import YES
from walferry.base.zk.client import connected
from walferry.hbase.cluster import live_servers
from walferry.hbase.layout import ZNodes
from walferry.hbase.rpc import admin as rpc
from walferry.master.catalog import read_catalog
from walferry.master.reconcile import Known
from walferry.master.states import RegionState
from walferry.master.tables import table_of
from walferry.master.znodes import encode_region, encoded_name, read_region

from .conftest import Run
from .people import person

TABLE = "t"
ROWS = 200
NAMESPACES = "hbase:namespace"
INITIALIZED = "Master has completed initialization"
HANGS_SECONDS = 10.0  # without the cure, it hangs for ever


@dataclass(frozen=True)
class Site:
    """A cluster with two RegionServers, and the rows that were written to it. The rows are not flushed."""

    cluster: MasterlessCluster
    client: JavaClient
    cells: list[Cell]
    zk: KazooClient
    nodes: ZNodes

    def region_of(self, table: str) -> Known:
        regions = read_catalog(self.zk, self.nodes).regions.values()
        return next(known for known in regions if table_of(known.info) == table)

    def log(self) -> str:
        assert self.cluster.master is not None
        return self.cluster.master.log_text()

    def check(self) -> None:
        """Check that the HMaster is ready and finds nothing wrong, and that no row is missing."""
        self.cluster.await_ready()
        report = self.cluster.hbck()
        assert report.inconsistencies == 0, report.text
        assert tried_again(lambda: self.client.scan_all(TABLE)) == self.cells


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, java_client: Callable[[ClusterAddress], JavaClient]) -> Iterator[Site]:
    with MasterlessCluster(Path(tmp_path_factory.mktemp("regions"))) as cluster:
        for _ in range(2):
            cluster.launch_regionserver()
        cluster.start_master()
        at = source_of(cluster.address)
        with connected(at.quorum) as zk:
            client = java_client(cluster.address)
            client.create_table(TABLE, {"f": LOCAL}, [b"5", b"a"])
            client.put_many(TABLE, ROWS, ["f:q"])
            yield Site(cluster, client, client.scan_all(TABLE), zk, at.nodes)


@pytest.fixture(autouse=True)
def _connection(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    address = site.cluster.address
    extra = {"wal_root": address.wal_root, "znode_parent": address.znode_parent}
    monkeypatch.setenv("AIRFLOW_CONN_HBASE_SOURCE", json.dumps({"conn_type": "generic", "host": address.quorum, "extra": extra}))


def wait_for(done: Callable[[], bool], what: str, seconds: float = 120.0) -> None:
    give_up = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < give_up, what
        time.sleep(0.1)


def test_an_open_behind_which_an_hmaster_hangs_is_told_by_the_dry_run_and_cured_by_the_real_one(
    site: Site, run_dag: Callable[..., Run], logged: Callable[[], str]
) -> None:
    """Such an open remains if a server forgets the region of hbase:namespace, which it was opening, without an HMaster."""
    known = site.region_of(NAMESPACES)
    assert known.server is not None
    encoded = encoded_name(known.name)
    site.cluster.kill_master()
    rpc.close_copy(known.server, encoded)
    site.zk.create(site.nodes.region_in_transition(encoded), encode_region(known.name, RegionState.OPENING, known.server))
    site.cluster.launch_master()
    wait_for(lambda: f"Processing {encoded} in state: RS_ZK_REGION_OPENING" in site.log(), "the HMaster waits for the region")
    time.sleep(HANGS_SECONDS)
    assert INITIALIZED not in site.log()

    dry = run_dag("region_transitions", dry_run=True, limit_minutes=0.05)
    (row,) = dry.report["regions"]
    assert (row["region"], row["table"], row["state"], row["server"]) == (encoded, NAMESPACES, "OPENING", str(known.server))
    assert row["next"] == "an operator, with `regions unstick`"
    assert "write FAILED_OPEN in the server's place" in logged()
    found = read_region(site.zk, site.nodes, encoded)
    assert found is not None
    assert (found.state, found.version) == (RegionState.OPENING, 0)
    assert INITIALIZED not in site.log()

    real = run_dag("region_transitions", dry_run=False, limit_minutes=0.05)
    assert real.state == "success", real.tasks
    site.check()


def test_a_cluster_is_started_without_an_hmaster_which_takes_over_afterwards(
    site: Site, run_dag: Callable[..., Run], later: Callable[..., None], logged: Callable[[], str]
) -> None:
    site.cluster.kill_all_regionservers()
    site.cluster.kill_master()
    wait_for(lambda: not live_servers(site.zk, site.nodes), "the servers' sessions end")
    for _ in range(2):
        later(5, site.cluster.launch_regionserver)  # RegionServers wait for a master: here for the run
    with person(YES):
        ended = run_dag("emergency_start", min_servers=2, wait_minutes=5)
    reported = logged()
    assert ended.state == "success", reported
    assert ended.report["open"] == ended.report["known"]
    assert "which is dead, are not split" in reported
    assert tried_again(lambda: site.client.scan_all(TABLE)) == site.cells
    site.cluster.launch_master()
    site.check()
