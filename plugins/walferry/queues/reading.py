"""Reading replication queues.

    replication/rs / <server> / <queue id> / <WAL>        (ZKReplicationQueueStorage.java)

HBase moves a queue from a dead server to a live one in one multi that also bumps the cversion of replication/rs. Whoever reads
more than one queue reads that cversion before and after, and reads again when it has changed; else a queue can be missed, or seen
twice, while it moves.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from kazoo.client import KazooClient

from walferry.hbase.cluster import check_layout, check_storage, live_servers
from walferry.hbase.errors import PositionError
from walferry.hbase.layout import ZNodes
from walferry.hbase.values import decode_position
from walferry.names import QueueId, WalName, parse_queue_id, parse_wal_name
from walferry.queues.errors import QueuesMoving
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


def read_queues(zk: KazooClient, nodes: ZNodes, peer_id: str) -> list[Queue]:
    """All queues of a peer, each WAL once, as they lay at one moment. Raises StorageError, QueuesMoving."""
    check_storage(zk, nodes)
    found = looked_for(zk, nodes, lambda: _queues_and_values(zk, nodes, peer_id), _merged)
    # After the queues: a server that has just started is in both, one that has just died in neither.
    live = {str(server) for server in live_servers(zk, nodes)}
    return [_queue(server, queue_id, path, values, server in live) for server, queue_id, path, values in found]


def groups(queue: Queue) -> dict[str, tuple[QueuedWal, ...]]:
    """The queue's WALs by group, oldest first."""
    by_group: dict[str, list[QueuedWal]] = {}
    for wal in queue.wals:
        by_group.setdefault(wal.name.group, []).append(wal)
    return {group: tuple(wals) for group, wals in by_group.items()}


def find_wal(zk: KazooClient, nodes: ZNodes, peer_id: str, wal: str) -> str | None:
    """The znode of a queued WAL, whichever queue of the peer it is in by now; None if it is in none. Raises QueuesMoving."""

    def look() -> str | None:
        for path in queue_paths(zk, nodes, peer_id):
            if read(zk, f"{path}/{wal}") is not None:
                return path
        return None

    path = looked_for(zk, nodes, look, lambda first, again: first or again, enough=lambda found: found is not None)
    return None if path is None else f"{path}/{wal}"


def queue_paths(zk: KazooClient, nodes: ZNodes, peer_id: str) -> list[str]:
    """The znodes of the peer's queues, at all servers, in no consistent moment. Queues with unreadable names are not listed."""
    return [path for _, _, path in peer_queues(zk, nodes, peer_id)]


def queued_groups(zk: KazooClient, nodes: ZNodes, peer_id: str) -> frozenset[str]:
    """The WAL groups that are queued for the peer, at all servers, in no consistent moment. Other names are passed over."""
    found = set()
    for path in queue_paths(zk, nodes, peer_id):
        for name in children(zk, path) or ():
            try:
                found.add(parse_wal_name(name).group)
            except ValueError:
                continue
    return frozenset(found)


def peer_queues(zk: KazooClient, nodes: ZNodes, peer_id: str, watch: Watch | None = None) -> list[tuple[str, QueueId, str]]:
    """As `queue_paths`, with server and id; `watch` is called once when a queue comes or goes."""
    return [queue for queue in every_queue(zk, nodes, watch) if queue[1].peer_id == peer_id]


def every_queue(zk: KazooClient, nodes: ZNodes, watch: Watch | None = None) -> Iterator[tuple[str, QueueId, str]]:
    """As `peer_queues`, of all peers. Raises StorageError if the queues do not lie as the layout says."""
    for server in children(zk, nodes.queues, watch) or ():
        names = children(zk, nodes.server_queues(server), watch) or ()
        check_layout(zk, nodes, server, names)
        for name in names:
            if not nodes.is_queue(name):
                continue
            try:
                queue_id = parse_queue_id(name)
            except ValueError:
                continue
            yield server, queue_id, nodes.queue(server, name)


def _queues_and_values(zk: KazooClient, nodes: ZNodes, peer_id: str) -> list[_Found]:
    found = []
    for server, queue_id, path in peer_queues(zk, nodes, peer_id):
        names = children(zk, path)
        if names is None:
            continue
        znodes = read_all(zk, [f"{path}/{name}" for name in names])
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
    zk: KazooClient,
    nodes: ZNodes,
    look: Callable[[], T],
    both: Callable[[T, T], T],
    enough: Callable[[T], bool] = lambda found: False,
) -> T:
    """As `consistent`. Where queues are copied before they are deleted, the child version does not change meanwhile: who looks
    once may come to either place when nothing is there. So there this looks twice.
    """
    found = consistent(zk, nodes, look, enough)
    return both(found, consistent(zk, nodes, look, enough)) if nodes.locked and not enough(found) else found


def _merged(first: list[_Found], again: list[_Found]) -> list[_Found]:
    """What was found at either time; values as they were the second time."""
    known = {path: values for _, _, path, values in first}
    merged = [(server, queue, path, {**known.pop(path, {}), **values}) for server, queue, path, values in again]
    return merged + [found for found in first if found[2] in known]


def consistent(zk: KazooClient, nodes: ZNodes, look: Callable[[], T], enough: Callable[[T], bool] = lambda found: False) -> T:
    """What `look` finds when no queue moved meanwhile, or when it is `enough`. Raises QueuesMoving."""
    before = _cversion(zk, nodes)
    for _ in range(CONSISTENT_READ_TRIES):
        found = look()
        after = _cversion(zk, nodes)
        if after == before or enough(found):
            return found
        before = after
    raise QueuesMoving(f"the queues under {nodes.queues} kept moving through {CONSISTENT_READ_TRIES} readings; try again later")


def _cversion(zk: KazooClient, nodes: ZNodes) -> int | None:
    znode = read(zk, nodes.queues)
    return None if znode is None else int(znode.stat.cversion)
