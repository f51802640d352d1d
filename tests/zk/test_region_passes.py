"""What a pass of the master reads, writes and calls, as clusters grow: each znode once, and each server once."""

from __future__ import annotations

import resource
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from kazoo.client import KazooClient

from tests.zk.region_world import INFO, region_name
from walferry.errors import WalferryError
from walferry.hbase.layout import OwnZNodes, ZNodes
from walferry.names import ServerName
from walferry.regions.acting import Role
from walferry.regions.catalog import CatalogRead
from walferry.regions.closing import begin_to_close
from walferry.regions.decide import Step
from walferry.regions.master import Cluster, Master, Pass
from walferry.regions.reconcile import Known, ToOpen, View, decide_all, look
from walferry.regions.registry import ServerRegistry
from walferry.regions.role import take_role
from walferry.regions.states import State
from walferry.regions.tables import DISABLE
from walferry.regions.wal_splitting import servers_with_wals
from walferry.regions.writes import MasterWrites
from walferry.regions.znodes import RegionInTransition, encode_region, encoded_name
from walferry.zk.client import disconnect

READS = ("GetData", "GetChildren", "GetChildren2", "Exists")
MORE_READS = 10  # lists of servers, of those that drain, regions, plans and tasks


@dataclass
class Servers:
    """Servers that open each region as soon as they are asked, as far as a look can tell."""

    zk: KazooClient
    nodes: ZNodes
    serves: dict[ServerName, frozenset[str]]
    calls: Counter[ServerName] = field(default_factory=Counter)
    to_open: list[RegionInTransition] = field(default_factory=list)
    to_close: list[RegionInTransition] = field(default_factory=list)

    def online(self, servers: Iterable[ServerName]) -> Mapping[ServerName, frozenset[str]]:
        self.calls.update(servers)
        return self.serves

    def open(self, wanted: Mapping[ServerName, Sequence[ToOpen]]) -> Mapping[ServerName, WalferryError]:
        self.calls.update(wanted.keys())
        self.to_open += [each.znode for regions in wanted.values() for each in regions]
        return {}

    def close(self, wanted: Mapping[ServerName, Sequence[RegionInTransition]]) -> Mapping[str, WalferryError]:
        self.calls.update(wanted.keys())
        self.to_close += [znode for regions in wanted.values() for znode in regions]
        return {}

    def finish(self) -> None:
        """Open all that was asked for."""
        pending = []
        for znode in self.to_open:
            value = encode_region(znode.name, State.OPENED, znode.server)
            pending.append(self.zk.set_async(self.nodes.region_in_transition(znode.encoded_name), value, znode.version))
            self.serves[znode.server] |= {znode.encoded_name}
        for each in pending:
            each.get()
        self.to_open.clear()


class Site(Cluster):
    """A cluster whose catalog is made up."""

    catalog: dict[str, Known]

    def look(self) -> tuple[View, CatalogRead]:
        read = CatalogRead(self.catalog)
        view = look(
            self.zk, self.nodes, self.own, self.servers, lambda: read.regions, lambda: servers_with_wals(self.wal_root)
        )
        return view, read


@dataclass
class Work:
    """A master, its servers, and what it asks of ZooKeeper."""

    master: Master
    servers: Servers
    requests: Counter[str]

    @contextmanager
    def counted(self, what: str) -> Iterator[None]:
        self.requests.clear()
        self.servers.calls.clear()
        began, cpu = time.monotonic(), time.process_time()
        yield
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        seconds = f"{time.monotonic() - began:.1f} s, {time.process_time() - cpu:.1f} CPU s"
        calls = sum(self.servers.calls.values())
        print(f"{what}: {seconds}, {dict(self.requests)}, {calls} calls, at most {memory} MB until now")

    def one_pass(self, what: str) -> Pass:
        with self.counted(what):
            return self.master.one_pass()


@pytest.fixture
def make(zk: KazooClient, new_client: Callable[[], KazooClient], tmp_path: Path) -> Callable[[int, int], Work]:
    def build(regions: int, servers: int) -> Work:
        nodes = ZNodes(f"/hbase-{uuid4().hex[:8]}")
        own = OwnZNodes(f"/walferry{nodes.base.replace('/', '-')}", nodes)
        names = [ServerName(f"rs{n}.example.org", 16020, 1_700_000_000_000) for n in range(servers)]
        for name in names:
            zk.create(f"{nodes.rs}/{name}", ephemeral=True, makepath=True)
            (tmp_path / "WALs" / str(name)).mkdir(parents=True)
        its = new_client()
        hold = take_role(its, nodes, own, "test")
        asked = Servers(zk, nodes, dict.fromkeys(names, frozenset()))
        site = Site(its, nodes, own, asked, f"file:{tmp_path}")
        full_names = map(region_name, range(regions))
        object.__setattr__(site, "catalog", {encoded_name(name): Known(name, INFO, None, True) for name in full_names})
        role = Role(ServerName("us", 16000, 1), hold, MasterWrites(its, nodes, own, hold), ServerRegistry())
        requests: Counter[str] = Counter()
        send = its._call

        def call(request: Any, result: Any) -> Any:
            requests["reads" if type(request).__name__ in READS else "writes"] += 1
            return send(request, result)

        its._call = call
        return Work(Master(site, role, tell=lambda line: None), asked, requests)

    return build


def check_passes(work: Work, regions: int, servers: int) -> None:
    """A start of all regions: created and asked for, waited for, acknowledged, and quiet."""
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
    """What may be opened is read before the servers are asked, and a split that its dead server has done is in the catalog."""
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
    """It stood still while it split a region: its znode is gone, it has closed the region, and it goes on with the split."""
    work, its = make(1, 1), new_client()
    servers, cluster = work.servers, work.master._cluster
    zk, nodes = servers.zk, servers.nodes
    stopped = ServerName("rs9.example.org", 16020, 1_700_000_000_009)
    its.create(f"{nodes.rs}/{stopped}", ephemeral=True)
    servers.serves[stopped] = frozenset()
    name = region_name(0)
    its.create(nodes.region_in_transition(encoded_name(name)), encode_region(name, State.SPLITTING, stopped), ephemeral=True)
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


def test_a_plan_counts_only_for_the_transitions_that_it_was_made_for(make: Callable[[int, int], Work]) -> None:
    """HBase's own master brings a region to its end without a look at our plan, and later moves it again."""
    work = make(1, 1)
    zk, nodes = work.servers.zk, work.servers.nodes
    work.one_pass("created")
    work.servers.finish()
    work.one_pass("acknowledged")
    (server,) = work.servers.serves
    ((encoded, region),) = work.master._cluster.look()[0].regions.items()
    begin_to_close(work.master._cluster.look()[0], {encoded: DISABLE}, work.master._role.writes, work.servers)
    assert work.master._cluster.look()[0].regions[encoded].plan == DISABLE

    path = nodes.region_in_transition(encoded)
    zk.delete(path)
    view, _ = work.master._cluster.look()
    assert (view.regions[encoded].plan, view.stored[encoded].plan) == (None, DISABLE)
    zk.create(path, encode_region(region.name, State.CLOSED, server))
    work.servers.serves[server] = frozenset()
    assert work.master._cluster.look()[0].regions[encoded].plan is None

    work.one_pass("opened again")  # as its table is enabled
    assert [znode.encoded_name for znode in work.servers.to_open] == [encoded]
    plan = work.master._cluster.look()[0].regions[encoded].plan
    assert plan is not None
    assert plan.reopen
