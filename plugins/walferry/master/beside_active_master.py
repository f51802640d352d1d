"""Acts while an HMaster is active: gives up an open that its server will not finish.

An HMaster that starts and finds a region OPENING at a live server waits for this server. Nothing ends that wait: 1.7 has no
timeout monitor. If the region is that of hbase:meta or hbase:namespace, the HMaster never becomes ready. The server named in the
znode owes one of two transitions, OPENED or FAILED_OPEN. If it makes neither for a long time, and no live server serves the
region, this module writes FAILED_OPEN instead. The HMaster takes this for the server's own and assigns the region again.

That is safe for the same reasons for which the master may force a znode from OPENING to OFFLINE: if the server still opens the
region after all, its next write is refused, because the version has changed, and it closes the region again. The HMaster's own
writes also check the version. All other transitions are left to the HMaster.

The regions of dead servers are left to the HMaster, which assigns them again by itself once their WALs are split.

The region of hbase:meta is left to people. An HMaster that waits for it remembers the server that had the region before the wait,
and would not notice the death of the server that has it afterwards. People must stop it; then the master's role opens the region.

Source: HBase's AssignmentManager.processRegionsInTransition, handleRegion, HMaster.assignMeta (branch-1.4).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kazoo.client import KazooClient

from walferry.base.zk.fenced_lock import Guard
from walferry.hbase.layout import OwnZNodes, ZNodes
from walferry.hbase.names import ServerName
from walferry.master.decide import Decision, Region, Step
from walferry.master.errors import NoLiveMaster, StateChanged
from walferry.master.reconcile import ClusterView, PassOutcome
from walferry.master.role import HMASTER_VERSION, take_role
from walferry.master.states import OF_SPLITS, Actor, RegionState
from walferry.master.transitions import Transition
from walferry.master.writes import Change, MasterWrites
from walferry.master.znodes import META_ENCODED_NAME, RegionInTransition, encoded_name


def decide_beside(view: ClusterView, region: Region, master: ServerName, limit_seconds: float) -> Decision:
    """Decide what to do for a region while `master` is the active HMaster: mostly to wait for it, until the limit is over."""
    znode = region.znode
    if len(region.served_by) > 1:
        both = " and ".join(sorted(map(str, region.served_by)))
        return Decision(Step.REPORT, f"{both} both serve it. Stop the HMaster and close one copy with `regions close-copy`")
    if znode is None:
        if region.served_by:
            return Decision(Step.WAIT, "it is open", next(iter(region.served_by)))
        if not region.wanted:
            return Decision(Step.WAIT, "its table is disabled")
        return Decision(Step.WAIT, "no server serves it. The HMaster is to open it; `assign` in HBase's shell asks it to", master)
    if znode.state is not RegionState.OPENING or region.served_by:
        return _left_to_master(region, znode, master, limit_seconds)
    if region.idle_seconds < limit_seconds:
        return Decision(Step.WAIT, "the server opens it", znode.server)
    if view.unanswered is not None:
        return view.unanswered
    if znode.server not in view.servers.live:
        return Decision(Step.WAIT, "its server is dead, and the HMaster assigns it anew once the server's WALs are split", master)
    if not region.listed:
        return Decision(Step.REPORT, "hbase:meta does not have it, so it cannot be opened. See whether its parent is being split")
    if encoded_name(region.name) == META_ENCODED_NAME:
        advice = "stop it, use `regions unstick` for hbase:meta, and start it again"
        why = f"{znode.server} has not opened it for {region.idle_seconds:.0f} s, and the HMaster waits for it: {advice}"
        return Decision(Step.REPORT, why)
    why = f"the server has not opened it for {region.idle_seconds:.0f} s, and the HMaster waits for it"
    return Decision(Step.GIVE_UP_OPEN, why, znode.server)


def _left_to_master(region: Region, znode: RegionInTransition, master: ServerName, limit_seconds: float) -> Decision:
    state = f"its znode is {znode.state.name}{', but a server serves it' if region.served_by else ''}"
    if region.idle_seconds < limit_seconds or znode.state in OF_SPLITS:  # those znodes are deleted with their server's session
        return Decision(Step.WAIT, f"{state}, and the HMaster is active", master)
    late = f"{state}, and the HMaster has not gone on with it for {region.idle_seconds:.0f} s"
    advice = "If it does not, stop the HMaster, use `regions unstick`, and start it again"
    return Decision(Step.REPORT, f"{late}. {advice}")


@contextmanager
def beside_master(zk: KazooClient, nodes: ZNodes, own: OwnZNodes, holder: str, run: str | None = None) -> Iterator[MasterWrites]:
    """Hold the right to an operator's transitions while the block runs and an HMaster is active.

    Only one run at a time has this right or the master's role. `holder` names the run to people; a killed attempt of the same
    `run` loses the right at once. Each write is refused once the HMaster is not active any more. Raises RoleHeld, ConnectError.
    """
    lock = take_role(zk, nodes, own, holder, run)
    try:
        lock.depend_on(Guard(nodes.master, HMASTER_VERSION, lambda: NoLiveMaster(nodes.master)))
        yield MasterWrites(zk, nodes, own, lock, Actor.OPERATOR)
    finally:
        lock.release()


def give_up_opens(decided: list[tuple[Region, Decision]], writes: MasterWrites) -> list[PassOutcome]:
    """Write the decisions of `decide_beside`. Raises NoLiveMaster, the role's errors, ConnectError."""
    outcomes = []
    for region, decision in decided:
        if decision.step is not Step.GIVE_UP_OPEN:
            continue
        error: StateChanged | None = None
        try:
            writes.write(Change(Transition.GIVE_UP_OPEN, region.name, region.znode))
        except StateChanged as changed:
            error = changed
        outcomes.append(PassOutcome(region, decision, error))
    return outcomes
