"""Operators' requests: assign, move, unstick, close a second copy, enable, disable, balance.

Each function checks a request against one look at the cluster (`snapshot`), and describes the actions. `asked` is a region's
encoded or full name. A dry run ends there; `work` carries the request out with the master's role, after a look of its own. A
refusal says why, before anything is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches

from walferry.base.texts import one_line
from walferry.hbase.names import ServerName
from walferry.master import placement, tables
from walferry.master.decide import Decision, Region, Step, decide
from walferry.master.errors import Refused
from walferry.master.explain import resolve
from walferry.master.plans import Plan
from walferry.master.reconcile import PassOutcome, begin_to_close, why_not_close
from walferry.master.role import Role
from walferry.master.role_loop import Cluster
from walferry.master.snapshot import ClusterSnapshot
from walferry.master.states import RegionState
from walferry.master.survey import shown_table
from walferry.master.tables import ABSENT, TableState, table_of
from walferry.master.transitions import Transition
from walferry.master.writes import Change, PlanChange
from walferry.master.znodes import META_ENCODED_NAME, encoded_name

MAX_NAME_CHARS = 300
MAX_LINE_CHARS = 1000
IDLE = "nothing is to be done"
MAX_NAMES = 10  # of servers or tables in an error

Begin = Callable[[Cluster, Role], Sequence[PassOutcome]]
Left = Callable[[ClusterSnapshot], list[str]]


@dataclass(frozen=True)
class OperatorRequest:
    """A checked request; `lines` describes its actions. Passes go on with the regions `only`, or with the regions of the `table`.

    `begin` makes the first writes, and its outcomes may say why a write was not made. `left` lists unfinished work. With `again`,
    the same request is made once more at the end: when hbase:meta has been opened, more regions are known. `for_operator`
    contains the `lines` for which nothing is done. `idle` says that there is nothing to do at all, so that no role is needed.
    """

    lines: Sequence[str]
    only: frozenset[str]
    begin: Begin
    left: Left
    table: str | None = None
    again: bool = False
    for_operator: Sequence[str] = ()
    idle: str = ""


def assign(snapshot: ClusterSnapshot, asked: str, server: str | None = None) -> OperatorRequest:
    """Open a region that no server serves, at `server` or at the balancer's choice. Raises Refused."""
    region, decision = _found(snapshot, asked)
    encoded, view = encoded_name(region.name), snapshot.view
    to = _taker(snapshot, server) if server else None
    if region.served_by:
        where = " and ".join(sorted(map(str, region.served_by)))
        advice = "Use `regions move`, or `regions close-copy` if two servers serve it"
        raise Refused(f"region {encoded} is served by {where}", advice)
    if not region.wanted:
        table = shown_table(view.catalog[encoded].info)  # a region that is not listed there counts as wanted
        raise Refused(f"region {encoded} is of table {table}, which is disabled", "Enable the table")
    if decision.step is Step.REPORT and (again := _once_more(snapshot, region)) is not None:
        return _assign_once_more(snapshot, region, to or again)
    if region.znode is not None and to is not None:
        at = f"{region.znode.state.name} at {region.znode.server}"
        raise Refused(f"region {encoded} is in transition already ({at})", "Leave out the server, and move the region afterwards")
    if decision.step is Step.REPORT or (decision.step is Step.WAIT and to is not None):
        raise Refused(f"region {encoded} cannot be assigned now: {decision.why}", "Try again when that is over")

    def begin(_: Cluster, role: Role) -> list[PassOutcome]:
        if to is None:
            return []  # the passes open the regions
        plan = PlanChange(view.stored.get(encoded), Plan(to, True, "an operator assigns it"))
        role.writes.write(Change(Transition.CREATE_OFFLINE, region.name, None, to), plan)
        return [PassOutcome(region, decision)]

    what = f"it is opened at {to}" if to is not None else "it is opened where the balancer places it"
    if decision.step is Step.WAIT:
        server = f" ({decision.server})" if decision.server is not None else ""
        line = f"region {encoded}: {decision.why}{server}; this is waited for"
    else:
        line = f"region {encoded}: {decision.why}; {what}"
    return OperatorRequest([line], frozenset({encoded}), begin, not_open({encoded}))


def _once_more(snapshot: ClusterSnapshot, region: Region) -> ServerName | None:
    """Choose a server for a region that too many servers failed to open; None if something else prevents the open."""
    afresh = decide(replace(region, plan=None), snapshot.view.servers, snapshot.limit_seconds)
    failed = region.znode is not None and region.znode.state is RegionState.FAILED_OPEN
    if not failed or afresh.step is not Step.REASSIGN or snapshot.view.silent:
        return None
    online = snapshot.view.online
    return min(online.keys() - {afresh.avoid} or online, key=lambda server: (len(online[server]), server), default=None)


def _assign_once_more(snapshot: ClusterSnapshot, region: Region, to: ServerName) -> OperatorRequest:
    encoded = encoded_name(region.name)
    plan = PlanChange(snapshot.view.stored.get(encoded), Plan(to, True, "an operator assigns it once more"))

    def begin(_: Cluster, role: Role) -> list[PassOutcome]:
        role.writes.write(Change(Transition.FORCE_OFFLINE, region.name, region.znode, to), plan)
        return []

    line = f"region {encoded}: its failed opens are forgotten; it is opened at {to}"
    return OperatorRequest([line], frozenset({encoded}), begin, not_open({encoded}))


def move(snapshot: ClusterSnapshot, asked: str, server: str) -> OperatorRequest:
    """Close a region at its server, and open it at another one. Raises Refused."""
    region, _ = _found(snapshot, asked)
    encoded, to = encoded_name(region.name), _taker(snapshot, server)
    if (why_not := why_not_close(snapshot.view, encoded)) is not None:
        raise Refused(f"region {encoded} cannot be closed now: {why_not.why}", "`regions explain` says what comes next")
    (source,) = region.served_by
    if source == to:
        raise Refused(f"region {encoded} is at {to} already", "Nothing is to be done")

    def begin(cluster: Cluster, role: Role) -> list[PassOutcome]:
        plan = Plan(to, True, "an operator moves it")
        return begin_to_close(snapshot.view, {encoded: plan}, role.writes, cluster.servers)

    line = f"region {encoded} is closed at {source} and opened at {to}"
    return OperatorRequest([line], frozenset({encoded}), begin, not_open({encoded}))


def unstick(snapshot: ClusterSnapshot, asked: Iterable[str] = ()) -> OperatorRequest:
    """Finish the transitions of these regions, or of all regions that are in transition or not served. Raises Refused."""
    named = {encoded_name(_found(snapshot, each)[0].name) for each in asked}
    lines, for_operator, only = [], [], set()
    for region, decision in snapshot.decided:
        encoded = encoded_name(region.name)
        going_on = region.znode is not None or decision.step is not Step.WAIT or not (region.served_by or not region.wanted)
        if (encoded not in named) if named else not going_on:
            continue
        lines.append(_line(region, decision))
        if decision.step is Step.REPORT:
            for_operator.append(lines[-1])
        elif going_on:
            only.add(encoded)
    if not named:
        broken = [one_line(str(error), MAX_LINE_CHARS) for error in snapshot.view.broken]
        lines, for_operator = lines + broken, for_operator + broken
    idle = "" if only else IDLE
    if snapshot.hmaster is not None and not any(
        decision.step is Step.GIVE_UP_OPEN and encoded_name(region.name) in only for region, decision in snapshot.decided
    ):
        idle = f"{IDLE} beside the HMaster"
    return OperatorRequest(
        lines, frozenset(only), lambda _, __: [], not_open(only), again=not named, for_operator=for_operator, idle=idle
    )


def close_copy(snapshot: ClusterSnapshot, asked: str, server: str, *, named_by_meta: bool = False) -> OperatorRequest:
    """Close a server's copy of a region that the server should not serve. Raises Refused.

    The copy that hbase:meta names is closed only with `named_by_meta`, because clients write there.
    """
    region, _ = _found(snapshot, asked)
    encoded, at = encoded_name(region.name), _live(snapshot, server)
    if at not in region.served_by:
        served = " and ".join(sorted(map(str, region.served_by))) or "no server"
        raise Refused(f"{at} does not serve region {encoded}; {served} does", "Name a server that serves it")
    others = region.served_by - {at}
    rightful = region.znode is None or (
        region.znode.server == at and region.znode.state in (RegionState.OPENED, RegionState.CLOSING)
    )
    if not others and rightful:
        raise Refused(f"{at} has the only copy of region {encoded}", "Use `regions move`, or disable its table")
    if at == region.last_server and not named_by_meta:
        raise Refused(
            f"hbase:meta names {at} for region {encoded}, so clients write to this copy",
            "Close the other copy, or say with --named-by-meta that this one is to go",
        )

    def begin(cluster: Cluster, _: Role) -> list[PassOutcome]:
        cluster.servers.close_copy(at, encoded)
        return [PassOutcome(region, Decision(Step.REPORT, "an operator closes this copy", at))]

    def left(now: ClusterSnapshot) -> list[str]:
        if at in now.view.silent:
            return [f"{at} has not said which regions it serves"]
        return [f"{at} still serves region {encoded}"] if encoded in now.view.online.get(at, ()) else []

    lines = [f"the copy of region {encoded} at {at} is closed; its edits are flushed to the region's files"]
    if others:
        lines.append(f"move the region from {min(others)} afterwards, so that it is opened with these files")
    return OperatorRequest(lines, frozenset(), begin, left)


def enable(snapshot: ClusterSnapshot, table: str) -> OperatorRequest:
    """Open all regions of a table. Raises Refused."""
    return _change(snapshot, table, (TableState.DISABLED, TableState.ENABLING), TableState.ENABLED, tables.enable, "opened")


def disable(snapshot: ClusterSnapshot, table: str) -> OperatorRequest:
    """Close all regions of a table. Raises Refused."""
    return _change(snapshot, table, (TableState.ENABLED, TableState.DISABLING), TableState.DISABLED, tables.disable, "closed")


def balance(snapshot: ClusterSnapshot) -> OperatorRequest:
    """Move regions until all servers have about the same number. Raises Refused."""
    if why_not := placement.why_not_balance(snapshot.view, complete=snapshot.read.complete):
        raise Refused(f"regions are not balanced now: {why_not}", "Look at `regions list`")
    planned = placement.plan_moves(snapshot.view)
    only = {each.encoded_name for each in planned}
    lines = [f"region {each.encoded_name} moves from {each.source} to {each.destination}" for each in planned]

    def begin(cluster: Cluster, role: Role) -> list[PassOutcome]:
        return placement.begin_moves(snapshot.view, planned, role.writes, cluster.servers)

    return OperatorRequest(lines, frozenset(only), begin, not_open(only), idle="" if planned else IDLE)


def _change(
    snapshot: ClusterSnapshot, table: str, before: Sequence[TableState], after: TableState, ask: Callable[..., None], what: str
) -> OperatorRequest:
    name = table.removeprefix("default:")
    regions = [encoded for encoded, known in snapshot.view.catalog.items() if table_of(known.info) == name]
    shown = one_line(name, MAX_NAME_CHARS)
    if name.startswith("hbase:"):
        raise Refused(f"table {shown} is HBase's own", "Leave it enabled")
    if not snapshot.read.complete:
        advice = f"See `regions explain {META_ENCODED_NAME}`; `regions unstick {META_ENCODED_NAME}` opens its region"
        raise Refused("hbase:meta cannot be read", advice)
    if not regions:
        like = get_close_matches(name, {table_of(known.info) for known in snapshot.view.catalog.values()}, MAX_NAMES)
        advice = f". Like it are: {one_line(', '.join(like), MAX_NAME_CHARS)}" if like else ""
        raise Refused(f"hbase:meta has no region of table {shown}", f"Name it as namespace:table, or as table{advice}")
    state = snapshot.read.states.get(name, ABSENT).state
    if state not in before:
        raise Refused(f"table {shown} is {state.name}", "Nothing is to be done" if state is after else "Wait until that is over")

    def begin(cluster: Cluster, role: Role) -> list[PassOutcome]:
        ask(cluster.zk, cluster.nodes, role.lock, name)
        return []

    def left(now: ClusterSnapshot) -> list[str]:
        reached = now.read.states.get(name, ABSENT).state
        return [] if reached is after else [f"table {shown} is {reached.name}"]

    lines = [f"table {shown} is {state.name}: its {len(regions):,} regions are {what}, and it becomes {after.name}"]
    return OperatorRequest(lines, frozenset(regions), begin, left, name)


def _found(snapshot: ClusterSnapshot, asked: str) -> tuple[Region, Decision]:
    """Find a region and the decision for it. Raises Refused."""
    encoded = resolve(snapshot, asked)
    for region, decision in snapshot.decided:
        if encoded_name(region.name) == encoded:
            return region, decision
    raise Refused(f"the znode of region {encoded} cannot be read", "See `regions explain`, which says why")


def _taker(snapshot: ClusterSnapshot, server: str) -> ServerName:
    """Read the name of a live server that may get regions. Raises Refused."""
    name = _live(snapshot, server)
    if name not in snapshot.view.servers.takers:
        raise Refused(f"{name} is being drained, so it gets no regions", "Name another server, or delete its znode in `draining`")
    return name


def _live(snapshot: ClusterSnapshot, server: str) -> ServerName:
    """Parse a server's name, and check that the server is live. Raises Refused."""
    try:
        name = ServerName.parse(server)
    except ValueError as error:
        raise Refused(one_line(str(error), MAX_NAME_CHARS), _live_ones(snapshot, server)) from None
    if name not in snapshot.view.servers.live:
        raise Refused(f"{name} is not a live RegionServer", _live_ones(snapshot, server))
    return name


def _live_ones(snapshot: ClusterSnapshot, like: str) -> str:
    """List the names of live servers, starting with servers on the asked host."""
    host = like.partition(",")[0]
    live = sorted(snapshot.view.servers.live, key=lambda server: (not server.host.startswith(host), server))
    more = f", and {len(live) - MAX_NAMES} more, which `regions list --json` has" if len(live) > MAX_NAMES else ""
    return f"Live are: {', '.join(map(str, live[:MAX_NAMES]))}{more}" if live else "No RegionServer is live"


def not_open(only: Iterable[str]) -> Left:
    """Return a function that lists which of these regions are in transition, or not served though they should be."""
    wanted = frozenset(only)

    def left(now: ClusterSnapshot) -> list[str]:
        lines = []
        for region, decision in now.decided:
            encoded = encoded_name(region.name)
            if encoded in wanted and (region.znode is not None or (region.wanted and not region.served_by)):
                lines.append(_line(region, decision))
        return lines

    return left


def _line(region: Region, decision: Decision) -> str:
    """Describe a region in a line: its name, state and server, the next step, and the reason."""
    state = "not served" if region.wanted else "closed"
    if region.served_by:
        state = "open" if len(region.served_by) == 1 else "served twice"
    at, whom = "", f" ({decision.server})" if decision.server is not None else ""
    if region.znode is not None:
        state, at = region.znode.state.name, f" at {region.znode.server}"
        whom = "" if decision.server == region.znode.server else whom
    what = f"{decision.why}; {decision.step.value}{whom}"
    return one_line(f"region {encoded_name(region.name)} is {state}{at}: {what}", MAX_LINE_CHARS)
