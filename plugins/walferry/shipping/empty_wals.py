"""Takes WALs without edits to ship out of their queues, without a Spark job."""

from __future__ import annotations

from dataclasses import dataclass

from walferry.replication.queues.errors import LeaseHeld
from walferry.replication.queues.lease import acquire
from walferry.replication.source.session import Session
from walferry.shipping.plan import GroupPlan, PeerPlan


@dataclass(frozen=True)
class DequeuedWals:
    """The number of WALs taken out, and the groups left out because another run holds them or has changed them."""

    wals: int
    held: tuple[GroupPlan, ...]


def dequeue_empty(session: Session, plan: PeerPlan, holder: str) -> DequeuedWals:
    """Take the WALs of groups that are finished out of their queues, under each group's lease.

    An idle server's rolled WALs are empty, so they need no Spark job. A dead holder's session may not have ended yet.
    """
    dequeued, held = 0, []
    for group in plan.groups:
        if not group.finished:
            continue
        try:
            with acquire(session, plan.peer_id, group.group, holder) as lease:
                names = [wal.name for wal in group.wals]
                there = frozenset(names) if group.place is None else lease.list_wals(group.place)
                dequeued += sum(lease.remove_wal(name) for name in names if name in there)
            if not there.issuperset(names):  # another run has taken WALs out, or moved them, since the plan was made
                held.append(group)
        except LeaseHeld:
            held.append(group)
    return DequeuedWals(dequeued, tuple(held))
