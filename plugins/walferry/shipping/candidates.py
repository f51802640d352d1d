"""Lists the WALs of a peer's queues that may be shipped: the closed ones, group by group, oldest first.

A live server still writes to the newest WAL of each of its groups, so that WAL is never a candidate. A dead server's group and a
recovered queue get no new WALs, so all their WALs are candidates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from walferry.hbase.names import parse_wal_name
from walferry.replication.queues.errors import LastWal, WalGone
from walferry.replication.queues.finding import read_group
from walferry.replication.queues.queue import Queue, QueuedWal, QueuePlace, closed_groups, groups
from walferry.replication.source.session import Session


@dataclass(frozen=True, slots=True)
class Candidate:
    """A queued WAL that may be shipped once its file is closed."""

    queued: QueuedWal
    live: bool  # its server runs, and a newer WAL of its group is queued
    dead_servers: tuple[str, ...]  # further servers in whose folders the file may lie


@dataclass(frozen=True, slots=True)
class GroupCandidates:
    """A WAL group's candidates, oldest first, and the number of all its queued WALs."""

    group: str
    server: str
    queue_id: str
    wals: tuple[Candidate, ...]
    queued: int
    place: QueuePlace | None = None  # None while the group is being moved: it then lies in two queues


def candidates(queues: Sequence[Queue]) -> list[GroupCandidates]:
    """Return the candidates of each WAL group in a peer's queues. A group that is being moved may lie in two queues."""
    found: dict[str, GroupCandidates] = {}
    for queue in queues:
        closed, queue_id = closed_groups(queue), str(queue.id)
        dead = queue.id.dead_servers if queue.live else (*queue.id.dead_servers, queue.server)
        for group, wals in groups(queue).items():
            mine = tuple(Candidate(wal, queue.live, dead) for wal in closed[group])
            before = found.get(group)
            if before:
                every = _each_once((*before.wals, *mine))
                found[group] = GroupCandidates(group, queue.server, queue_id, every, len(wals) + before.queued)
            else:
                names = tuple(wal.name.text for wal in wals) if queue.in_table else ()
                place = QueuePlace(queue.server, queue_id, len(wals), queue.live, names)
                found[group] = GroupCandidates(group, queue.server, queue_id, mine, len(wals), place)
    return sorted(found.values(), key=lambda g: g.group)


def find_candidate(session: Session, peer_id: str, wal: str) -> tuple[Candidate, GroupCandidates]:
    """Return a closed WAL as it is queued for the peer, with its position, and its group.

    Raises WalGone, LastWal for the WAL that a live server writes, ClusterError, ConnectError, and ValueError if `wal` is not a
    WAL's name.
    """
    queues = read_group(session, peer_id, parse_wal_name(wal).group)
    for group in candidates(queues):
        for candidate in group.wals:
            if candidate.queued.name.text == wal:
                return candidate, group
    for queued in chain.from_iterable(queue.wals for queue in queues):
        if queued.name.text == wal:
            raise LastWal(queued.path)
    raise WalGone(peer_id, wal)


def _each_once(wals: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Return each WAL once, oldest first. A WAL that is being copied between queues counts with its largest position."""
    best: dict[str, Candidate] = {}
    for wal in wals:
        other = best.get(wal.queued.name.text)
        if other is None or _known_position(wal) > _known_position(other):
            best[wal.queued.name.text] = wal
    return tuple(sorted(best.values(), key=lambda c: c.queued.name.timestamp))


def _known_position(wal: Candidate) -> int:
    found = wal.queued.position_or_problem
    return found if isinstance(found, int) else -1
