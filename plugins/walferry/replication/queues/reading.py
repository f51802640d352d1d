"""Reads replication queues.

    replication/rs / <server> / <queue id> / <WAL>        (ZKReplicationQueueStorage.java)

All steps see the queues through `list_queues`, which reads names only. Two functions also read positions: `read_queues` reads all
of them, `read_begun` only the positions of WALs whose shipping has begun.

A queue may be moved meanwhile: see `consistent`. HBase 3 keeps its queues in a table: see `in_table`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from walferry.base.zk.client import Watch, ZNode, children, children_all, children_each, read_all
from walferry.base.zk.errors import AnswerTooLong
from walferry.hbase.cluster import check_layout, live_servers
from walferry.hbase.errors import PositionError
from walferry.hbase.names import QueueId, WalName, as_wal_name, is_server_name, parse_queue_id, parse_wal_name
from walferry.hbase.values import decode_position
from walferry.replication.queues.consistent import looked_for
from walferry.replication.queues.queue import NamedWals, Queue, QueuedWal, groups
from walferry.replication.source.peers import check_storage
from walferry.replication.source.session import Session

CVERSION = "cversion_"  # the prefix of the znodes that HBase creates and deletes in one multi when it claims a queue

OnOdd = Callable[[str], None]  # called with the path of a znode that is not a queue


def _pass_over(_: str) -> None:
    """Ignore a znode that is not a queue, as most readers do."""


@dataclass(frozen=True)
class SeenQueues:
    """All queues, the servers that ran, and the znodes among the queues whose names make no sense."""

    queues: tuple[Queue, ...]
    servers: tuple[str, ...]
    problems: tuple[str, ...]


@dataclass(frozen=True)
class _Names:
    """A queue's children as they were listed."""

    server: str
    id: QueueId
    path: str
    names: Collection[str]
    unread: AnswerTooLong | None = None


_Listing = Mapping[str, _Names]  # by the queue's znode
_Values = Mapping[str, ZNode]  # by the WAL's znode


def list_queues(
    session: Session, peer_id: str | None = None, watch: Watch | None = None, watch_wals: Watch | None = None, *,
    even_unread: bool = False,
) -> list[Queue]:  # fmt: skip
    """Return all queues of one peer, or of all, as they lay at one moment, without positions.

    `watch` is called when a server or a queue comes or goes, `watch_wals` when a WAL does: once, in a thread of the client, or
    when the connection is lost. Raises StorageError, QueuesMoving; and, unless `even_unread`, AnswerTooLong for a queue whose
    WALs cannot be listed.
    """
    if session.nodes.in_table:
        from walferry.replication.queues import in_table  # it imports numpy, so only where it is used

        return in_table.read_queues(session, peer_id, watch)
    check_storage(session)
    listing = looked_for(session, lambda: _listing(session, peer_id, watch, watch_wals, even_unread=even_unread), _both_listings)
    return _queues(listing, {}, _live(session, watch))


def see_queues(session: Session, table_seconds: float) -> SeenQueues:
    """Return all queues of all peers, with the positions that `read_begun` reads, for display.

    Names that make no sense become problems. A table of queues that does not answer is given up after `table_seconds`. Raises
    StorageError, QueuesMoving; of the table also ScanGivenUp, RpcError.
    """
    if session.nodes.in_table:
        return _seen_in_table(session, table_seconds)
    check_storage(session)
    odd: set[str] = set()  # `look` may be repeated
    listing = looked_for(session, lambda: _listing(session, None, on_odd=odd.add, even_unread=True), _both_listings)
    servers = children(session.zk, session.nodes.rs) or []
    odd |= {f"{session.nodes.rs}/{name} is not a server's name" for name in servers if not is_server_name(name)}
    begun: dict[str, QueuedWal] = {}
    queues = [_named(each, begun, server_is_live=each.server in servers) for each in listing.values()]
    begun |= _begun(session, queues)
    return SeenQueues(tuple(queues), tuple(name for name in servers if is_server_name(name)), tuple(sorted(odd)))


def _seen_in_table(session: Session, seconds: float) -> SeenQueues:
    from walferry.replication.queues import in_table  # it imports numpy, so only where it is used

    odd: list[str] = []
    queues = in_table.read_queues(session, problems=odd, seconds=seconds)
    return SeenQueues(tuple(queues), tuple(sorted(_live(session))), tuple(sorted(set(odd))))


def read_queues(session: Session, peer_id: str, group: str | None = None) -> list[Queue]:
    """Return all queues of a peer with their positions, as they lay at one moment.

    With `group`, only queues with WALs of this group are returned, and only these WALs. Raises StorageError, QueuesMoving.
    """
    if session.nodes.in_table:
        from walferry.replication.queues import in_table  # it imports numpy, so only where it is used

        return in_table.read_queues(session, peer_id) if group is None else in_table.read_group(session, peer_id, group, None)
    check_storage(session)

    def look() -> tuple[_Listing, _Values]:
        all_queues = _listing(session, peer_id, even_unread=group is not None)
        listing = {path: of for path, queue in all_queues.items() if (of := _of_group(queue, group)).names or group is None}
        unread = [queue.unread for queue in all_queues.values() if queue.unread]
        if unread and not listing:  # the queue may contain the group
            raise unread[0]
        return listing, read_values(session, [f"{path}/{name}" for path, queue in listing.items() for name in queue.names])

    listing, values = looked_for(
        session, look, lambda first, again: (_both_listings(first[0], again[0]), {**first[1], **again[1]})
    )
    found = {
        path: replace(queue, names=[name for name in queue.names if f"{path}/{name}" in values])
        for path, queue in listing.items()
    }
    return _queues(found, values, _live(session))


def read_begun(session: Session, queues: Sequence[Queue]) -> list[Queue]:
    """Return the queues with the positions of all WALs whose shipping has begun. All other WALs are at position 0.

    The WALs of a group are shipped one after the other. So each group is read from its oldest WAL to the first one that has no
    position. If a later WAL has a position after all, the plan merely counts too many bytes as unshipped.
    """
    if session.nodes.in_table:
        return list(queues)
    begun = _begun(session, queues)
    return [
        replace(queue, wals=tuple([begun.get(wal.path) or QueuedWal(wal.name, wal.path, 0) for wal in queue.wals]))
        for queue in queues
    ]


def _begun(session: Session, queues: Iterable[Queue]) -> dict[str, QueuedWal]:
    """Return the WALs whose shipping has begun, by znode, with their positions."""
    begun: dict[str, QueuedWal] = {}
    rests: list[Iterator[QueuedWal]] = [iter(wals) for queue in queues for wals in groups(queue).values()]
    while rests:
        heads = [(rest, wal) for rest in rests if (wal := next(rest, None)) is not None]
        rests = []
        for (rest, wal), znode in zip(heads, read_all(session.zk, [wal.path for _, wal in heads]), strict=True):
            if znode is not None and (queued := _queued(wal.name, wal.path, znode)).position_or_problem != 0:
                begun[wal.path] = queued
                rests.append(rest)
    return begun


def queue_paths(session: Session, peer_id: str) -> list[str]:
    """Return the znodes of the peer's queues at all servers, not necessarily as of one moment. Unreadable names are left out."""
    if session.nodes.in_table:
        from walferry.replication.queues import in_table  # it imports numpy, so only where it is used

        return in_table.queue_paths(session, peer_id)
    return [path for _, queue_id, path in every_queue(session) if queue_id.peer_id == peer_id]


def queued_groups(session: Session, peer_id: str, *, even_unread: bool = False) -> frozenset[str]:
    """Return the groups of `queued_names`."""
    return frozenset(wal.group for wal in queued_names(session, peer_id, even_unread=even_unread))


def queued_names(session: Session, peer_id: str, *, even_unread: bool = False) -> frozenset[WalName]:
    """Return the WALs queued for the peer, not necessarily as of one moment. Names that are not WALs are left out.

    Raises AnswerTooLong for a queue that cannot be listed; with `even_unread` its WALs are left out.
    """
    if session.nodes.in_table:
        from walferry.replication.queues import in_table  # it imports numpy, so only where it is used

        return frozenset(wal.name for queue in in_table.read_queues(session, peer_id) for wal in queue.wals)
    listing = _listing(session, peer_id, even_unread=even_unread)
    names = (as_wal_name(name) for queue in listing.values() for name in queue.names)
    return frozenset(wal for wal in names if wal is not None)


def kept_hfiles(session: Session, peer_id: str, names: Sequence[str]) -> list[str]:
    """Return the places of the references that HBase still has to these bulk-loaded HFiles of the peer. Raises ConnectError."""
    if session.nodes.in_table:
        from walferry.replication.queues import in_table  # it imports numpy, so only where it is used

        return in_table.kept_hfiles(session, peer_id, names)
    paths = [f"{session.nodes.hfile_refs(peer_id)}/{name}" for name in names]
    return [path for path, znode in zip(paths, read_all(session.zk, paths), strict=True) if znode is not None]


def every_queue(session: Session, watch: Watch | None = None, on_odd: OnOdd = _pass_over) -> Iterator[tuple[str, QueueId, str]]:
    """List the queues of all peers. Raises StorageError if their layout is not the connection's."""
    zk, nodes = session.zk, session.nodes
    servers = children(zk, nodes.queues, watch) or []
    for server, names in zip(servers, children_all(zk, [nodes.server_queues(s) for s in servers], watch), strict=True):
        if not is_server_name(server) and not server.startswith(CVERSION):
            on_odd(f"{nodes.queue_server(server)} is not a server's name: HBase's log cleaner stops at it")
        check_layout(zk, nodes, server, names or ())
        for name in names or ():
            if not nodes.is_queue(name):
                continue
            try:
                queue_id = parse_queue_id(name)
            except ValueError as error:
                on_odd(f"{nodes.queue(server, name)}: {error}")
                continue
            yield server, queue_id, nodes.queue(server, name)


def read_values(session: Session, paths: Sequence[str]) -> dict[str, ZNode]:
    """Return the znodes of WALs that are still there, by path."""
    return {path: znode for path, znode in zip(paths, read_all(session.zk, paths), strict=True) if znode is not None}


def queue_of(
    server: str, queue_id: QueueId, path: str, names: Collection[str], values: _Values, *, server_is_live: bool
) -> Queue:  # fmt: skip
    """Return a queue as it was read. WALs that are not in `values` have no positions."""
    wals, problems = _in_order(path, names)
    queued = [
        _queued(wal, place, values[place]) if (place := f"{path}/{wal.text}") in values else QueuedWal(wal, place, None)
        for wal in wals
    ]
    return Queue(server, queue_id, path, tuple(queued), server_is_live, problems)


def _named(q: _Names, begun: Mapping[str, QueuedWal], *, server_is_live: bool) -> Queue:
    """Return a queue whose WALs are made when asked for. WALs in `begun`, which may be filled later, have positions."""
    wals, problems = _in_order(q.path, q.names)
    if q.unread is not None:
        problems = (*problems, str(q.unread))
    return Queue(q.server, q.id, q.path, NamedWals(q.path, [wal.text for wal in wals], begun), server_is_live, problems)


def _in_order(path: str, names: Collection[str]) -> tuple[list[WalName], tuple[str, ...]]:
    """Return a queue's WALs by group and age, and the problems with its other children."""
    wals, problems = [], []
    for name in names:
        try:
            wals.append(parse_wal_name(name))
        except ValueError as error:
            problems.append(f"{path}/{name}: {error}")
    wals.sort(key=lambda wal: (wal.group, wal.timestamp))
    return wals, tuple(problems)


def _listing(
    session: Session,
    peer_id: str | None,
    watch: Watch | None = None,
    watch_wals: Watch | None = None,
    on_odd: OnOdd = _pass_over,
    *,
    even_unread: bool = False,
) -> dict[str, _Names]:
    """Return the queues' children. Raises AnswerTooLong for a queue that has too many, unless `even_unread`."""
    queues = [queue for queue in every_queue(session, watch, on_odd) if peer_id is None or queue[1].peer_id == peer_id]
    listing = {}
    listed = children_each(session.zk, [path for _, _, path in queues], watch_wals)
    for (server, queue_id, path), names in zip(queues, listed, strict=True):
        if isinstance(names, AnswerTooLong):
            if not even_unread:
                raise names
            listing[path] = _Names(server, queue_id, path, (), names)
        elif names is not None:
            listing[path] = _Names(server, queue_id, path, names)
    return listing


def _live(session: Session, watch: Watch | None = None) -> set[str]:
    """Return the live servers. Call it after reading the queues: then a new server is in both results, a dead one in neither."""
    return {str(server) for server in live_servers(session.zk, session.nodes, watch)}


def _queues(listing: _Listing, values: _Values, live: Collection[str]) -> list[Queue]:
    return [
        replace(queue_of(q.server, q.id, q.path, q.names, values, server_is_live=q.server in live), unread=q.unread)
        for q in listing.values()
    ]


def _both_listings(first: _Listing, again: _Listing) -> _Listing:
    """Merge the listings of both times, in the order of the second."""
    merged = {
        path: replace(queue, names=sorted({*queue.names, *first[path].names})) if path in first else queue
        for path, queue in again.items()
    }
    return {**merged, **{path: queue for path, queue in first.items() if path not in merged}}


def _of_group(queue: _Names, group: str | None) -> _Names:
    if group is None:
        return queue
    return replace(queue, names=[name for name in queue.names if (wal := as_wal_name(name)) is not None and wal.group == group])


def _queued(wal: WalName, path: str, znode: ZNode) -> QueuedWal:
    """Return a WAL with its position, or with the error if the position cannot be parsed."""
    try:
        position: int | PositionError = decode_position(znode.value, path)
    except PositionError as problem:
        position = problem
    return QueuedWal(wal, path, position, int(znode.stat.version), int(znode.stat.mtime))
