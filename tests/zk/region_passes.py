"""A master that makes endless passes over regions and servers, while its reads, writes and calls are counted."""

from __future__ import annotations

import resource
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from kazoo.client import KazooClient

from tests.zk.region_world import INFO, region_name
from walferry.base.errors import WalferryError
from walferry.hbase.layout import OwnZNodes, ZNodes
from walferry.hbase.names import ServerName
from walferry.master.calls import ToOpen
from walferry.master.catalog import CatalogRead
from walferry.master.master_calls import ServerRegistry
from walferry.master.reconcile import ClusterView, Known, look
from walferry.master.role import Role, take_role
from walferry.master.role_loop import Cluster, Master, Pass
from walferry.master.states import RegionState
from walferry.master.wal_splitting import servers_with_wals
from walferry.master.writes import MasterWrites
from walferry.master.znodes import RegionInTransition, encode_region, encoded_name

READS = ("GetData", "GetChildren", "GetChildren2", "Exists")


@dataclass
class Servers:
    """Servers that open each region as soon as they are asked, as far as a look can see."""

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
        """Open all regions that the servers were asked to open."""
        pending = []
        for znode in self.to_open:
            value = encode_region(znode.name, RegionState.OPENED, znode.server)
            pending.append(self.zk.set_async(self.nodes.region_in_transition(znode.encoded_name), value, znode.version))
            self.serves[znode.server] |= {znode.encoded_name}
        for each in pending:
            each.get()
        self.to_open.clear()


class Site(Cluster):
    """A cluster whose catalog is made up."""

    catalog: dict[str, Known]

    def look(self) -> tuple[ClusterView, CatalogRead]:
        read = CatalogRead(self.catalog)
        view = look(self.zk, self.nodes, self.own, self.servers, lambda: read.regions, lambda: servers_with_wals(self.wal_root))
        return view, read


@dataclass
class Work:
    """A master, its servers, and its requests to ZooKeeper."""

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
        lock = take_role(its, nodes, own, "test")
        asked = Servers(zk, nodes, dict.fromkeys(names, frozenset()))
        site = Site(its, nodes, own, asked, f"file:{tmp_path}")
        full_names = map(region_name, range(regions))
        object.__setattr__(site, "catalog", {encoded_name(name): Known(name, INFO, None, True) for name in full_names})
        role = Role(ServerName("us", 16000, 1), lock, MasterWrites(its, nodes, own, lock), ServerRegistry())
        requests: Counter[str] = Counter()
        send = its._call

        def call(request: Any, result: Any) -> Any:
            requests["reads" if type(request).__name__ in READS else "writes"] += 1
            return send(request, result)

        its._call = call
        return Work(Master(site, role, tell=lambda line: None), asked, requests)

    return build
