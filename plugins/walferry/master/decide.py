"""Chooses the master's next step for one region: a pure function of the known facts about it.

The Master Rewrite Notes describe five flows. They differ only in how a region gets its first znode and its plan. From then on the
same table of decisions finishes the transition, whichever flow and whichever master began it:

    state        server in the znode        next step
    OFFLINE      live                       ask it to open the region (again); wait if it serves it by now; after a limit, if it
                                            does not open any region meanwhile, ask another server
                 dead                       choose another server: force to OFFLINE, and ask that server
    OPENING      live                       wait; after a limit, if it says that it does not serve the region, as if it were dead
    OPENED       live, serves the region    delete the znode: the region is open
                 live, does not serve it    wait; after a limit as if it were dead
    OPENING,     dead                       wait until its WALs are split, then force to OFFLINE and ask another server
    OPENED
    FAILED_OPEN  any                        force to OFFLINE and ask another server, at most MAX_FAILURES times a plan
    CLOSING      live, serves the region    ask it to close the region (again)
                 live, does not serve it    wait; after a limit: to be opened → force to OFFLINE; otherwise → delete
                 dead                       wait until its WALs are split; then the same at once
    CLOSED       any                        to be opened → force to OFFLINE and ask the plan's server; otherwise → delete
    REQUEST_…    live                       allow the split, or the merge if its server closes no region meanwhile
    SPLIT, …     live                       delete the znode of a finished split or merge
    none         no server serves it        create as OFFLINE, if its table is enabled and its last server splits or merges none

A region is opened only if every live server has said that it does not serve it, and if the WALs of its last server are split. If
the last server is unknown, the WALs of all dead servers must be split; for hbase:meta, also the WALs of all dead servers with
WALs of hbase:meta. That holds in each state, because a master that died may have written the znode. A region that two servers
serve is left alone and reported: people must decide which copy to close.

The daughters of a split, and the regions that are being merged, have no znode of their own while their server has closed them or
not yet opened them. hbase:meta names that server for each of them, so the server's znode of the split or merge protects them too.

Source for dead servers: section 4 of the notes, with its five states. This module deviates from one sentence of the section: for
CLOSING with a dead destination, the notes force the znode to OFFLINE while the source may still be closing the region. Here the
source finishes first, and a new destination is chosen when the region is CLOSED.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from walferry.hbase.names import ServerName
from walferry.master.plans import Plan
from walferry.master.states import RegionState
from walferry.master.znodes import META_ENCODED_NAME, RegionInTransition, encoded_name

MAX_FAILURES = 10  # hbase.assignment.maximum.attempts


class Step(Enum):
    """The master's possible steps."""

    WAIT = "wait"
    ASK_TO_OPEN = "ask the server to open it"
    ASK_TO_CLOSE = "ask the server to close it"
    CREATE = "create the znode as OFFLINE and ask a server to open it"
    REASSIGN = "force the znode to OFFLINE and ask a server to open it"
    ACKNOWLEDGE = "delete the znode: the region is open"
    FORGET = "delete the znode: the region stays closed"
    ALLOW = "allow the split or merge"
    END_SPLIT = "delete the znode: the split or merge is done"
    GIVE_UP_OPEN = "write FAILED_OPEN in the server's place: then the HMaster assigns the region anew"
    REPORT = "nothing is done by itself"


@dataclass(frozen=True)
class Decision:
    """A step and the reason. `server` is asked or waited for; for CREATE and REASSIGN, None leaves the choice to the balancer.

    `avoid` is a server that must not be chosen.
    """

    step: Step
    why: str
    server: ServerName | None = None
    avoid: ServerName | None = None


@dataclass(frozen=True)
class Servers:
    """The servers as the master sees them. `recovering` lists the dead servers whose WALs are not split yet, and `with_meta_wals`
    the ones among them with WALs of hbase:meta.

    `splitting` lists the servers that split or merge a region now, `closing` the servers that were asked to close a region,
    `opening` the servers that open one, and `draining` the servers that are to get no regions.
    """

    live: frozenset[ServerName]
    recovering: frozenset[ServerName]
    splitting: frozenset[ServerName] = frozenset()
    closing: frozenset[ServerName] = frozenset()
    opening: frozenset[ServerName] = frozenset()
    draining: frozenset[ServerName] = frozenset()
    with_meta_wals: frozenset[ServerName] = frozenset()

    @property
    def takers(self) -> frozenset[ServerName]:
        """The live servers that may get regions: draining servers only if there are no others."""
        return self.live - self.draining or self.live


@dataclass(frozen=True)
class Region:
    """The known facts about one region. `served_by` lists the live servers that said they serve it.

    `listed` says whether hbase:meta contains it, and `last_server` is the server that hbase:meta names. `idle_seconds` is the
    time since its znode changed. `wanted` says whether its table is enabled (or being enabled).
    """

    name: bytes
    znode: RegionInTransition | None
    plan: Plan | None
    served_by: frozenset[ServerName]
    listed: bool
    last_server: ServerName | None
    idle_seconds: float
    wanted: bool


def decide(region: Region, servers: Servers, limit_seconds: float) -> Decision:
    """Decide the next step for a region. A live server may take `limit_seconds` for its own part."""
    if len(region.served_by) > 1:
        both = " and ".join(sorted(map(str, region.served_by)))
        return Decision(Step.REPORT, f"{both} both serve it. Close one copy with `regions close-copy`")
    if region.znode is None:
        return _without_znode(region, servers)
    decision = _DECISIONS[region.znode.state](region, region.znode, servers, limit_seconds)
    if decision.step in (Step.ASK_TO_OPEN, Step.REASSIGN) and not region.listed:
        return Decision(Step.REPORT, "hbase:meta does not have it, so it cannot be opened. See whether its parent is being split")
    return decision


def _without_znode(region: Region, servers: Servers) -> Decision:
    if region.served_by:
        return Decision(Step.WAIT, "it is open", next(iter(region.served_by)))
    if not region.wanted:
        return Decision(Step.WAIT, "its table is disabled")
    if (wait := _after_last_server(region, servers)) is not None:
        return wait
    if region.last_server in servers.splitting:
        return Decision(Step.WAIT, "its last server splits or merges a region, which may be this one", region.last_server)
    return Decision(Step.CREATE, "no server serves it")


def _offline(region: Region, znode: RegionInTransition, servers: Servers, limit_seconds: float) -> Decision:
    if region.served_by == {znode.server} and region.idle_seconds < limit_seconds:
        return Decision(Step.WAIT, "the server has opened it since the znode was read", znode.server)
    if region.served_by:
        return Decision(Step.REPORT, f"its znode is OFFLINE, but {_one(region)} serves it. Close that with `regions close-copy`")
    if znode.server in servers.live:
        idle = znode.server not in servers.opening and servers.live != {znode.server}  # else it may be the region's turn later
        if region.idle_seconds >= limit_seconds and idle:
            why = f"the server has not begun to open it for {region.idle_seconds:.0f} s"
            return _reassign(region, znode, servers, why, avoid=znode.server)
        asked = Decision(Step.ASK_TO_OPEN, "its znode is OFFLINE and names a live server", znode.server)
        return _after_last_server(region, servers) or asked
    return _reassign(region, znode, servers, "the server that was to open it is dead")


def _opening(region: Region, znode: RegionInTransition, servers: Servers, limit_seconds: float) -> Decision:
    if region.served_by - {znode.server}:
        who = f"{znode.server} opens it, but {_one(region)} serves it"
        return Decision(Step.REPORT, f"{who}. Close that with `regions close-copy`")
    if znode.server not in servers.live:
        return _reassign(region, znode, servers, "the server that opened it is dead")
    if region.served_by or region.idle_seconds < limit_seconds:
        return Decision(Step.WAIT, "the server opens it", znode.server)
    return _reassign(region, znode, servers, f"the server has not opened it for {region.idle_seconds:.0f} s", avoid=znode.server)


def _opened(region: Region, znode: RegionInTransition, servers: Servers, limit_seconds: float) -> Decision:
    if region.served_by == {znode.server}:
        return Decision(Step.ACKNOWLEDGE, "the server has opened it", znode.server)
    return _opening(region, znode, servers, limit_seconds)


def _failed_open(region: Region, znode: RegionInTransition, servers: Servers, limit_seconds: float) -> Decision:
    failures = region.plan.failures if region.plan else 0
    if failures >= MAX_FAILURES:
        return Decision(Step.REPORT, f"{failures + 1} servers could not open it; see their logs, then use `regions assign`")
    if region.served_by:
        return Decision(Step.WAIT, f"{_one(region)} still serves it", next(iter(region.served_by)))
    return _reassign(region, znode, servers, "the server could not open it", avoid=znode.server)


def _closing(region: Region, znode: RegionInTransition, servers: Servers, limit_seconds: float) -> Decision:
    if znode.server in servers.live:
        if region.served_by:
            return Decision(Step.ASK_TO_CLOSE, "its znode is CLOSING", _one(region))
        if region.idle_seconds < limit_seconds:
            return Decision(Step.WAIT, "the server closes it", znode.server)
    elif region.served_by:
        return Decision(Step.REPORT, f"its znode is CLOSING at a dead server, but {_one(region)} serves it")
    if not _reopen(region):
        return _after_recovery(znode, servers) or Decision(Step.FORGET, "no server serves it, and its table is disabled")
    return _reassign(region, znode, servers, "no server serves it any more")


def _closed(region: Region, znode: RegionInTransition, servers: Servers, limit_seconds: float) -> Decision:
    if region.served_by:
        return Decision(Step.REPORT, f"its znode is CLOSED, but {_one(region)} serves it. Close that with `regions close-copy`")
    if not _reopen(region):
        return Decision(Step.FORGET, "it is closed, and is to stay so")
    return _reassign(region, znode, servers, "it is closed, and is to be opened")


def _split_requested(region: Region, znode: RegionInTransition, servers: Servers, limit_seconds: float) -> Decision:
    if znode.server not in servers.live:
        return Decision(Step.WAIT, "its server is dead, and the znode goes with its session", znode.server)
    if znode.state is RegionState.REQUEST_MERGE and znode.server in servers.closing:
        return Decision(Step.WAIT, "its server closes a region, which may be one of those to be merged", znode.server)
    return Decision(Step.ALLOW, "the server asks for it", znode.server)


def _splitting(region: Region, znode: RegionInTransition, servers: Servers, limit_seconds: float) -> Decision:
    return Decision(Step.WAIT, "the server is at it", znode.server)


def _split(region: Region, znode: RegionInTransition, servers: Servers, limit_seconds: float) -> Decision:
    if znode.server not in servers.live:
        return Decision(Step.WAIT, "its server is dead, and the znode goes with its session", znode.server)
    return Decision(Step.END_SPLIT, "the server has done it", znode.server)


def _reassign(region: Region, znode: RegionInTransition, servers: Servers, why: str, avoid: ServerName | None = None) -> Decision:
    """Open the region elsewhere, once the WALs of the servers that may have written to it are split."""
    # A destination that died before it began to open the region has written nothing to it.
    wait = None if znode.state is RegionState.OFFLINE else _after_recovery(znode, servers)
    if (wait := wait or _after_last_server(region, servers)) is not None:
        return wait
    destination = _destination(region.plan, servers)
    return Decision(Step.REASSIGN, why, None if destination == avoid else destination, avoid)


def _after_recovery(znode: RegionInTransition, servers: Servers) -> Decision | None:
    if znode.server in servers.recovering:
        return Decision(Step.WAIT, "the WALs of its dead server are not split yet", znode.server)
    return None


def _after_last_server(region: Region, servers: Servers) -> Decision | None:
    if region.last_server in servers.recovering:
        return Decision(Step.WAIT, "the WALs of its last server are not split yet", region.last_server)
    if servers.with_meta_wals and encoded_name(region.name) == META_ENCODED_NAME:  # a restored ZooKeeper names an old last server
        unsplit = min(servers.with_meta_wals)
        return Decision(Step.WAIT, f"the WALs of {unsplit} are not split yet, and some of them are of hbase:meta", unsplit)
    if region.last_server is None and servers.recovering:  # only for hbase:meta, if ZooKeeper has lost its data
        unsplit = min(servers.recovering)
        return Decision(Step.WAIT, f"its last server is unknown, and the WALs of {unsplit} are not split yet", unsplit)
    return None


def _destination(plan: Plan | None, servers: Servers) -> ServerName | None:
    return plan.destination if plan is not None and plan.destination in servers.takers else None


def _reopen(region: Region) -> bool:
    return region.plan.reopen if region.plan is not None else region.wanted


def _one(region: Region) -> ServerName:
    return next(iter(region.served_by))


_DECISIONS = {
    RegionState.OFFLINE: _offline,
    RegionState.OPENING: _opening,
    RegionState.OPENED: _opened,
    RegionState.FAILED_OPEN: _failed_open,
    RegionState.CLOSING: _closing,
    RegionState.CLOSED: _closed,
    RegionState.REQUEST_SPLIT: _split_requested,
    RegionState.REQUEST_MERGE: _split_requested,
    RegionState.SPLITTING: _splitting,
    RegionState.MERGING: _splitting,
    RegionState.SPLIT: _split,
    RegionState.MERGED: _split,
}
