"""Announces to an event loop what batches have to do, for all managed peers of a source: one ZooKeeper session for all of them.

There is something to do when closed WALs wait (see `announcing`), and when servers are to begin new WALs (see `roll_times`). Each
list of children is read once, and again when its watch has fired. So a source at which nothing happens makes no requests to
ZooKeeper. Of a queue's WALs only a few numbers are kept. The lists are not read at one moment: while a queue is moved, it may be
in none of them for a moment. That costs an announcement too many at most, as each change wakes the stream again.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from kazoo.client import KazooClient

from walferry.base.zk.client import Watch, children
from walferry.base.zk.errors import AnswerTooLong
from walferry.base.zk.watched_children import WatchedChildren
from walferry.base.zk.watcher import Watcher
from walferry.hbase.files.errors import StoreError
from walferry.hbase.names import QueueId, as_wal_name, parse_queue_id
from walferry.replication.queues.announcing import Announcements, WaitingWals
from walferry.replication.queues.queue import groups
from walferry.replication.queues.reading import list_queues
from walferry.replication.queues.roll_times import RollTimes
from walferry.replication.source.cluster import SourceCluster
from walferry.replication.source.peers import check_storage, look_again_seconds, peers_to_ship
from walferry.replication.source.session import Session

T = TypeVar("T")


@dataclass(frozen=True)
class BatchDue:
    """What a batch is to do: ship these peers, of which so many closed WALs wait, and have servers begin new WALs before."""

    peers: Mapping[str, int]
    roll: bool = False


class _Group(NamedTuple):
    """The WALs of one group in a queue, by their timestamps; `before` is the newest but one."""

    name: str
    wals: int
    oldest: int
    before: int
    newest: int

    @classmethod
    def of(cls, name: str, timestamps: Collection[int]) -> _Group:
        """Make it of the timestamps of a group's WALs."""
        ordered = sorted(timestamps)
        return cls(name, len(ordered), ordered[0], ordered[-2] if len(ordered) > 1 else -1, ordered[-1])

    def closed(self, *, live: bool) -> WaitingWals:
        """Return the closed WALs. A live server still writes to each group's newest WAL."""
        if not live:
            return WaitingWals(self.wals, {}, {self.name: self.oldest})
        if self.wals == 1:
            return WaitingWals()
        return WaitingWals(self.wals - 1, {self.name: self.before}, {self.name: self.oldest})


class ClosedWalsStream(Watcher):
    """Announces what batches have to do. Use `async with`, or `close` it: it has a session and a thread.

    Peers count that Walferry may ship as they are at that moment: managed, disabled and not paused.
    """

    waits_through = (*Watcher.waits_through, StoreError)  # of peers in files

    def __init__(self, source: SourceCluster, before: ClosedWalsStream | None = None) -> None:
        super().__init__(source.quorum, source.login)
        self._source = source
        self._announcements: Announcements = before._announcements if before is not None else Announcements()
        self._rolls: RollTimes = before._rolls if before is not None else RollTimes()
        self._names: WatchedChildren[Sequence[str]] = WatchedChildren(tuple)
        self._wals: WatchedChildren[Sequence[_Group]] = WatchedChildren(_groups_of)

    async def next(self) -> BatchDue:
        """Wait until a batch has something to do.

        The stream waits through lost sessions and while the ensemble is away. Raises ClusterError, ZNodeValueError.
        """
        return await self.first(self._look, self._pause)

    def _look(self, zk: KazooClient, watch: Watch) -> BatchDue | None:
        session = Session(self._source, zk)
        peers = peers_to_ship(session, watch)
        waiting = {peer.id: WaitingWals() for peer in peers}
        for peer_id, wals in self._waiting(session, waiting.keys(), watch):
            waiting[peer_id] |= wals
        held = [peer_id for peer_id in waiting if _is_held(session, peer_id, watch)]
        ready = time.monotonic() >= self._announcements.ready
        roll = ready and self._rolls.look(session, peers, time.monotonic())
        found = self._announcements.look(time.monotonic(), waiting, held, roll=roll)
        return BatchDue(found, roll) if found or roll else None

    def _pause(self) -> float | None:
        now = time.monotonic()
        roll = self._rolls.pause(now)
        pauses = (
            self._announcements.pause(now),
            None if roll is None else max(roll, self._announcements.ready - now),
            look_again_seconds(self._source),
        )
        return min((pause for pause in pauses if pause is not None), default=None)

    def _waiting(self, session: Session, peers: Collection[str], watch: Watch) -> Iterator[tuple[str, WaitingWals]]:
        """Yield the closed WALs of each WAL group in a queue of these peers. A queue that cannot be listed counts as empty."""
        if session.nodes.in_table:
            for queue in list_queues(session, watch=watch):
                for name, wals in groups(queue).items() if queue.id.peer_id in peers else ():
                    group = _Group.of(name, [wal.name.timestamp for wal in wals])
                    yield queue.id.peer_id, group.closed(live=queue.live)
            return
        check_storage(session)
        zk, nodes = session.zk, session.nodes
        servers = _listed(self._names.of(zk, [nodes.queues], watch)[0])
        parents = [nodes.server_queues(server) for server in servers]
        named = self._names.of(zk, parents, watch)
        queues = {
            nodes.queue(server, name): (server, queue_id)
            for server, names in zip(servers, named, strict=True)
            for name in _listed(names)
            if nodes.is_queue(name) and (queue_id := _queue_id(name)) is not None and queue_id.peer_id in peers
        }
        read = self._wals.of(zk, list(queues), watch)
        live = frozenset(_listed(self._names.of(zk, [nodes.rs], watch)[0]))  # after the queues, as `list_queues` does
        self._names.keep_only({nodes.queues, nodes.rs, *parents})
        self._wals.keep_only(set(queues))
        for (server, queue_id), found in zip(queues.values(), read, strict=True):
            for group in _listed(found):
                yield queue_id.peer_id, group.closed(live=server in live and not queue_id.recovered)


def _groups_of(names: Sequence[str]) -> Sequence[_Group]:
    """Return what is kept of a queue's list of WALs. Names that are not WALs are left out: a plan reports them."""
    timestamps: dict[str, list[int]] = {}
    for name in names:
        if (wal := as_wal_name(name)) is not None:
            timestamps.setdefault(wal.group, []).append(wal.timestamp)
    return tuple(_Group.of(group, those) for group, those in timestamps.items())


def _listed(found: Sequence[T] | AnswerTooLong | None) -> Sequence[T]:
    return () if found is None or isinstance(found, AnswerTooLong) else found


def _queue_id(name: str) -> QueueId | None:
    try:
        return parse_queue_id(name)
    except ValueError:
        return None


def _is_held(session: Session, peer_id: str, watch: Watch) -> bool:
    """Return whether a run ships the peer now. `watch` is called when that changes."""
    return bool(children(session.zk, session.own.peer_lock(peer_id), watch))
