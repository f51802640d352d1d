"""Reading replication queues.

    replication/rs / <server> / <queue id> / <WAL>        (ZKReplicationQueueStorage.java)

HBase moves a queue from a dead server to a live one in one multi that also bumps the cversion of replication/rs. Whoever reads
more than one queue reads that cversion before and after, and reads again when it has changed; else a queue can be missed, or seen
twice, while it moves.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from walferry.hbase.cluster import check_layout, check_storage, live_servers
from walferry.hbase.errors import PositionError
from walferry.hbase.values import decode_position
from walferry.names import QueueId, WalName, parse_queue_id, parse_wal_name
from walferry.queues.errors import QueuesMoving
from walferry.source.session import Session
from walferry.zk.client import Watch, children, read, read_all

CONSISTENT_READ_TRIES = 20

T = TypeVar("T")
_Found = tuple[str, QueueId, str, dict[str, bytes]]  # server, id, znode, values by WAL


@dataclass(frozen=True)
class QueuedWal:
    """A WAL in a queue."""

    name: WalName
    path: str  # its znode when it was read; HBase may have moved it since
    position_or_problem: int | PositionError

    @property
    def position(self) -> int:
        """Byte offset just after the last shipped entry, 0 at the beginning. Raises PositionError if it cannot be read."""
        if isinstance(self.position_or_problem, PositionError):
            raise self.position_or_problem
        return self.position_or_problem


@dataclass(frozen=True)
class Queue:
    """One peer's WALs at one server, by group and then by age, oldest first."""

    server: str
    id: QueueId
    path: str
    wals: tuple[QueuedWal, ...]
    live: bool  # its server runs and still adds WALs: never so for a queue that came from a dead server
    problems: tuple[str, ...] = ()  # children that are no WALs


def read_queues(session: Session, peer_id: str) -> list[Queue]:
    """All queues of a peer, each WAL once, as they lay at one moment. Raises StorageError, QueuesMoving."""
    check_storage(session.zk, session.nodes)
    found = looked_for(session, lambda: _queues_and_values(session, peer_id), _merged)
    # After the queues: a server that has just started is in both, one that has just died in neither.
    live = {str(server) for server in live_servers(session.zk, session.nodes)}
    return [_queue(server, queue_id, path, values, server in live) for server, queue_id, path, values in found]


def groups(queue: Queue) -> dict[str, tuple[QueuedWal, ...]]:
    """The queue's WALs by group, oldest first."""
    by_group: dict[str, list[QueuedWal]] = {}
    for wal in queue.wals:
        by_group.setdefault(wal.name.group, []).append(wal)
    return {group: tuple(wals) for group, wals in by_group.items()}


def find_wal(session: Session, peer_id: str, wal: str) -> str | None:
    """The znode of a queued WAL, whichever queue of the peer it is in by now; None if it is in none. Raises QueuesMoving."""

    def look() -> str | None:
        for path in queue_paths(session, peer_id):
            if read(session.zk, f"{path}/{wal}") is not None:
                return path
        return None

    path = looked_for(session, look, lambda first, again: first or again, enough=lambda found: found is not None)
    return None if path is None else f"{path}/{wal}"


def queue_paths(session: Session, peer_id: str) -> list[str]:
    """The znodes of the peer's queues, at all servers, in no consistent moment. Queues with unreadable names are not listed."""
    return [path for _, _, path in peer_queues(session, peer_id)]


def queued_groups(session: Session, peer_id: str) -> frozenset[str]:
    """The WAL groups that are queued for the peer, at all servers, in no consistent moment. Other names are passed over."""
    found = set()
    for path in queue_paths(session, peer_id):
        for name in children(session.zk, path) or ():
            try:
                found.add(parse_wal_name(name).group)
            except ValueError:
                continue
    return frozenset(found)


def peer_queues(session: Session, peer_id: str, watch: Watch | None = None) -> list[tuple[str, QueueId, str]]:
    """As `queue_paths`, with server and id; `watch` is called once when a queue comes or goes."""
    return [queue for queue in every_queue(session, watch) if queue[1].peer_id == peer_id]


def every_queue(session: Session, watch: Watch | None = None) -> Iterator[tuple[str, QueueId, str]]:
    """As `peer_queues`, of all peers. Raises StorageError if the queues do not lie as the layout says."""
    for server in children(session.zk, session.nodes.queues, watch) or ():
        names = children(session.zk, session.nodes.server_queues(server), watch) or ()
        check_layout(session.zk, session.nodes, server, names)
        for name in names:
            if not session.nodes.is_queue(name):
                continue
            try:
                queue_id = parse_queue_id(name)
            except ValueError:
                continue
            yield server, queue_id, session.nodes.queue(server, name)


def _queues_and_values(session: Session, peer_id: str) -> list[_Found]:
    found = []
    for server, queue_id, path in peer_queues(session, peer_id):
        names = children(session.zk, path)
        if names is None:
            continue
        znodes = read_all(session.zk, [f"{path}/{name}" for name in names])
        values = {name: znode.value for name, znode in zip(names, znodes, strict=True) if znode is not None}
        found.append((server, queue_id, path, values))
    return found


def _queue(server: str, queue_id: QueueId, path: str, values: dict[str, bytes], server_is_live: bool) -> Queue:
    wals, problems = [], []
    for name, value in values.items():
        try:
            wals.append(QueuedWal(parse_wal_name(name), f"{path}/{name}", _position(value, f"{path}/{name}")))
        except ValueError as error:
            problems.append(f"{path}/{name}: {error}")
    wals.sort(key=lambda wal: (wal.name.group, wal.name.timestamp))
    return Queue(server, queue_id, path, tuple(wals), server_is_live and not queue_id.recovered, tuple(problems))


def _position(value: bytes, znode: str) -> int | PositionError:
    try:
        return decode_position(value, znode)
    except PositionError as problem:
        return problem


def looked_for(
    session: Session,
    look: Callable[[], T],
    both: Callable[[T, T], T],
    enough: Callable[[T], bool] = lambda found: False,
) -> T:
    """As `consistent`. Where queues are copied before they are deleted, the child version does not change meanwhile: who looks
    once may come to either place when nothing is there. So there this looks twice.
    """
    found = consistent(session, look, enough)
    return both(found, consistent(session, look, enough)) if session.nodes.locked and not enough(found) else found


def _merged(first: list[_Found], again: list[_Found]) -> list[_Found]:
    """What was found at either time; values as they were the second time."""
    known = {path: values for _, _, path, values in first}
    merged = [(server, queue, path, {**known.pop(path, {}), **values}) for server, queue, path, values in again]
    return merged + [found for found in first if found[2] in known]


def consistent(session: Session, look: Callable[[], T], enough: Callable[[T], bool] = lambda found: False) -> T:
    """What `look` finds when no queue moved meanwhile, or when it is `enough`. Raises QueuesMoving."""
    before = _cversion(session)
    for _ in range(CONSISTENT_READ_TRIES):
        found = look()
        after = _cversion(session)
        if after == before or enough(found):
            return found
        before = after
    raise QueuesMoving(
        f"the queues under {session.nodes.queues} kept moving through {CONSISTENT_READ_TRIES} readings; try again later"
    )


def _cversion(session: Session) -> int | None:
    znode = read(session.zk, session.nodes.queues)
    return None if znode is None else int(znode.stat.cversion)
