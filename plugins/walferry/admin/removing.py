"""Removes a managed peer, once its backlog is shipped or given up."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence

from walferry.admin.peers import PeerAdmin, Refused, finish_command
from walferry.replication.peers.reading import DISABLED
from walferry.replication.queues import rolling
from walferry.replication.queues.queue import Queue
from walferry.replication.queues.reading import read_queues
from walferry.replication.source.agreement import check_queues_complete
from walferry.replication.source.peers import successor
from walferry.shipping.plan import PeerPlan, plan_peer

_CLOSING_SECONDS = 5.0  # WALs are closed a moment after they are rolled
_NAMED = 5

log = logging.getLogger(__name__)


def remove(admin: PeerAdmin, peer_id: str, *, drop_backlog: bool = False) -> None:
    """Remove a managed peer with its queues: from now on nothing is shipped to its peer cluster.

    Without `drop_backlog` the WALs are rolled, and what was written until now must have been shipped.
    """
    peer = admin.managed(peer_id)
    new = successor(admin.session, peer)
    if new is not None:
        finish = finish_command(peer_id, new.id)
        if not drop_backlog:
            raise Refused(f"peer {peer_id} is being handed back to {new.id}", f"{finish} removes it, and has HBase ship")
        log.warning("peer %s was to succeed it: %s enables that one", new.id, finish)
    if not drop_backlog:
        if peer.state != DISABLED:
            raise Refused(
                f"peer {peer_id} is {peer.state}: its positions move", "Disable it, or give its backlog up (--drop-backlog)"
            )
        check_queues_complete(admin.session, peer_id)
        _roll(admin, peer_id)
        refuse_odd_queues(read_queues(admin.session, peer_id))
        plan = _plan_when_closed(admin, peer_id)
        if left := unshipped(plan):
            raise Refused(
                f"{listed(left, plan)} not shipped whole", "Let a batch ship it and try again, or give it up (--drop-backlog)"
            )
        check_queues_complete(admin.session, peer_id)
    admin.delete(peer_id)


def _roll(admin: PeerAdmin, peer_id: str) -> None:
    rolled = rolling.roll(admin.session, [peer_id])
    if rolled.failures:
        reasons = "; ".join(f"{server}: {why}" for server, why in rolled.failures.items())
        raise Refused(f"not all RegionServers have begun new WALs: {reasons}", "Look at their logs, then try again")


def _plan_when_closed(admin: PeerAdmin, peer_id: str) -> PeerPlan:
    """Return the peer's plan, after a few seconds in which the rolled WALs are closed."""
    plan = plan_peer(admin.session, peer_id)

    def look() -> set[str]:
        nonlocal plan
        plan = plan_peer(admin.session, peer_id)
        return set(unshipped(plan))

    admin.await_none(look, _CLOSING_SECONDS)
    return plan


def unshipped(plan: PeerPlan) -> Mapping[str, str]:
    """Return the planned WALs that are not known to be shipped whole, each with its group's problem, if any."""
    return {wal.name: group.problem or "" for group in plan.groups for wal in group.wals if not wal.finished}


def refuse_odd_queues(queues: Sequence[Queue]) -> None:
    """Raise Refused if a queue has an entry that is not a WAL."""
    problems = [problem for queue in queues for problem in queue.problems]
    if problems:
        raise Refused(
            f"the peer's queues hold entries that are not WALs and would be lost with them: {'; '.join(problems)}",
            "Look at them first",
        )


def listed(wals: Iterable[str], plan: PeerPlan) -> str:
    """Return how many WALs, the first of them and why they wait: the beginning of a sentence, up to its verb."""
    names, problems = sorted(wals), unshipped(plan)
    shown = ", ".join(names[:_NAMED]) + (", …" if len(names) > _NAMED else "")
    why = next((problems[wal] for wal in names if problems.get(wal)), "")
    noun, verb = ("WAL", "is") if len(names) == 1 else ("WALs", "are")
    return f"{len(names)} {noun} ({shown}{': ' + why if why else ''}) {verb}"
