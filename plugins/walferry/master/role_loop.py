"""Runs the master's role: makes passes over all regions, woken by ZooKeeper's watches, until a stop is requested.

A pass takes the next steps for dead servers' WALs, looks, decides, acts, and goes on with tables that are being enabled or
disabled. It keeps nothing in memory that the next pass, or another process, needs.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kazoo.client import KazooClient
from kazoo.protocol.states import WatchedEvent

from walferry.base.errors import WalferryError
from walferry.base.security.login import UNSECURED, Login
from walferry.base.texts import one_line
from walferry.base.zk.client import Watch, children
from walferry.hbase.cluster import live_servers
from walferry.hbase.files.store import WALS, WrongRoot
from walferry.hbase.layout import OwnZNodes, ZNodes
from walferry.hbase.names import ServerName
from walferry.master import placement, startup, tables
from walferry.master.calls import CalledServers
from walferry.master.catalog import CatalogRead, read_catalog
from walferry.master.decide import Decision, Region, Step
from walferry.master.errors import ClockAhead, RoleLost
from walferry.master.master_calls import MAX_SKEW_SECONDS
from walferry.master.placement import Placeable, spread
from walferry.master.reconcile import LIMIT_SECONDS, Catalog, Choose, ClusterView, Known, PassOutcome, act, decide_all, look
from walferry.master.role import Role
from walferry.master.states import RegionState
from walferry.master.tables import table_of
from walferry.master.wal_splitting import SplitProgress, WalSplitting, recover, servers_with_wals, with_meta_wals
from walferry.master.znodes import META_ENCODED_NAME, encoded_name

BUSY_SECONDS = 0.5  # between passes while there is work
SLOW_SECONDS = 5.0  # at most, between passes while others have work: ZooKeeper's watches do not show all they do
IDLE_SECONDS = 30.0  # between passes otherwise; watches wake it
MOVING_SECONDS = 10.0
ASK_AGAIN_SECONDS = 10.0  # a server works through a queue, and another request costs it time
MAX_LINE_CHARS = 2000  # an error about a znode may repeat much of it
BALANCE_SECONDS = 300.0  # hbase.balancer.period
FAILING_SECONDS = 600.0

Locality = Callable[[Sequence[Known]], Mapping[str, Mapping[str, float]]]  # by encoded name and host, from 0 to 1

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Cluster:
    """The connections that a look at the regions needs. A look changes nothing, so a dry run needs no master's role."""

    zk: KazooClient
    nodes: ZNodes
    own: OwnZNodes
    servers: CalledServers
    wal_root: str
    login: Login = UNSECURED

    def look(self) -> tuple[ClusterView, CatalogRead]:
        """Look at all regions. Raises StoreError, ClusterError, ZNodeValueError, ConnectError."""
        reads: list[CatalogRead] = []

        def catalog() -> Catalog:
            reads.append(read_catalog(self.zk, self.nodes, login=self.login))
            return reads[-1].regions

        with_wals: set[ServerName] = set()

        def list_wals() -> frozenset[ServerName]:
            with_wals.update(found := servers_with_wals(self.wal_root))
            return found

        view = look(self.zk, self.nodes, self.own, self.servers, catalog, list_wals)
        _check_wal_root(view, self.wal_root, with_wals)
        if found := with_meta_wals(self.wal_root, view.servers.recovering):
            view = replace(view, servers=replace(view.servers, with_meta_wals=found))
        return view, reads[-1]


def _check_wal_root(view: ClusterView, wal_root: str, with_wals: set[ServerName]) -> None:
    """Raise WrongRoot if no server that serves regions has a folder of WALs there: then the WALs to split are unknown.

    A server creates its folder when it opens its first region, which may be after `with_wals` was listed.
    """
    serving = {server for server, regions in view.online.items() if regions}
    if serving and serving.isdisjoint(with_wals) and serving.isdisjoint(servers_with_wals(wal_root)):
        raise WrongRoot(
            f"wal_root {wal_root}: {WALS} has no folder of {min(serving)} or any other server that serves regions, so WALs of "
            "dead servers are elsewhere. Set wal_root in the connection's extra to the servers' hbase.wal.dir"
        )


def decide_for(
    view: ClusterView, read: CatalogRead, limit_seconds: float = LIMIT_SECONDS, only: frozenset[str] | None = None
) -> list[tuple[Region, Decision]]:
    """Decide for all regions, or for `only` these. While hbase:meta cannot be read, no step is taken for other regions."""
    decided = decide_all(view, limit_seconds)
    if not read.complete:
        waiting = Decision(Step.WAIT, "hbase:meta cannot be read, and is opened first")
        decided = [
            (region, decision if encoded_name(region.name) == META_ENCODED_NAME else waiting) for region, decision in decided
        ]
    return [each for each in decided if only is None or encoded_name(each[0].name) in only]


def no_locality(_: Sequence[Known]) -> Mapping[str, Mapping[str, float]]:
    """Return that no host has blocks of any region, as on local files."""
    return {}


def choose_for(view: ClusterView, decided: Sequence[tuple[Region, Decision]], locality: Locality) -> Choose:
    """Place all regions that need a server at once: each then gets the server that the balancer chose for it."""
    needy = [region.name for region, each in decided if each.step in (Step.CREATE, Step.REASSIGN) and each.server is None]
    wanted = [encoded_name(name) for name in needy]
    known = [view.catalog[encoded] for encoded in wanted if encoded in view.catalog]
    load = Counter({server: len(online) for server, online in view.online.items()})
    load.update(region.znode.server for region in view.regions.values() if region.znode and not region.served_by)
    blocks = locality(known) if known else {}
    placeable = [Placeable(name, each.server, blocks.get(name, {})) for each in known for name in [encoded_name(each.name)]]
    placed = spread(placeable, view.servers.takers, load) if view.servers.live else {}
    load.update(placed.values())

    def choose(name: bytes, candidates: frozenset[ServerName]) -> ServerName:
        server = placed.get(encoded_name(name))
        if server is None or server not in candidates:
            server = min(candidates, key=lambda each: (load[each], each))
            load[server] += 1
        return server

    return choose


@dataclass(frozen=True)
class Pass:
    """The view and the outcomes of one pass."""

    view: ClusterView
    outcomes: Sequence[PassOutcome]
    progress: Sequence[SplitProgress]
    tables: Mapping[str, str] = field(default_factory=dict)

    @property
    def busy(self) -> bool:
        """Whether some work is not finished yet. What only people can do is not waited for."""
        left = {each.region.name for each in self.outcomes if each.decision.step is Step.REPORT}
        in_transition = any(region.znode is not None and region.name not in left for region in self.view.regions.values())
        return bool(in_transition or self.acted or self.view.servers.recovering or self.view.silent)

    @property
    def acted(self) -> bool:
        """Whether the pass did something, so that the next pass may find more to do at once."""
        return bool(self.tables) or any(each.decision.step not in (Step.WAIT, Step.REPORT) for each in self.outcomes)

    @property
    def moving(self) -> bool:
        """Whether a region's znode has just changed, so that it may soon change again: no watch reports that."""
        return any(region.znode is not None and region.idle_seconds < MOVING_SECONDS for region in self.view.regions.values())

    def lines(self) -> list[str]:
        """Describe what was done and what failed, for people."""
        reported = [f"table {table}: {what}" for table, what in self.tables.items()]
        for each in self.progress:
            problem = f": {each.error}" if each.error else ""
            reported.append(f"{each.server} is dead: {each.left} of its WALs are left to be split{problem}")
        for outcome in self.outcomes:
            decision, encoded = outcome.decision, encoded_name(outcome.region.name)
            if decision.step is not Step.WAIT or outcome.error:
                server = f" ({decision.server})" if decision.server else ""
                problem = f": {outcome.error}" if outcome.error else ""
                reported.append(f"region {encoded}: {decision.why}; {decision.step.value}{server}{problem}")
        return [one_line(line, MAX_LINE_CHARS) for line in (*reported, *map(str, self.view.broken))]


class Master:
    """Runs the passes of the holder of the master's role."""

    def __init__(
        self,
        cluster: Cluster,
        role: Role,
        *,
        locality: Locality = no_locality,
        limit_seconds: float = LIMIT_SECONDS,
        tell: Callable[[str], None] = log.info,
    ) -> None:
        self._cluster = cluster
        self._role = role
        self._splitting = WalSplitting(cluster.zk, cluster.nodes, cluster.wal_root, role.lock, role.me)
        self._locality = locality
        self._limit_seconds = limit_seconds
        self._tell = tell
        self._asked: dict[tuple[str, int], float] = {}  # when, by region and version of its znode; only saves calls
        self._offline: dict[tuple[str, int], float] = {}  # since when a region is known to be OFFLINE, in the same way

    def one_pass(self, only: frozenset[str] | None = None, table: str | None = None) -> Pass:
        """Take all steps that can be taken now: for all regions, for `only` these, or for the regions of one `table`.

        With `only`, no table is enabled or disabled further. Raises the role's errors, StoreError, ClusterError, ConnectError.
        """
        cluster = self._cluster
        progress = recover(cluster.zk, cluster.nodes, cluster.wal_root, self._role.registry, self._splitting)
        view, read = cluster.look()
        states = read.states
        if table is not None:
            only = frozenset(encoded for encoded, known in view.catalog.items() if table_of(known.info) == table)
            states = {name: state for name, state in states.items() if name == table}
        decided = decide_for(view, read, self._limit_seconds, only)
        decided = self._without_asked(self._patient(decided, view.silent))
        outcomes = act(view, decided, self._role.writes, cluster.servers, choose_for(view, decided, self._locality))
        failed = {encoded_name(outcome.region.name) for outcome in outcomes if outcome.error is not None}
        self._asked = {key: at for key, at in self._asked.items() if key[0] not in failed}
        reported: dict[str, str] = {}
        if (only is None or table is not None) and read.complete:
            begun, reported = tables.advance(view, states, cluster.nodes, self._role.lock, self._role.writes, cluster.servers)
            outcomes += begun
        done = Pass(view, [outcome for outcome in outcomes if outcome.decision.step is not Step.WAIT], progress, reported)
        for line in [*done.lines(), *(one_line(str(error), MAX_LINE_CHARS) for error in read.broken)]:
            self._tell(line)
        return done

    def _patient(
        self, decided: Sequence[tuple[Region, Decision]], silent: frozenset[ServerName]
    ) -> list[tuple[Region, Decision]]:
        """Have a server asked to open a region, for as long as it may take, before the region goes to another server.

        Another master may have left the znode, long ago, and died before it has asked anybody.
        """
        now, since, kept = time.monotonic(), {}, []
        limit = max(self._limit_seconds, ASK_AGAIN_SECONDS)
        for region, decision in decided:
            znode = region.znode
            if znode is not None and znode.state is RegionState.OFFLINE:
                key = (znode.encoded_name, znode.version)
                since[key] = self._offline.get(key, now)
                if decision.step is Step.REASSIGN and decision.avoid == znode.server and now - since[key] < limit:
                    step = Step.WAIT if znode.server in silent else Step.ASK_TO_OPEN
                    decision = Decision(step, "its znode is OFFLINE and names a live server", znode.server)
            kept.append((region, decision))
        self._offline = since
        return kept

    def _without_asked(self, decided: Sequence[tuple[Region, Decision]]) -> list[tuple[Region, Decision]]:
        """Replace requests to servers that were just asked by waits, and note the other requests."""
        now, asked, kept = time.monotonic(), {}, []
        for region, decision in decided:
            version = -1 if region.znode is None else region.znode.version
            if decision.step in (Step.CREATE, Step.REASSIGN):
                asked[encoded_name(region.name), version + 1] = now
            elif decision.step in (Step.ASK_TO_OPEN, Step.ASK_TO_CLOSE):
                key = (encoded_name(region.name), version)
                at = self._asked.get(key, -ASK_AGAIN_SECONDS)
                asked[key] = at if now - at < ASK_AGAIN_SECONDS else now
                if asked[key] != now:
                    decision = Decision(Step.WAIT, "the server was asked a moment ago", decision.server)
            kept.append((region, decision))
        self._asked = asked
        return kept

    def start(self, minimum: int = startup.MIN_SERVERS, leave: Callable[[], bool] = startup.never) -> bool:
        """Wait for servers. If this is the start of a cluster, clear the regions left in transition from the time before.

        Returns False for a failover, or if `leave()` is true. The passes do the rest: hbase:meta first, then all other regions at
        once.
        """
        cluster = self._cluster
        servers = startup.wait_for_servers(lambda: live_servers(cluster.zk, cluster.nodes), minimum, leave=leave)
        self._tell(f"{len(servers)} RegionServers are there")
        view = startup.first_look(lambda: cluster.look()[0], leave)
        if leave():
            return False
        if why_not := startup.why_not_startup(view):
            self._tell(f"this is a failover: {why_not}")
            return False
        cleared = startup.clear(view, self._role.writes)
        self._tell(f"this is the start of a cluster: {cleared} regions in transition of an earlier life were cleared")
        return True

    def balance(self) -> list[PassOutcome]:
        """Begin the moves that balance the cluster, if no region is in transition. Raises the errors of `one_pass`."""
        view, read = self._cluster.look()
        if why_not := placement.why_not_balance(view, complete=read.complete):
            self._tell(f"regions are not balanced now: {why_not}")
            return []
        if not placement.plan_moves(view):  # where blocks lie takes many calls, and changes only what is moved
            return []
        planned = placement.plan_moves(view, self._locality(list(read.regions.values())))
        for move in planned:
            self._tell(f"region {move.encoded_name}: moves from {move.source} to {move.destination} for balance")
        return placement.begin_moves(view, planned, self._role.writes, self._cluster.servers)

    def run(
        self,
        stop: threading.Event,
        balance_seconds: float | None = BALANCE_SECONDS,
        before: Callable[[Watch], object] | None = None,
    ) -> None:
        """Make passes until `stop` is set, or until `before`, which is called before each pass, returns something that is true.

        Raises the role's errors, ClockAhead, others that another try cannot repair, and the last one of passes that have all
        failed for FAILING_SECONDS.
        """
        changed, zk, nodes = self._role.changed, self._cluster.zk, self._cluster.nodes

        def on_change(_: WatchedEvent) -> None:
            changed.set()  # one function for all passes: kazoo keeps each different one of a znode until the znode changes

        pause, ahead = BUSY_SECONDS, time.time() - time.monotonic()
        good = time.monotonic()
        next_balance = good + (balance_seconds or 0.0)
        while not stop.is_set():
            changed.clear()
            pause = min(2 * pause, SLOW_SECONDS)
            try:
                self._check(ahead)
                if before is not None and before(on_change):
                    return
                live_servers(zk, nodes, on_change)
                children(zk, nodes.in_transition, on_change)
                done = self.one_pass()
                good = time.monotonic()
                if done.acted or done.moving:
                    pause = BUSY_SECONDS
                elif not done.busy:
                    pause = IDLE_SECONDS
                if not done.busy and balance_seconds is not None and good >= next_balance:
                    pause = BUSY_SECONDS if self.balance() else IDLE_SECONDS
                    next_balance = time.monotonic() + balance_seconds
            except RoleLost:
                raise
            except WalferryError as error:
                self._role.lock.check()
                if not error.retry_helps or time.monotonic() - good > FAILING_SECONDS:
                    raise
                self._tell(f"this pass failed: {error}")
            _wait(stop, changed, pause)

    def _check(self, ahead: float) -> None:
        """Raise the role's errors if the role is lost, and ClockAhead if the clock has jumped since the role was taken.

        Writes check the role, but in a quiet cluster there are none. `ahead` is by how much time.time() was ahead then.
        """
        self._role.lock.write(lambda multi: None)
        jumped = time.time() - time.monotonic() - ahead
        if jumped > MAX_SKEW_SECONDS:
            raise ClockAhead(jumped, MAX_SKEW_SECONDS)


def _wait(stop: threading.Event, changed: threading.Event, seconds: float) -> None:
    """Wait at most `seconds` for a change. More changes mostly follow a change, so this waits BUSY_SECONDS in any case."""
    left = seconds
    while left > 0 and not stop.wait(min(BUSY_SECONDS, left)) and not changed.is_set():
        left -= BUSY_SECONDS
