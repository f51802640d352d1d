"""What there is to ship: the closed WALs of a peer's queues, group by group, oldest first.

The newest WAL of a live server's group is being written and is never a candidate. A dead server's group and a recovered queue
get no new WALs, so all of theirs are.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from walferry.files.closedness import Closed, WalMissing, closedness
from walferry.files.store import WalLocation, WalStore
from walferry.hbase.errors import PositionError
from walferry.queues.errors import LeaseHeld
from walferry.queues.lease import acquire
from walferry.queues.reading import Queue, QueuedWal, groups, read_queues
from walferry.source.session import Session
from walferry.wal.errors import WalError, WalTruncatedError
from walferry.wal.header import EMPTY_TRAILER, MAX_HEADER_BYTES, parse_header


@dataclass(frozen=True)
class Candidate:
    """A queued WAL that may be shipped once its file is closed."""

    queued: QueuedWal
    live: bool  # its server runs, and a newer WAL of its group is queued
    dead_servers: tuple[str, ...]  # whose folders it may lie in, besides its own server's


@dataclass(frozen=True)
class GroupCandidates:
    """A WAL group's candidates, oldest first, and how many of its WALs are queued in all."""

    group: str
    server: str
    queue_id: str
    wals: tuple[Candidate, ...]
    queued: int


@dataclass(frozen=True)
class PlannedWal:
    """A WAL to ship. `size` and `position` in bytes; `url` and `size` are None if the file was not found."""

    name: str
    position: int
    size: int | None
    url: str | None
    finished: bool  # closed, and without an entry behind the position: it has only to leave the queue
    growing: bool = False  # its dead server has not closed it: it has `size` bytes at least (told by a store that is look_only)

    @property
    def bytes_left(self) -> int:
        """Bytes of the file behind the position, as far as they are known."""
        return 0 if self.finished else max(0, (self.size or 0) - self.position)


@dataclass(frozen=True)
class GroupPlan:
    """A WAL group's part of a plan. A problem is what will stop its shipping, as far as can be told beforehand."""

    group: str
    server: str
    queue_id: str
    queued: int
    wals: tuple[PlannedWal, ...]
    problem: str | None

    @property
    def bytes_left(self) -> int:
        """Bytes to read, as far as they are known."""
        return sum(w.bytes_left for w in self.wals)

    @property
    def unsure(self) -> int:
        """How many WALs are of unknown size, or have more bytes than are known."""
        return sum(w.size is None or w.growing for w in self.wals)

    @property
    def finished(self) -> bool:
        """Whether there is nothing to ship: all of its WALs have only to leave the queue."""
        return all(w.finished for w in self.wals)


@dataclass(frozen=True)
class PeerPlan:
    """What one batch of a peer has to do: the groups with candidates."""

    peer_id: str
    groups: tuple[GroupPlan, ...]

    @property
    def to_ship(self) -> tuple[GroupPlan, ...]:
        """The groups that need a Spark task."""
        return tuple(g for g in self.groups if not g.finished)


def candidates(queues: Sequence[Queue]) -> list[GroupCandidates]:
    """The candidates of each WAL group in a peer's queues. A group that HBase is just moving may lie in two queues."""
    found: dict[str, GroupCandidates] = {}
    for queue in queues:
        dead = queue.id.dead_servers if queue.live else (*queue.id.dead_servers, queue.server)
        for group, wals in groups(queue).items():
            closed = wals[:-1] if queue.live else wals
            mine = tuple(Candidate(w, queue.live, dead) for w in closed)
            before = found.get(group)
            if before:
                mine = _each_once((*before.wals, *mine))
            found[group] = GroupCandidates(group, queue.server, str(queue.id), mine, len(wals) + (before.queued if before else 0))
    return sorted(found.values(), key=lambda g: g.group)


def _each_once(wals: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Oldest first. A WAL that is being copied to another queue in a classic layout counts where it has come farthest."""
    best: dict[str, Candidate] = {}
    for wal in wals:
        other = best.get(wal.queued.name.text)
        if other is None or _known_position(wal) > _known_position(other):
            best[wal.queued.name.text] = wal
    return tuple(sorted(best.values(), key=lambda c: c.queued.name.timestamp))


def _known_position(wal: Candidate) -> int:
    found = wal.queued.position_or_problem
    return found if isinstance(found, int) else -1


def plan_peer(
    session: Session, peer_id: str, groups: Collection[str] | None = None
) -> PeerPlan:
    """Read the peer's queues and positions once, and find the files of all its WAL groups, or of those named.

    Groups without a candidate are left out. Raises WalferryError, StoreError: WrongRoot if the store is that of no cluster.
    """
    found = [g for g in candidates(read_queues(session, peer_id)) if g.wals and (groups is None or g.group in groups)]
    return PeerPlan(peer_id, tuple(_plan(session.store, g) for g in found))


@dataclass(frozen=True)
class Swept:
    """How many WALs were taken out of their queues, and the groups of which none was because somebody else holds them."""

    wals: int
    held: tuple[GroupPlan, ...]


def sweep(session: Session, plan: PeerPlan, holder: str) -> Swept:
    """Take the WALs of groups that have nothing to ship out of their queues, under each group's lease.

    An idle server's rolled WALs are empty: they need no Spark job. Who holds a group may also be dead, its session not yet ended.
    """
    swept, held = 0, []
    for group in plan.groups:
        if not group.finished:
            continue
        try:
            lease = acquire(session, plan.peer_id, group.group, holder)
        except LeaseHeld:
            held.append(group)
            continue
        try:
            swept += sum(lease.remove_wal(wal.name) for wal in group.wals)
        finally:
            lease.release()
    return Swept(swept, tuple(held))


def _plan(store: WalStore, group: GroupCandidates) -> GroupPlan:
    wals, problem = [], None
    for candidate in group.wals:
        try:
            wals.append(plan_wal(store, candidate))
        except (PositionError, WalMissing, WalError) as e:
            problem = problem or str(e)
            wals.append(PlannedWal(candidate.queued.name.text, 0, None, None, finished=False))
    return GroupPlan(group.group, group.server, group.queue_id, group.queued, tuple(wals), problem)


def plan_wal(store: WalStore, candidate: Candidate) -> PlannedWal:
    """Find a candidate's file, and whether there is anything to ship. Raises WalMissing, PositionError, WalError, StoreError."""
    name, position = candidate.queued.name, candidate.queued.position
    location = store.locate(name, candidate.dead_servers)
    if location is None:
        store.check_root()
        raise WalMissing(name.text, store.places(name, candidate.dead_servers))
    finished = _finished(store, location, position)
    growing = store.look_only and not finished and not candidate.live and _growing(store, location)
    return PlannedWal(name.text, position, location.size, location.url, finished, growing)


def _growing(store: WalStore, location: WalLocation) -> bool:
    try:
        return store.is_growing(location)
    except FileNotFoundError:  # it is being moved
        return True


def _finished(store: WalStore, location: WalLocation, position: int) -> bool:
    """Whether the file is closed and has no entry behind `position`. Only a short rest is looked at."""
    if location.size - position > MAX_HEADER_BYTES:
        return False
    try:
        closed = closedness(store, location)
        if not isinstance(closed, Closed):
            return False
        if closed.end is not None and position > closed.end:  # what looks like a trailer may be part of the entry before
            closed = closedness(store, location, (closed.end + len(EMPTY_TRAILER),))
            if not isinstance(closed, Closed):
                return False
        with store.open(location) as file:  # anew: recovering its length may have added to it since it was located
            end = file.size if closed.end is None else closed.end
            if position > end:
                return False  # no position of this file's: the job says so
            if end == 0:
                return True
            first_entry = parse_header(file.read_at(0, min(file.size, MAX_HEADER_BYTES)), location.url).first_entry
    except (FileNotFoundError, WalTruncatedError):
        return False
    return max(position, first_entry) == end  # where an entry would begin: if that is a trailer, it is the file's
