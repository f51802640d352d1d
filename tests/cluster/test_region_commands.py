"""`walferry regions` on real RegionServers of HBase 1.7.2, whose HMaster was killed."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from embedded.client import LOCAL, JavaClient
from embedded.hbase import ClusterAddress
from embedded.masterless import MasterlessCluster
from embedded.wire import Cell
from tests.cluster.classic_failover import tried_again
from tests.cluster.walferry_runs import source_of
from walferry.base.zk.client import connected
from walferry.cli.main import main
from walferry.hbase.layout import ZNodes
from walferry.hbase.names import ServerName
from walferry.hbase.rpc import admin as rpc
from walferry.master.catalog import read_catalog, table_of
from walferry.master.states import RegionState
from walferry.master.znodes import META_ENCODED_NAME, encode_region, encoded_name, read_region

TABLE = "t"
ROWS = 200
PATIENCE_SECONDS = 120.0


@dataclass(frozen=True)
class Site:
    """A cluster with two RegionServers, and the rows that were written to it. The rows are not flushed."""

    cluster: MasterlessCluster
    client: JavaClient
    cells: list[Cell]
    zk: KazooClient
    nodes: ZNodes
    source: str

    def servers_of(self, table: str = TABLE) -> dict[str, ServerName | None]:
        """The regions of a table, with the servers that hbase:meta names."""
        regions = read_catalog(self.zk, self.nodes).regions
        return {encoded: known.server for encoded, known in regions.items() if table_of(known.info) == table}

    def rows(self) -> list[Cell]:
        return tried_again(lambda: self.client.scan_all(TABLE))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, java_client: Callable[[ClusterAddress], JavaClient]) -> Iterator[Site]:
    with MasterlessCluster(Path(tmp_path_factory.mktemp("commands"))) as cluster:
        for _ in range(2):
            cluster.launch_regionserver()
        cluster.start_master()
        at = source_of(cluster.address)
        extra = {"wal_root": at.wal_root, "znode_parent": at.znode_parent}
        with connected(at.quorum) as zk:
            client = java_client(cluster.address)
            client.create_table(TABLE, {"f": LOCAL}, [b"5", b"a"])
            client.put_many(TABLE, ROWS, ["f:q"])
            cells = client.scan_all(TABLE)
            cluster.kill_master()
            yield Site(cluster, client, cells, zk, at.nodes, json.dumps({"host": at.quorum, "extra": extra}))


@pytest.fixture
def run(site: Site, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, Any]]:
    """`run("list")` → the exit status, and the JSON that the command prints, or its error."""

    def run(*arguments: str) -> tuple[int, Any]:
        where = [] if arguments[0] in ("list", "explain") else ["--host", "localhost", "--wait", "120"]
        status = main(["--source", site.source, "regions", *arguments, "--json", *where])
        reported = json.loads(capsys.readouterr().out)
        return status, reported.get("error", reported)

    return run


def wait_for(done: Callable[[], bool], what: str) -> None:
    give_up = time.monotonic() + PATIENCE_SECONDS
    while not done():
        assert time.monotonic() < give_up, what
        time.sleep(0.1)


def test_regions_move_and_tables_are_disabled_and_enabled(site: Site, run: Callable[..., tuple[int, Any]]) -> None:
    encoded, source = min(site.servers_of().items())
    (to,) = {ServerName.parse(each.server_name) for each in site.cluster.regionservers} - {source}
    assert run("move", encoded, str(to))[1]["done"] is False
    assert site.servers_of()[encoded] == source
    assert run("move", encoded, str(to), "--yes")[0] == 0
    assert site.servers_of()[encoded] == to
    assert site.rows() == site.cells
    assert run("disable", TABLE, "--yes")[0] == 0
    assert run("list")[1]["rows"] == []
    assert run("explain", encoded)[1]["state"] == "closed"
    assert run("enable", TABLE, "--yes")[0] == 0
    assert site.rows() == site.cells


def test_a_double_assignment_is_told_and_its_stray_copy_is_closed_without_losing_a_row(
    site: Site, run: Callable[..., tuple[int, Any]]
) -> None:
    """A master makes such an assignment if it opens a region without asking which server serves it."""
    encoded, first = min(site.servers_of().items())
    (second,) = {ServerName.parse(each.server_name) for each in site.cluster.regionservers} - {first}
    assert first is not None
    known = read_catalog(site.zk, site.nodes).regions[encoded]
    path = site.nodes.region_in_transition(encoded)
    site.zk.create(path, encode_region(known.name, RegionState.OFFLINE, second))
    rpc.open_regions(second, [(known.info, 0)], max(int(time.time() * 1000), known.opened_ms + 1))

    def opened() -> bool:
        found = read_region(site.zk, site.nodes, encoded)
        return found is not None and found.state is RegionState.OPENED

    wait_for(opened, "the second server opens the region too")
    site.zk.delete(path)
    status, found = run("list")
    (row,) = found["rows"]
    assert (status, row["region"], row["state"], row["next"]) == (3, encoded, "served twice", "an operator")
    assert run("unstick", "--yes")[0] == 3
    assert [row["state"] for row in run("list")[1]["rows"]] == ["served twice"]
    status, reported = run("close-copy", encoded, str(second), "--yes")
    assert (status, "--named-by-meta" in reported) == (1, True)
    assert run("close-copy", encoded, str(first), "--yes")[0] == 0
    assert run("list")[1]["rows"] == []
    assert run("move", encoded, str(first), "--yes")[0] == 0  # as close-copy says: the region's files are read again
    assert site.rows() == site.cells


def test_hbase_meta_behind_which_an_hmaster_hangs_is_opened_once_the_hmaster_is_stopped(
    site: Site, run: Callable[..., tuple[int, Any]]
) -> None:
    (server,) = site.servers_of("hbase:meta").values()
    assert server is not None
    known = read_catalog(site.zk, site.nodes).regions[META_ENCODED_NAME]
    assert encoded_name(known.name) == META_ENCODED_NAME
    rpc.close_copy(server, META_ENCODED_NAME)
    site.zk.create(site.nodes.region_in_transition(META_ENCODED_NAME), encode_region(known.name, RegionState.OPENING, server))
    site.cluster.launch_master()
    master = site.cluster.master
    assert master is not None
    wait_for(lambda: f"Processing {META_ENCODED_NAME} in state" in master.log_text(), "the HMaster waits for hbase:meta")
    time.sleep(3)
    status, reported = run("unstick", "--limit", "2")
    assert (status, reported["lines"][1:]) == (0, ["nothing is to be done beside the HMaster"])
    assert "stop it, use `regions unstick` for hbase:meta, and start it again" in reported["lines"][0]
    status, reported = run("move", META_ENCODED_NAME, str(server), "--yes")
    assert (status, "is active, as" in reported) == (1, True)
    site.cluster.kill_master()
    assert run("unstick", "--limit", "2", "--yes")[0] == 0
    assert run("list")[1]["rows"] == []
    site.cluster.start_master()
    report = site.cluster.hbck()
    assert report.inconsistencies == 0, report.text
    assert site.rows() == site.cells
