"""Looks at made-up clusters, which the tests of requests and explanations begin with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from walferry.base.errors import WalferryError
from walferry.base.protos import hbase_pb2 as pb
from walferry.hbase.names import ServerName
from walferry.master.beside_active_master import decide_beside
from walferry.master.catalog import CatalogRead
from walferry.master.decide import Region, Servers
from walferry.master.errors import Refused
from walferry.master.plans import Plan, StoredPlan
from walferry.master.reconcile import LIMIT_SECONDS, ClusterView, Known
from walferry.master.requests import OperatorRequest
from walferry.master.role_loop import decide_for
from walferry.master.snapshot import ClusterSnapshot
from walferry.master.states import OF_SPLITS, RegionState
from walferry.master.tables import StoredState
from walferry.master.znodes import RegionInTransition, encoded_name

A, B, DEAD = (ServerName(f"rs{i}.example.org", 16020, 1_700_000_000_000 + i) for i in range(3))
HMASTER = ServerName("m1.example.org", 16000, 1_700_000_000_000)
SOON, LATE = 1.0, LIMIT_SECONDS + 100


def name_of(n: int) -> bytes:
    return f"t,row{n},1700000000000.{n:032x}.".encode()


def code(n: int) -> str:
    return encoded_name(name_of(n))


@dataclass
class Site:
    """A cluster of two live servers, to which a test adds regions."""

    regions: dict[str, Region] = field(default_factory=dict)
    online: dict[ServerName, set[str]] = field(default_factory=lambda: {A: set(), B: set()})
    catalog: dict[str, Known] = field(default_factory=dict)
    stored: dict[str, StoredPlan] = field(default_factory=dict)
    states: dict[str, StoredState] = field(default_factory=dict)
    recovering: set[ServerName] = field(default_factory=set)
    silent: set[ServerName] = field(default_factory=set)
    broken: list[WalferryError] = field(default_factory=list)
    hmaster: ServerName | None = None
    complete: bool = True

    def add(
        self, n: int, state: RegionState | None = None, server: ServerName = A, *, served_by: tuple[ServerName, ...] = (),
        last: ServerName | None = A, idle: float = SOON, plan: Plan | None = None, wanted: bool = True, listed: bool = True,
    ) -> str:  # fmt: skip
        """Add a region, in transition if it has a state."""
        name, encoded = name_of(n), code(n)
        znode = None if state is None else RegionInTransition(name, state, server, 3, 1_700_000_000_000, state in OF_SPLITS, b"")
        self.regions[encoded] = Region(name, znode, plan, frozenset(served_by), listed, last, idle, wanted)
        for each in served_by:
            self.online[each].add(encoded)
        if listed:
            info = pb.RegionInfo(region_id=1, table_name=pb.TableName(namespace=b"default", qualifier=b"t"))
            self.catalog[encoded] = Known(name, info, last, wanted, 1_700_000_000_000)
        if plan is not None:
            self.stored[encoded] = StoredPlan(plan, 0)
        return encoded

    def look(self) -> ClusterSnapshot:
        """What one look finds."""
        online = {server: frozenset(names) for server, names in self.online.items() if server not in self.silent}
        servers = Servers(frozenset(self.online), frozenset(self.recovering))
        view = ClusterView(servers, online, self.regions, self.catalog, self.stored, frozenset(self.silent), self.broken)
        read = CatalogRead(self.catalog, self.states, complete=self.complete)
        decided = decide_for(view, read)
        if self.hmaster is not None:
            decided = [(region, decide_beside(view, region, self.hmaster, LIMIT_SECONDS)) for region, _ in decided]
        master = f"HMaster {self.hmaster}" if self.hmaster else ""
        return ClusterSnapshot(view, read, self.hmaster, master, decided, LIMIT_SECONDS)


def draining(site: Site) -> ClusterView:
    view = site.look().view
    return replace(view, servers=replace(view.servers, draining=frozenset({A})))


def refused(ask: Callable[[ClusterSnapshot], OperatorRequest], site: Site, words: str) -> None:
    with pytest.raises(Refused, match=words):
        ask(site.look())
