"""Queues that get no new WALs, and the dead servers that they came from.

Such a queue was claimed from a dead server, or still lies under one. Who looks finds what is there now, whenever it happened: a
server that died while nobody watched is found as well as one that has died just now.
"""

from dataclasses import dataclass

from walferry.hbase.errors import PeerError
from walferry.hbase.peers import check_shippable, read_peers
from walferry.names import parse_queue_id, parse_wal_name
from walferry.queues.reading import list_queues
from walferry.source.session import Session
from walferry.zk.client import Watch, children, retried

# Holds what was claimed in the 2.x layout. HBase takes it for a server name, and its log cleaner keeps what is queued there.
WALFERRY_SERVER = "walferry,1,1"


@dataclass(frozen=True)
class RecoveredQueue:
    """A queue that gets no new WALs, as it lay when it was looked at. `wals` are names, by group and age."""

    peer_id: str
    server: str  # under whose znode it lies
    queue_id: str
    wals: tuple[str, ...]
    claimed: bool  # False: it lies under the dead server itself

    @property
    def ref(self) -> str:
        """`server/queue id`: which queue this is."""
        return f"{self.server}/{self.queue_id}"

    @property
    def groups(self) -> tuple[str, ...]:
        """The WAL groups in it, sorted."""
        return tuple(sorted({parse_wal_name(wal).group for wal in self.wals}))

    @property
    def dead_server(self) -> str:
        """Whose death made it a recovered queue: the last one, if it came through several servers.

        Walferry's own pseudo server has never died: a RegionServer of 2.0 to 2.4 that starts adopts what is queued there.
        """
        if not self.claimed:
            return self.server
        died = parse_queue_id(self.queue_id).dead_servers
        return next((server for server in reversed(died) if server != WALFERRY_SERVER), died[-1])


@dataclass(frozen=True)
class DeadServer:
    """A dead server with the queues that came from it."""

    name: str
    queues: tuple[RecoveredQueue, ...]


def recovered_queues(
    session: Session, peer_id: str | None = None, watch: Watch | None = None
) -> tuple[RecoveredQueue, ...]:
    """The recovered and orphaned queues of one peer, or of all, also of peers that are gone; as they lay at one moment.

    `watch` is called once, in a thread of the client, when anything may have changed or the connection is lost. Raises
    StorageError, ClusterError, QueuesMoving, ConnectError.
    """
    return tuple(
        RecoveredQueue(
            queue.id.peer_id,
            queue.server,
            str(queue.id),
            tuple(wal.name.text for wal in queue.wals),
            claimed=queue.server_is_live or queue.server == WALFERRY_SERVER,
        )
        for queue in list_queues(session, peer_id, watch)
        if not queue.live
    )


def find_dead(session: Session, watch: Watch | None = None) -> tuple[DeadServer, ...]:
    """The dead servers of which queues of peers that Walferry may ship are left, wherever these lie now; sorted by name.

    `watch` and errors as of `recovered_queues`.
    """
    shippable = shippable_peers(session, watch)
    by_server: dict[str, list[RecoveredQueue]] = {}
    for queue in recovered_queues(session, watch=watch):
        if queue.peer_id in shippable and (queue.wals or not queue.claimed):
            by_server.setdefault(queue.dead_server, []).append(queue)
    return tuple(DeadServer(name, tuple(queues)) for name, queues in sorted(by_server.items()))


def unclaimed(session: Session, watch: Watch | None = None) -> tuple[str, ...]:
    """Those of `find_dead` under which such queues still lie, because nobody has claimed them."""
    return tuple(dead.name for dead in find_dead(session, watch) if not all(queue.claimed for queue in dead.queues))


def shippable_peers(session: Session, watch: Watch | None = None) -> frozenset[str]:
    """Ids of the managed peers that Walferry may ship as they are now."""
    if watch is not None:
        for peer_id in children(session.zk, session.nodes.peers, watch) or ():
            retried(session.zk, session.zk.exists, session.nodes.peer(peer_id), watch=watch)
            retried(session.zk, session.zk.exists, session.nodes.peer_state(peer_id), watch=watch)
    found = set()
    for peer in read_peers(session.zk, session.nodes).peers:
        try:
            check_shippable(peer)
        except PeerError:
            continue
        found.add(peer.id)
    return frozenset(found)
