"""Plans a batch: finds the peer's closed WALs and their files, group by group, oldest first."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from walferry.hbase.errors import PositionError
from walferry.hbase.files.closedness import Closed, WalMissing, closedness
from walferry.hbase.files.errors import NoFileRight, UnreadableBytes
from walferry.hbase.files.listing import locate_all
from walferry.hbase.files.store import WalLocation, WalStore
from walferry.hbase.names import ServerName
from walferry.hbase.wal.errors import WalError, WalTruncatedError
from walferry.hbase.wal.header import EMPTY_TRAILER, MAX_HEADER_BYTES, parse_header
from walferry.replication.queues.queue import Queue, QueuePlace
from walferry.replication.queues.reading import list_queues, read_begun
from walferry.replication.source.session import Session
from walferry.shipping.candidates import Candidate, GroupCandidates, candidates

MAX_UNREADABLE = 3  # groups with unreadable files; then no more files are opened, as each may take long to fail


@dataclass(frozen=True, slots=True)
class PlannedWal:
    """A WAL to ship. `size` and `position` are in bytes; `url` and `size` are None if the file was not found."""

    name: str
    position: int
    size: int | None
    url: str | None
    finished: bool  # closed, with no entry behind the position: only its queue entry has to go
    to_archive: bool = False  # its edits are shipped, but its file has to be copied to the archive first
    growing: bool = False  # its dead server has not closed it: `size` is a minimum (known from a store that is look_only)

    @property
    def bytes_left(self) -> int:
        """The file's bytes behind the position, as far as they are known."""
        return 0 if self.finished else max(0, (self.size or 0) - self.position)


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """A WAL group's part of a plan. `problem` is an error that will stop its shipping, if it can be foreseen."""

    group: str
    server: str
    queue_id: str
    queued: int
    wals: tuple[PlannedWal, ...]
    problem: str | None
    place: QueuePlace | None = None  # where the group's task finds it

    @property
    def bytes_left(self) -> int:
        """Bytes to read, as far as they are known."""
        return sum(w.bytes_left for w in self.wals)

    @property
    def unsure(self) -> int:
        """The number of WALs whose size is unknown, or larger than known."""
        return sum(w.size is None or w.growing for w in self.wals)

    @property
    def finished(self) -> bool:
        """Whether the group needs no Spark task: all its WALs only have to leave the queue."""
        return self.wals != () and all(w.finished and not w.to_archive for w in self.wals)


@dataclass(frozen=True)
class PeerPlan:
    """The work of one batch of a peer: the groups with candidates."""

    peer_id: str
    groups: tuple[GroupPlan, ...]
    dead: frozenset[str] = frozenset()  # groups to which no server adds WALs, with or without candidates

    @property
    def to_ship(self) -> tuple[GroupPlan, ...]:
        """The groups that need a Spark task."""
        return tuple(g for g in self.groups if not g.finished)


def plan_peer(session: Session, peer_id: str, groups: Collection[str] | None = None) -> PeerPlan:
    """Return the plan for a peer: the queued WALs and their files, of all WAL groups or of those in `groups`.

    Groups without candidates are left out. Each queue and WAL folder is listed once. Only positions of WALs in progress are read.

    Raises WalferryError, StoreError: WrongRoot if no cluster keeps its WALs at the store's root.
    """
    listed = list_queues(session, peer_id, even_unread=True)
    queues = read_begun(session, [_only(queue, groups) for queue in listed])
    found = [group for group in candidates(queues) if group.wals]
    dead = frozenset(wal.name.group for queue in queues if not queue.live for wal in queue.wals)
    unread = [] if groups else [_unread(queue) for queue in listed if queue.unread is not None]
    return PeerPlan(peer_id, (*_plans(session, found), *unread), dead)


def groups_to_ship(session: Session, peer_id: str, groups: Collection[str] | None = None) -> list[tuple[str, QueuePlace | None]]:
    """Return the WAL groups that have candidates, all or those in `groups`, with their places; None while a group is being moved.

    Reads neither positions nor files. Raises WalferryError.
    """
    queues = [_only(queue, groups) for queue in list_queues(session, peer_id, even_unread=True)]
    return [(group.group, group.place) for group in candidates(queues) if group.wals]


def bytes_queued(session: Session, peer_id: str, groups: Collection[str] | None = None) -> int:
    """Return the bytes behind the positions of the WALs that may be shipped, of all groups or those in `groups`, as far as known.

    Opens no file. A file that the user may not look at counts as empty. Raises WalferryError, StoreError.
    """
    queues = read_begun(session, [_only(queue, groups) for queue in list_queues(session, peer_id, even_unread=True)])
    wals = [wal for group in candidates(queues) for wal in group.wals]
    found = locate_all(session.store, [(wal.queued.name, wal.dead_servers) for wal in wals], {})
    known = [wal.queued for wal in wals if wal.queued.name.text in found and isinstance(wal.queued.position_or_problem, int)]
    return sum(max(0, found[wal.name.text].size - wal.position) for wal in known)


def _unread(queue: Queue) -> GroupPlan:
    """Return a queue whose WALs cannot be listed as one group: its job fails with the reason, and other groups' jobs go on."""
    server = queue.id.dead_servers[0] if queue.id.recovered else queue.server
    group = ServerName.parse(server).encoded()
    return GroupPlan(group, queue.server, str(queue.id), 0, (), str(queue.unread))


def _only(queue: Queue, groups: Collection[str] | None) -> Queue:
    if groups is None:
        return queue
    return replace(queue, wals=tuple(wal for wal in queue.wals if wal.name.group in groups))


def _plans(session: Session, groups: Sequence[GroupCandidates]) -> Iterator[GroupPlan]:
    store = session.store
    wanted = [(wal.queued.name, wal.dead_servers) for group in groups for wal in group.wals]
    refused: dict[str, NoFileRight] = {}
    found: dict[str, WalLocation | NoFileRight | None] = {**locate_all(store, wanted, refused), **refused}
    unreadable = set[str]()
    for group in groups:
        plan = _plan(store, group, [found.get(wal.queued.name.text) for wal in group.wals], unreadable)
        yield _with_archive(plan) if session.source.archive else plan


def _with_archive(plan: GroupPlan) -> GroupPlan:
    """Mark WALs whose edits are shipped as still to be copied to the archive. A WAL without edits is not copied."""
    wals = tuple(replace(wal, to_archive=wal.finished and wal.position > 0) for wal in plan.wals)
    return replace(plan, wals=wals)


def _plan(
    store: WalStore, group: GroupCandidates, locations: Sequence[WalLocation | NoFileRight | None], unreadable: set[str]
) -> GroupPlan:
    """Return one group's plan, and add the group to `unreadable` if one of its files has bytes that cannot be read.

    In `locations`, a NoFileRight takes the place of the location of a WAL that the user has no right to look for.
    """
    wals, problem = [], None
    for candidate, location in zip(group.wals, locations, strict=True):
        try:
            if isinstance(location, NoFileRight):
                raise location
            look = group.group not in unreadable and len(unreadable) < MAX_UNREADABLE  # the groups' jobs try again, side by side
            wals.append(plan_wal(store, candidate, location, look=look))
        except (PositionError, WalMissing, WalError, NoFileRight) as error:
            if isinstance(error, UnreadableBytes):
                unreadable.add(group.group)
            problem = problem or str(error)
            wals.append(PlannedWal(candidate.queued.name.text, 0, None, None, finished=False))
    return GroupPlan(group.group, group.server, group.queue_id, group.queued, tuple(wals), problem, group.place)


def plan_wal(store: WalStore, candidate: Candidate, location: WalLocation | None, *, look: bool = True) -> PlannedWal:
    """Plan a candidate whose file was found at `location` (None: nowhere): `finished` if nothing of it is left to ship.

    Without `look` no file is opened, and the WAL is not `finished`. Raises WalMissing, PositionError, WalError, StoreError.
    """
    name, position = candidate.queued.name, candidate.queued.position
    if location is None:
        store.check_root()
        raise WalMissing(name.text, store.places(name, candidate.dead_servers))
    finished = look and _finished(store, location, position)
    growing = store.look_only and not finished and not candidate.live and _growing(store, location)
    return PlannedWal(name.text, position, location.size, location.url, finished, growing=growing)


def _growing(store: WalStore, location: WalLocation) -> bool:
    try:
        return store.is_growing(location)
    except FileNotFoundError:  # HBase is moving it
        return True


def _finished(store: WalStore, location: WalLocation, position: int) -> bool:
    """Return whether the file is closed and has no entry behind `position`. A file with many bytes left is not opened."""
    if location.size - position > MAX_HEADER_BYTES:
        return False
    try:
        closed = closedness(store, location)
        if not isinstance(closed, Closed):
            return False
        if closed.end is not None and position > closed.end:  # the bytes that look like a trailer may be part of the last entry
            closed = closedness(store, location, (closed.end + len(EMPTY_TRAILER),))
            if not isinstance(closed, Closed):
                return False
        with store.open(location) as file:  # open it again: recovering its length may have made it longer
            end = file.size if closed.end is None else closed.end
            if position > end:
                return False  # the position is not in this file: the job reports that
            if end == 0:
                return True
            first_entry = parse_header(file.read_at(0, min(file.size, MAX_HEADER_BYTES)), location.url).first_entry
    except (FileNotFoundError, WalTruncatedError):
        return False
    return max(position, first_entry) == end  # an entry could begin there: a trailer there is the file's own
