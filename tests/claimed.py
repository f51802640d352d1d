"""A claim of a dead server's queues, and the queues' places after it."""

from __future__ import annotations

from dataclasses import dataclass

from walferry.replication.queues.claims.claim import Claim, claim
from walferry.replication.queues.dead_servers import RecoveredQueue, find_dead
from walferry.replication.source.session import Session


@dataclass(frozen=True)
class ClaimedQueues(Claim):
    queues: tuple[RecoveredQueue, ...]  # including queues that HBase has claimed


def claim_and_find(session: Session, server: str, run_id: str, holder: str, to: str | None = None) -> ClaimedQueues:
    done = claim(session, server, run_id, holder, to)
    queues = tuple(queue for dead in find_dead(session) if dead.name == server for queue in dead.queues)
    return ClaimedQueues(done.server, done.moved, done.left, queues)


def unclaimed(session: Session) -> tuple[str, ...]:
    """Return the servers that `find_dead` finds with queues still under them, because these are not claimed yet."""
    return tuple(dead.name for dead in find_dead(session) if not all(queue.claimed for queue in dead.queues))
