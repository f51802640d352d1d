"""The five flows of the master on real RegionServers of HBase 1.7.2, with Walferry in place of an HMaster.

The tests share one cluster and go from one flow to the next. A real HMaster takes over at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from embedded.client import JavaClient
from embedded.hbase import ClusterAddress
from tests.cluster.region_site import TABLE, Site, in_charge, region_site, wait_for
from walferry.base.protos import hbase_pb2 as pb
from walferry.hbase.names import ServerName
from walferry.hbase.rpc.connection import Connection
from walferry.master import tables
from walferry.master.calls import CalledServers
from walferry.master.plans import Plan
from walferry.master.reconcile import begin_to_close

LATE = 9_999_999_999_999  # the time in the name of a WAL


def ask(server: ServerName, method: str, request: bytes) -> None:
    """Make a call of AdminService whose answer has no fields that matter."""
    with Connection(server.host, server.port, "AdminService") as connection:
        connection.call(method, request, pb.RegionServerReportResponse)


def split(server: ServerName, encoded: str, row: bytes) -> None:
    """Have a server split a region, as HBase 1's admin does. The server does not ask the master for that."""
    ask(server, "SplitRegion", _specified(1, encoded) + _field(2, row))


def merge(server: ServerName, one: str, other: str) -> None:
    """Have a server merge two of its regions, as HBase's master does when it is asked to."""
    ask(server, "MergeRegions", _specified(1, one) + _specified(2, other))


def _specified(number: int, encoded: str) -> bytes:
    kind = pb.RegionSpecifier.ENCODED_REGION_NAME
    return _field(number, pb.RegionSpecifier(type=kind, value=encoded.encode()).SerializeToString())


def _field(number: int, content: bytes) -> bytes:
    """A field of protobuf, of fewer than 128 bytes."""
    return bytes([number << 3 | 2, len(content)]) + content


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, java_client: Callable[[ClusterAddress], JavaClient]) -> Iterator[Site]:
    with region_site(Path(tmp_path_factory.mktemp("flows")), java_client) as found:
        yield found


@pytest.mark.parametrize("wiped", [False, True], ids=["with znodes", "znodes wiped"])
def test_all_servers_start_cold_after_kill_9_with_unsplit_wals(site: Site, wiped: bool) -> None:
    site.kill_all()
    if wiped:
        site.zk.delete(site.nodes.base, recursive=True)
    with in_charge(site, start_with=2) as charge:
        started = site.start_servers(2)
        site.await_whole(charge.story)
        load = site.load()
        assert load.keys() == set(started)
        assert max(load.values()) - min(load.values()) <= 1
        assert any("this is the start of a cluster" in line for line in charge.reported)
        site.write()


def test_regions_move_to_a_server_that_joins(site: Site) -> None:
    with in_charge(site, balance_seconds=1.0) as charge:
        (joined,) = site.start_servers(1)
        wait_for(lambda: site.load()[joined] > 0, "regions move to the new server")
        site.await_whole(charge.story)
        wait_for(lambda: max(site.load().values()) - min(site.load().values()) <= 1, "the regions are balanced")
        site.await_whole(charge.story)
    site.write()


def test_a_table_is_disabled_and_enabled(site: Site) -> None:
    with in_charge(site) as charge:
        tables.disable(site.zk, site.nodes, charge.role.lock, TABLE)
        wait_for(lambda: not site.amiss(closed=True), "the table is disabled")
        tables.enable(site.zk, site.nodes, charge.role.lock, TABLE)
        site.await_whole(charge.story)
        site.write()


def test_a_server_dies_with_unflushed_cells_and_an_empty_wal(site: Site) -> None:
    with in_charge(site) as charge:
        meta = site.meta_at()
        dead = max(site.live - {meta}, key=lambda server: site.load()[server])
        Path(f"{site.root.removeprefix('file://')}/WALs/{dead}/{dead.encoded()}.{LATE}").touch()
        site.kill(dead)
        site.await_whole(charge.story)
        assert dead not in site.load()
        site.write()


def test_the_server_of_hbase_meta_dies(site: Site) -> None:
    with in_charge(site) as charge:
        site.start_servers(1)
        dead = site.meta_at()
        site.kill(dead)
        site.await_whole(charge.story)
        assert site.meta_at() in site.live - {dead}
        site.start_servers(1)
        site.write()


@pytest.mark.capability("regions without an HMaster")
def test_a_region_is_split(site: Site) -> None:
    with in_charge(site) as charge:
        before = site.table_regions()
        view, _ = site.look()
        parent = before[-1]
        (server,) = view.regions[parent].served_by
        split(server, parent, b"f")
        wait_for(lambda: len(site.table_regions()) == len(before) + 1, "the region is split")
        site.await_whole(charge.story)
        assert parent not in site.table_regions()
        reported = charge.story()
        assert "allow the split or merge" in reported
        assert "delete the znode: the split or merge is done" in reported
        site.write()


def test_two_regions_are_merged(site: Site) -> None:
    with in_charge(site) as charge:
        before = site.table_regions()
        one, other = before[:2]
        (server,) = site.look()[0].regions[one].served_by
        plan = Plan(server, True, "a test moves it beside its neighbour")
        if server not in site.look()[0].regions[other].served_by:
            begin_to_close(site.look()[0], {other: plan}, charge.role.writes, CalledServers())
            site.await_whole(charge.story)
        merge(server, one, other)
        wait_for(lambda: len(site.table_regions()) == len(before) - 1, "the regions are merged")
        site.await_whole(charge.story)
        reported = charge.story()
        assert "allow the split or merge" in reported
        assert "delete the znode: the split or merge is done" in reported
        site.write()


def test_a_real_hmaster_takes_over(site: Site) -> None:
    site.hand_over()
