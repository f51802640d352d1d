"""Begins to close regions: the first step of a move, and of disabling a table. `reconcile` brings them to their end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from walferry.master.decide import Decision, Step
from walferry.master.errors import StateChanged
from walferry.master.plans import Plan
from walferry.master.reconcile import ClusterView, PassOutcome, RegionServers, ask_to_close
from walferry.master.transitions import Transition
from walferry.master.writes import Change, MasterWrites, PlanChange
from walferry.master.znodes import RegionInTransition


def begin_to_close(
    view: ClusterView, plans: Mapping[str, Plan], writes: MasterWrites, servers: RegionServers
) -> list[PassOutcome]:
    """Create regions' znodes as CLOSING, each with its plan, and ask their servers to close them. Plans are by encoded name.

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
        why_not = "two servers serve it; `regions close-stray` closes one copy" if region.served_by else "no server serves it"
        return Decision(Step.WAIT, why_not)
    (server,) = region.served_by
    if server in view.servers.splitting:
        return Decision(Step.WAIT, "its server splits or merges a region, which may be this one", server)
    return None
