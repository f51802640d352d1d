"""Queues that get no new WALs, and the dead servers that they came from.

Such a queue was claimed from a dead server, or still lies under its znode. The functions read the queues as they are now, so they
also find servers that died while no watcher was running. `DeadServersStream` announces them to an event loop.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass

from kazoo.client import KazooClient

from walferry.base.zk.client import Watch
from walferry.base.zk.fenced_lock import is_held
from walferry.base.zk.watcher import Watcher
from walferry.hbase.files.errors import StoreError
from walferry.hbase.names import parse_queue_id, parse_wal_name
from walferry.replication.queues.queue import Queue
from walferry.replication.queues.reading import list_queues
from walferry.replication.source.cluster import SourceCluster
from walferry.replication.source.peers import look_again_seconds, peers_to_ship
from walferry.replication.source.session import Session

# The owner of claimed queues in the 2.x layout. HBase takes it for a server, and its log cleaner keeps the WALs queued there.
WALFERRY_SERVER = "walferry,1,1"
AGAIN_SECONDS = 600.0  # before an unchanged server is announced again
MAX_AGAIN_SECONDS = 4 * 3600.0  # the pause doubles up to this limit: a queue that cannot be shipped starts a few runs a day


@dataclass(frozen=True)
class RecoveredQueue:
    """A queue that gets no new WALs, as it was read. `wals` are names, by group and then by age."""

    peer_id: str
    server: str  # the server under whose znode the queue lies
    queue_id: str
    wals: tuple[str, ...]
    claimed: bool  # False: it lies under the dead server itself, and HBase may move it; never so in HBase 3's table
    unread: str = ""  # why its WALs could not be listed; `wals` is empty then

    @property
    def has_work(self) -> bool:
        """Whether the queue needs work: a claimed, empty queue does not."""
        return bool(self.wals or self.unread or not self.claimed)

    @property
    def ref(self) -> str:
        """`server/queue id`, which names the queue."""
        return f"{self.server}/{self.queue_id}"

    @property
    def groups(self) -> tuple[str, ...]:
        """The WAL groups in it, sorted."""
        return tuple(sorted({parse_wal_name(wal).group for wal in self.wals}))

    @property
    def dead_server(self) -> str:
        """The server whose death made this a recovered queue: the last server, if the queue came through several.

        Walferry's own pseudo server has never died: a RegionServer of 2.0 to 2.4 adopts its queues when it starts.
        """
        if not self.claimed:
            return self.server
        died = parse_queue_id(self.queue_id).dead_servers or (self.server,)
        return next((server for server in reversed(died) if server != WALFERRY_SERVER), died[-1])


@dataclass(frozen=True)
class DeadServer:
    """A dead server with the queues that came from it."""

    name: str
    queues: tuple[RecoveredQueue, ...]


def recovered_queues(session: Session, peer_id: str | None = None, watch: Watch | None = None) -> tuple[RecoveredQueue, ...]:
    """Return the recovered queues of one peer, or of all, as they lay at one moment. Queues of removed peers are included.

    `watch` is called once, in a thread of the client, when a queue or a server comes or goes, or when the connection is lost.
    Raises StorageError, ClusterError, QueuesMoving, ConnectError.
    """
    return tuple(as_recovered(queue) for queue in list_queues(session, peer_id, watch, even_unread=True) if not queue.live)


def as_recovered(queue: Queue) -> RecoveredQueue:
    """Turn a queue that gets no new WALs into a RecoveredQueue."""
    return RecoveredQueue(
        queue.id.peer_id,
        queue.server,
        str(queue.id),
        tuple(wal.name.text for wal in queue.wals),
        claimed=queue.server_is_live or queue.server == WALFERRY_SERVER or queue.in_table,
        unread=str(queue.unread or ""),
    )


def find_dead(session: Session, watch: Watch | None = None) -> tuple[DeadServer, ...]:
    """Return the dead servers that left queues of peers that Walferry may ship, wherever these queues lie now, sorted by name.

    `watch` and the errors are as for `recovered_queues`.
    """
    shippable = shippable_peers(session, watch)
    by_server: dict[str, list[RecoveredQueue]] = {}
    for queue in recovered_queues(session, watch=watch):
        if queue.peer_id in shippable and queue.has_work:
            by_server.setdefault(queue.dead_server, []).append(queue)
    return tuple(DeadServer(name, tuple(queues)) for name, queues in sorted(by_server.items()))


def shippable_peers(session: Session, watch: Watch | None = None) -> frozenset[str]:
    """Return the ids of the managed peers that Walferry may ship as they are now."""
    return frozenset(peer.id for peer in peers_to_ship(session, watch))


@dataclass(frozen=True)
class ServersNotified:
    """An announced dead server: when it is due again (time.monotonic), the pause after that, and its queues."""

    due: float
    pause: float
    dead: DeadServer


class DeadServersStream(Watcher):
    """Announces servers that are gone and have left queues of managed peers, until the queues are gone.

    The stream reads the queues as they are now. So it also finds servers that died while it was not running, and does not take
    the loss of its own session for a death. It announces a server again, after ever longer pauses, while no run claims or drains
    the server's queues: the run that the first announcement started may have failed.
    """

    waits_through = (*Watcher.waits_through, StoreError)  # of peers in files

    def __init__(self, source: SourceCluster, notified: Mapping[str, ServersNotified] | None = None) -> None:
        super().__init__(source.quorum, source.login)
        self.notified = notified or {}  # the servers that the last look found or an earlier stream announced
        self._source = source

    async def next(self) -> tuple[DeadServer, ...]:
        """Wait for dead servers that were not announced yet, or are due again.

        The stream waits through lost sessions and while the ensemble is away. Raises ClusterError, ZNodeValueError.
        """
        return await self.first(self._look, self._pause)

    def _look(self, zk: KazooClient, watch: Watch) -> tuple[DeadServer, ...] | None:
        session = Session(self._source, zk)
        there = find_dead(session, watch)
        now = time.monotonic()  # after the look, however long it took: pauses count from the announcement
        found, notified = [], {}
        for dead in there:
            before = self.notified.get(dead.name)
            if before is None:
                found.append(dead)
                notified[dead.name] = ServersNotified(now + AGAIN_SECONDS, AGAIN_SECONDS, dead)
            elif dead != before.dead:  # a run or HBase moves the queues, or takes WALs out
                notified[dead.name] = ServersNotified(now + before.pause, before.pause, dead)
            elif now < before.due:
                notified[dead.name] = before
            elif _is_held(session, dead):
                notified[dead.name] = ServersNotified(now + AGAIN_SECONDS, before.pause, dead)
            else:
                pause = min(2 * before.pause, MAX_AGAIN_SECONDS)
                found.append(dead)
                notified[dead.name] = ServersNotified(now + pause, pause, dead)
        self.notified = notified
        return tuple(found) or None

    def _pause(self) -> float | None:
        """Return the seconds until the next server is due, or what cannot be watched is read again; None if there is neither."""
        now, again = time.monotonic(), look_again_seconds(self._source)
        pauses = [max(0.0, notified.due - now) for notified in self.notified.values()] + ([] if again is None else [again])
        return min(pauses, default=None)


def _is_held(session: Session, dead: DeadServer) -> bool:
    """Return whether a run claims the server, or holds a WAL group of its queues."""
    leases = (session.own.lease(queue.peer_id, group) for queue in dead.queues for group in queue.groups)
    return is_held(session.zk, session.own.claim(dead.name)) or any(is_held(session.zk, lease) for lease in leases)
