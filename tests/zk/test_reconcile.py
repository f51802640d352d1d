"""A pass of the master reads each znode once and calls each server once, as clusters grow."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from kazoo.client import KazooClient

from tests.zk.region_passes import Servers, Work, make
from tests.zk.region_world import INFO, region_name
from walferry.base.zk.client import disconnect
from walferry.hbase.layout import OwnZNodes
from walferry.hbase.names import ServerName
from walferry.master.decide import Step
from walferry.master.reconcile import Known, begin_to_close, decide_all, look
from walferry.master.states import RegionState
from walferry.master.tables import DISABLE
from walferry.master.znodes import encode_region, encoded_name

__all__ = ["make"]  # a fixture

MORE_READS = 10  # lists of servers, of those that drain, regions, plans and tasks


def check_passes(work: Work, regions: int, servers: int) -> None:
    """Check a start of all regions: created and asked for, waited for, acknowledged, and quiet."""
    work.one_pass("created")
    assert work.requests["writes"] <= regions + 1
    assert work.requests["reads"] <= MORE_READS
    assert work.servers.calls == dict.fromkeys(work.servers.serves, 2)  # what they serve, and all that they are to open
    asked = list(work.servers.to_open)
    assert len(asked) == regions

    work.one_pass("in transition")
    assert work.requests["writes"] <= 1
    assert work.requests["reads"] <= MORE_READS + 2 * regions  # each region and its plan
    assert work.servers.calls == dict.fromkeys(work.servers.serves, 1)  # they were asked to open them a moment ago
    work.servers.to_open = [replace(znode) for znode in asked]
    work.servers.finish()

    work.one_pass("acknowledged")
    assert work.requests["writes"] <= regions + 1
    assert work.requests["reads"] <= MORE_READS + 2 * regions
    assert work.servers.calls == dict.fromkeys(work.servers.serves, 1)

    done = work.one_pass("quiet")
    assert not done.busy
    assert work.requests["writes"] <= 1
    assert work.requests["reads"] <= MORE_READS

    with work.counted("closed"):
        plans = dict.fromkeys(done.view.regions, DISABLE)
        begin_to_close(done.view, plans, work.master._role.writes, work.servers)
    assert work.requests["writes"] <= regions + 1
    assert work.servers.calls == dict.fromkeys(work.servers.serves, 1)
    assert len(work.servers.to_close) == regions


@pytest.mark.parametrize(("regions", "servers"), [(10, 2), (300, 12)])
def test_a_pass_reads_each_znode_once(make: Callable[[int, int], Work], regions: int, servers: int) -> None:
    check_passes(make(regions, servers), regions, servers)


@pytest.mark.soak
def test_a_pass_over_ten_thousand_regions_on_three_hundred_servers(make: Callable[[int, int], Work]) -> None:
    began = time.monotonic()
    check_passes(make(10_000, 300), 10_000, 300)
    assert time.monotonic() - began < 300


def test_a_look_reads_in_the_order_that_its_safety_needs(
    make: Callable[[int, int], Work], new_client: Callable[[], KazooClient]
) -> None:
    """Regions that may be opened are read before the servers are asked. A dead server's finished split is in the catalog."""
    servers, zk = make(1, 1).servers, new_client()
    order: list[str] = []
    send = zk._call

    def call(request: Any, result: Any) -> Any:
        order.append(request.path.rpartition("/")[2])
        return send(request, result)

    class Asked(Servers):
        def online(self, servers: Iterable[ServerName]) -> Mapping[ServerName, frozenset[str]]:
            order.append("asked")
            return {}

    def noted(what: str, value: Any) -> Callable[[], Any]:
        return lambda: order.append(what) or value

    zk._call = call
    own = OwnZNodes("/walferry", servers.nodes)
    look(zk, servers.nodes, own, Asked(zk, servers.nodes, {}), noted("catalog", {}), noted("wals", frozenset()))
    assert order == ["rs", "draining", "wals", "catalog", "region-in-transition", "plans", "asked", "rs"]


def test_a_server_whose_session_ends_during_a_look_is_not_believed_to_be_idle(
    make: Callable[[int, int], Work], new_client: Callable[[], KazooClient]
) -> None:
    """The server stopped while it split a region: its znode is gone, it has closed the region, and it goes on with the split."""
    work, its = make(1, 1), new_client()
    servers, cluster = work.servers, work.master._cluster
    zk, nodes = servers.zk, servers.nodes
    stopped = ServerName("rs9.example.org", 16020, 1_700_000_000_009)
    its.create(f"{nodes.rs}/{stopped}", ephemeral=True)
    servers.serves[stopped] = frozenset()
    name = region_name(0)
    its.create(
        nodes.region_in_transition(encoded_name(name)), encode_region(name, RegionState.SPLITTING, stopped), ephemeral=True
    )
    catalog = {encoded_name(name): Known(name, INFO, stopped, True)}

    def look_at(read_catalog: Callable[[], Mapping[str, Known]]) -> Step:
        view = look(zk, nodes, cluster.own, servers, read_catalog, frozenset)
        ((_, decision),) = decide_all(view)
        return decision.step

    def session_ends() -> Mapping[str, Known]:
        disconnect(its)
        return catalog

    assert look_at(lambda: catalog) is Step.WAIT
    assert look_at(session_ends) is Step.WAIT
    del servers.serves[stopped]
    assert look_at(lambda: catalog) is Step.CREATE
