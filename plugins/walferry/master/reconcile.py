"""Makes a pass: looks at all regions, and takes one step for each. Every flow of the master ends in passes.

A pass first reads the live servers, the catalog, and the znodes of the regions in transition and their plans. Only then does it
ask the servers which regions they serve. Each write is made at the version that was read before the servers were asked. So if a
server completes an open after its answer, it has changed the znode, and the write is refused. If a server has split or merged
away a region of the catalog since, the znode of the split or merge protects the region. If that server's session has ended, the
znode is gone, but the server may still be at work. So the live servers are read again at the end, and a server that is no longer
among them counts as silent, whatever it has answered.

A pass may be killed anywhere. All its state is in ZooKeeper, and the next pass, of any run, goes on from there.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from kazoo.client import KazooClient

from walferry.base.errors import WalferryError
from walferry.base.protos import hbase_pb2 as pb
from walferry.base.zk.errors import ZNodeValueError
from walferry.hbase.cluster import draining_servers, live_servers
from walferry.hbase.layout import OwnZNodes, ZNodes
from walferry.hbase.names import ServerName
from walferry.master.calls import CalledServers, ToOpen
from walferry.master.decide import Decision, Region, Servers, Step, decide
from walferry.master.errors import StateChanged
from walferry.master.plans import Plan, StoredPlan, plan_of, read_plans
from walferry.master.states import OF_SPLITS, RegionState
from walferry.master.transitions import Transition
from walferry.master.writes import Change, MasterWrites, PlanChange
from walferry.master.znodes import RegionInTransition, encoded_name, read_regions

ANSWER_TRIES = 5
LIMIT_SECONDS = 600.0  # for a live server's own part, as hbase.master.assignment.timeoutmonitor.timeout

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Known:
    """A region in the catalog: its full name, its last server, and whether its table is enabled.

    `opened_ms` is the timestamp under which hbase:meta names the server.
    """

    name: bytes
    info: pb.RegionInfo
    server: ServerName | None
    wanted: bool
    opened_ms: int = 0


Catalog = Mapping[str, Known]  # by encoded name
Choose = Callable[[bytes, frozenset[ServerName]], ServerName]  # the balancer: chooses one of these servers for a region


@dataclass(frozen=True)
class ClusterView:
    """The data that one pass has read. `online` maps each live server that answered to its regions, of any table."""

    servers: Servers
    online: Mapping[ServerName, frozenset[str]]
    regions: Mapping[str, Region]  # by encoded name
    catalog: Catalog
    stored: Mapping[str, StoredPlan]
    silent: frozenset[ServerName]  # live servers that did not answer, or whose sessions ended meanwhile
    broken: Sequence[WalferryError]

    @property
    def unanswered(self) -> Decision | None:
        """The decision to wait for a live server that has not answered; None if all have."""
        if not self.silent:
            return None
        return Decision(Step.WAIT, f"{min(self.silent)} has not said which regions it serves", min(self.silent))


@dataclass(frozen=True)
class PassOutcome:
    """The decision for a region, and the error that prevented it, if any."""

    region: Region
    decision: Decision
    error: WalferryError | None = None


def look(
    zk: KazooClient,
    nodes: ZNodes,
    own: OwnZNodes,
    servers: CalledServers,
    read_catalog: Callable[[], Catalog],
    with_wals: Callable[[], frozenset[ServerName]],
    clock: Callable[[], float] = time.time,
) -> ClusterView:
    """Read the input of `decide` for each region that is in transition or in the catalog.

    Call this under the role: then no region is acknowledged at another server after the catalog was read. `with_wals` lists the
    servers with WALs, to be split if the server is dead. It is called after the live servers are read. So a server that dies in
    between counts as live, and a server that starts and dies in between as not yet recovered.
    """
    live = live_servers(zk, nodes)
    draining = draining_servers(zk, nodes)
    recovering = with_wals() - live
    catalog = read_catalog()
    znodes, broken = read_regions(zk, nodes)
    stored, broken_plans = read_plans(zk, own)
    now_ms = clock() * 1000  # before the servers are asked, so their answers are newer than each region's idle time
    online = servers.online(live)
    silent = live - (online.keys() & live_servers(zk, nodes))
    served = defaultdict(set)
    for server, names in online.items():
        for encoded in names:
            served[encoded].add(server)
    regions = {}
    for encoded in sorted((znodes.keys() | catalog.keys()) - broken.keys()):
        znode, known = znodes.get(encoded), catalog.get(encoded)
        name = znode.name if znode is not None else catalog[encoded].name
        regions[encoded] = Region(
            name,
            znode,
            plan_of(stored.get(encoded), znode.created_zxid if znode is not None else None),
            frozenset(served.get(encoded, ())),
            known is not None,
            known.server if known is not None else None,
            max(0.0, (now_ms - znode.changed_ms) / 1000) if znode is not None else 0.0,
            known.wanted if known is not None else True,
        )
    errors = [*broken.values(), *broken_plans.values()]
    splitting = frozenset(znode.server for znode in znodes.values() if znode.state in OF_SPLITS)
    closing = frozenset(znode.server for znode in znodes.values() if znode.state is RegionState.CLOSING)
    opening = frozenset(znode.server for znode in znodes.values() if znode.state in (RegionState.OPENING, RegionState.OPENED))
    seen = Servers(live, recovering, splitting, closing, opening, draining)
    return ClusterView(seen, online, regions, catalog, stored, silent, errors)


def decide_all(view: ClusterView, limit_seconds: float = LIMIT_SECONDS) -> list[tuple[Region, Decision]]:
    """Decide for each region of a view. No region is opened while a live server has not said which regions it serves.

    There is one exception: a server that was asked to open a region, has not begun, and says nothing, loses it. It can only begin
    at the version of the znode that it was sent, so it never does once the znode has changed. If hbase:meta names this server as
    the region's last one, it may have served the region ever since, so its answer is waited for.
    """
    decided = []
    for region in view.regions.values():
        decision = decide(region, view.servers, limit_seconds)
        opens = decision.step in (Step.CREATE, Step.REASSIGN, Step.ASK_TO_OPEN)
        if view.unanswered is not None and opens and not _fenced(view, region, decision):
            decision = view.unanswered
        decided.append((region, decision))
    return decided


def _fenced(view: ClusterView, region: Region, decision: Decision) -> bool:
    """Return whether the only silent server is the one that was to open the region, and cannot have begun."""
    znode = region.znode
    if decision.step is not Step.REASSIGN or znode is None or znode.state is not RegionState.OFFLINE:
        return False
    return view.silent == {znode.server} and decision.avoid == znode.server != region.last_server


def act(
    view: ClusterView, decided: Iterable[tuple[Region, Decision]], writes: MasterWrites, servers: CalledServers, choose: Choose
) -> list[PassOutcome]:
    """Carry out the decisions: one write a region, then the calls, all servers side by side.

    A region's error stops only that region. Raises the role's errors: then nothing more may be done.
    """
    decided = list(decided)
    changes = {}
    for i, (region, decision) in enumerate(decided):
        change = _change(view, region, decision, choose)
        if change is not None:
            changes[i] = change
    written = dict(zip(changes, writes.write_all(list(changes.values())), strict=True))
    errors: dict[str, WalferryError] = {}
    to_open, to_close = defaultdict(list), defaultdict(list)
    for i, (region, decision) in enumerate(decided):
        error: WalferryError | None = None
        left = written.get(i)
        opening = region.znode if decision.step is Step.ASK_TO_OPEN else None  # a server opens it once, however often it is asked
        if isinstance(left, StateChanged):
            error = left
        elif left is not None:
            opening = left
        else:
            error = _answer(region, decision, writes)
        if decision.step is Step.ASK_TO_CLOSE and decision.server is not None and region.znode is not None:
            to_close[decision.server].append(region.znode)
        if opening is not None:
            known = view.catalog[opening.encoded_name]
            to_open[opening.server].append(ToOpen(known.info, opening, known.opened_ms))
        if error is not None:
            errors[encoded_name(region.name)] = error
    errors |= ask_to_close(servers, to_close)
    for server, failed in servers.open(to_open).items():
        log.warning("%s was not asked to open %d regions: %s. The next pass asks again", server, len(to_open[server]), failed)
        errors |= dict.fromkeys((each.znode.encoded_name for each in to_open[server]), failed)
    return [PassOutcome(region, decision, errors.get(encoded_name(region.name))) for region, decision in decided]


def begin_to_close(
    view: ClusterView, plans: Mapping[str, Plan], writes: MasterWrites, servers: CalledServers
) -> list[PassOutcome]:
    """Begin to close regions: the first step of a move, and of disabling a table. `plans` is keyed by encoded name.

    This creates the regions' znodes as CLOSING, each with its plan, and asks their servers to close them.

    A region that is in transition, or is not served by exactly one server, is left as it is: the outcome's decision says why.
    Raises the role's errors.
    """
    why_not = {encoded: why for encoded in plans if (why := why_not_close(view, encoded)) is not None}
    at = {encoded: next(iter(view.regions[encoded].served_by)) for encoded in plans if encoded not in why_not}
    changes = [
        (
            Change(Transition.CREATE_CLOSING, view.regions[encoded].name, None, server),
            PlanChange(view.stored.get(encoded), plans[encoded]),
        )
        for encoded, server in at.items()
    ]  # fmt: skip
    written = dict(zip(at, writes.write_all(changes), strict=True))
    to_close = defaultdict(list)
    for znode in written.values():
        if isinstance(znode, RegionInTransition):
            to_close[znode.server].append(znode)
    ask_to_close(servers, to_close)
    outcomes = []
    for encoded, plan in plans.items():
        changed = written.get(encoded)
        decision = why_not.get(encoded) or Decision(Step.ASK_TO_CLOSE, plan.why, at[encoded])
        outcomes.append(PassOutcome(view.regions[encoded], decision, changed if isinstance(changed, StateChanged) else None))
    return outcomes


def why_not_close(view: ClusterView, encoded: str) -> Decision | None:
    """Say why a region cannot begin to close now; None if it can."""
    region = view.regions[encoded]
    if region.znode is not None:
        return Decision(Step.WAIT, f"it is in transition ({region.znode.state.name})", region.znode.server)
    if view.unanswered is not None:
        return view.unanswered
    if len(region.served_by) != 1:
        why_not = "two servers serve it; `regions close-copy` closes one copy" if region.served_by else "no server serves it"
        return Decision(Step.WAIT, why_not)
    (server,) = region.served_by
    if server in view.servers.splitting:
        return Decision(Step.WAIT, "its server splits or merges a region, which may be this one", server)
    return None


def _change(view: ClusterView, region: Region, decision: Decision, choose: Choose) -> tuple[Change, PlanChange] | None:
    """Return the write that a step needs, if it needs exactly one."""
    znode, stored = region.znode, view.stored.get(encoded_name(region.name))
    match decision.step:
        case Step.CREATE | Step.REASSIGN:
            return _assignment(view, region, decision, choose, stored)
        case Step.ACKNOWLEDGE | Step.FORGET if znode is not None:
            return Change(_TRANSITIONS[decision.step, znode.state], region.name, znode), PlanChange(stored, None)
    return None


def _answer(region: Region, decision: Decision, writes: MasterWrites) -> WalferryError | None:
    """Answer a server that splits or merges a region, if that was decided. Returns the error, if any.

    The answer is written at the newest version of the znode: the server writes its znode again every 0.1 to 0.5 s until it gets
    an answer. The decision holds for each of these versions.
    """
    seen = znode = region.znode
    if seen is None or decision.step not in (Step.ALLOW, Step.END_SPLIT):
        return None
    transition = _TRANSITIONS[decision.step, seen.state]
    try:
        for _ in range(ANSWER_TRIES):
            if znode is None or (znode.name, znode.state, znode.server) != (seen.name, seen.state, seen.server):
                break
            try:
                writes.write(Change(transition, region.name, znode))
                return None
            except StateChanged:
                znode = writes.read(region.name)
    except ZNodeValueError as failed:
        return failed
    return StateChanged(seen.encoded_name, transition.name)


def ask_to_close(
    servers: CalledServers, wanted: Mapping[ServerName, Sequence[RegionInTransition]]
) -> Mapping[str, WalferryError]:
    """Ask servers to close regions. Returns the failures by encoded name; the next pass asks again."""
    failed = servers.close(wanted)
    for server, regions in wanted.items():
        its = [failed[region.encoded_name] for region in regions if region.encoded_name in failed]
        if its:
            log.warning("%s was not asked to close %d regions: %s. The next pass asks again", server, len(its), its[0])
    return failed


def _assignment(
    view: ClusterView, region: Region, decision: Decision, choose: Choose, stored: StoredPlan | None
) -> tuple[Change, PlanChange] | None:
    candidates = view.servers.takers - {decision.avoid} or view.servers.live - {decision.avoid} or view.servers.live
    if not candidates:
        return None  # no server is available
    server = decision.server or choose(region.name, candidates)
    before = region.plan or Plan(None, True, decision.why)
    failed = region.znode is not None and region.znode.state is RegionState.FAILED_OPEN
    plan = replace(before, destination=server, reopen=True, failures=before.failures + failed)
    transition = Transition.CREATE_OFFLINE if region.znode is None else Transition.FORCE_OFFLINE
    return Change(transition, region.name, region.znode, server), PlanChange(stored, plan)


_TRANSITIONS = {
    (Step.ACKNOWLEDGE, RegionState.OPENED): Transition.DELETE_OPENED,
    (Step.FORGET, RegionState.CLOSED): Transition.DELETE_CLOSED,
    (Step.FORGET, RegionState.CLOSING): Transition.DELETE_CLOSING,
    (Step.ALLOW, RegionState.REQUEST_SPLIT): Transition.ALLOW_SPLIT,
    (Step.ALLOW, RegionState.REQUEST_MERGE): Transition.ALLOW_MERGE,
    (Step.END_SPLIT, RegionState.SPLIT): Transition.DELETE_SPLIT,
    (Step.END_SPLIT, RegionState.MERGED): Transition.DELETE_MERGED,
}
