"""Walferry as the master of real RegionServers of HBase 1.7.2: from the death of an HMaster until another one takes over."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
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
from walferry.base.protos import hbase_pb2 as pb
from walferry.base.zk.client import connected
from walferry.hbase.cluster import cluster_id, live_servers
from walferry.hbase.layout import OwnZNodes, ZNodes
from walferry.hbase.names import ServerName
from walferry.hbase.tables.regions import Region
from walferry.hbase.tables.tables import Tables
from walferry.master.calls import CalledServers, encoded_name_of
from walferry.master.errors import LiveMaster
from walferry.master.plans import Plan
from walferry.master.reconcile import ClusterView, Known, act, begin_to_close, decide_all, look
from walferry.master.role import Candidate, Role, acting_as_master

TABLE = "t"
ROWS = 300
WAIT_SECONDS = 60


@dataclass(frozen=True)
class Site:
    """The cluster, and the rows that were written to it while its HMaster lived."""

    cluster: MasterlessCluster
    client: JavaClient
    cells: list[Cell]
    zk: KazooClient
    nodes: ZNodes
    own: OwnZNodes

    def candidate(self) -> Candidate:
        root = self.cluster.address.wal_root
        return Candidate("the test", root, settings={"hbase.rootdir": root, "fs.defaultFS": "file:///"})

    def regions(self) -> Mapping[str, Region]:
        """The table's regions as hbase:meta has them, by encoded name."""
        with Tables(self.zk, self.nodes) as tables:
            return {region.encoded_name: region for region in tables.regions(TABLE)}

    def look(self) -> ClusterView:
        catalog = {encoded: _known(region) for encoded, region in self.regions().items()}
        return look(self.zk, self.nodes, self.own, CalledServers(), lambda: catalog, frozenset)


def _known(region: Region) -> Known:
    region_id = int(region.name.split(b",")[-1].split(b".")[0])
    table = pb.TableName(namespace=b"default", qualifier=TABLE.encode())
    info = pb.RegionInfo(region_id=region_id, table_name=table, start_key=region.start, end_key=region.end)
    return Known(region.name, info, region.server, True)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, java_client: Callable[[ClusterAddress], JavaClient]) -> Iterator[Site]:
    """A cluster with a RegionServer and a table. Its HMaster was killed, and the rows are not flushed."""
    with MasterlessCluster(Path(tmp_path_factory.mktemp("masterless"))) as cluster:
        cluster.launch_regionserver()
        cluster.start_master()
        at = source_of(cluster.address)
        with connected(at.quorum) as zk:
            client = java_client(cluster.address)
            client.create_table(TABLE, {"f": LOCAL}, [b"5", b"a"])
            client.put_many(TABLE, ROWS, ["f:q"])
            own = OwnZNodes("/walferry", at.nodes)
            with pytest.raises(LiveMaster), acting_as_master(zk, at.nodes, own, Candidate("too early", "")):
                pass
            cluster.kill_master()
            yield Site(cluster, client, client.scan_all(TABLE), zk, at.nodes, own)


def wait_for(done: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not done():
        assert time.monotonic() < deadline, f"not within {WAIT_SECONDS} s: {what}"
        time.sleep(0.1)


def start_servers(site: Site, number: int) -> list[ServerName]:
    started = [site.cluster.launch_regionserver() for _ in range(number)]
    wait_for(lambda: all(server.is_serving for server in started), "RegionServers start with us as their master")
    return [ServerName.parse(server.server_name) for server in started]


def give_up(site: Site, role: Role, server: ServerName) -> None:
    """Have the server hear, at its next report, that it is dead."""
    index = next(i for i, each in enumerate(site.cluster.regionservers) if each.server_name == str(server))
    process = site.cluster.regionservers[index].process
    role.registry.give_up(server)
    wait_for(lambda: not process.alive, f"{server} aborts")
    assert "YouAreDeadException" in process.log_text()
    site.cluster.kill_regionserver(index)


def move(site: Site, role: Role, encoded: str, to: ServerName) -> None:
    servers = CalledServers()
    (begun,) = begin_to_close(site.look(), {encoded: Plan(to, True, "a test moves it")}, role.writes, servers)
    assert begun.error is None

    def moved() -> bool:
        view = site.look()
        outcomes = act(view, decide_all(view), role.writes, servers, lambda _, live: min(live))
        assert not [outcome.error for outcome in outcomes if outcome.error]
        region = view.regions[encoded]
        return region.znode is None and region.plan is None and region.served_by == {to}

    wait_for(moved, f"{encoded} is open at {to}")


def test_servers_take_us_for_their_master_a_region_moves_and_an_hmaster_takes_over(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    (first,) = live_servers(site.zk, site.nodes)
    with acting_as_master(site.zk, site.nodes, site.own, site.candidate()) as role:
        reported: list[ServerName] = []
        monkeypatch.setattr(role.registry, "report", reported.append)
        wait_for(lambda: first in reported, "the RegionServer of before reports to us")
        monkeypatch.undo()
        second, third = start_servers(site, 2)
        site.cluster.launch_master()  # it waits until we are gone

        served = CalledServers().online(live_servers(site.zk, site.nodes))
        assert served.keys() == {first, second, third}
        assert served[first] >= site.regions().keys()
        assert not served[second] | served[third]
        assert {encoded_name_of(_known(region).info) for region in site.regions().values()} == site.regions().keys()

        give_up(site, role, third)
        encoded = min(site.regions())
        move(site, role, encoded, second)
        assert site.regions()[encoded].server == second
        assert tried_again(lambda: site.client.scan_all(TABLE)) == site.cells
        wait_for(lambda: bool(site.zk.get_children(f"{site.nodes.base}/backup-masters")), "the HMaster waits")
        assert site.zk.get_children(site.nodes.in_transition) == []

    site.cluster.await_ready()
    report = site.cluster.hbck()
    assert report.inconsistencies == 0, report.text
    assert {region.server for region in site.client.regions(TABLE)} == {str(first), str(second)}
    assert tried_again(lambda: site.client.scan_all(TABLE)) == site.cells


def test_servers_start_with_us_after_zookeeper_has_lost_everything(site: Site) -> None:
    site.cluster.kill_master()
    while site.cluster.regionservers:
        site.cluster.stop_regionserver()  # in order: an HMaster without znodes does not split the WAL of hbase:meta
    before = cluster_id(site.zk, site.nodes)
    site.zk.delete(site.nodes.base, recursive=True)
    with acting_as_master(site.zk, site.nodes, site.own, site.candidate()):
        assert cluster_id(site.zk, site.nodes) == before
        (server,) = start_servers(site, 1)
        assert live_servers(site.zk, site.nodes) == {server}
        assert CalledServers().online({server}) == {server: frozenset()}
    site.cluster.start_master()
    assert tried_again(lambda: site.client.scan_all(TABLE)) == site.cells
