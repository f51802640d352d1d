"""Finds a WAL or a WAL group again, beginning where it was last seen.

A plan records where it has seen each WAL group. A task that ships the group reads that queue, and looks further only if HBase or
Walferry may have moved the group since, or may be moving it now.
"""

from walferry.base.zk.client import children
from walferry.hbase.cluster import is_live
from walferry.hbase.names import as_wal_name, parse_queue_id
from walferry.replication.queues.consistent import looked_for
from walferry.replication.queues.queue import Queue, QueuePlace
from walferry.replication.queues.reading import queue_of, queue_paths, read_queues, read_values
from walferry.replication.source.session import Session


def find_wal(session: Session, peer_id: str, wal: str) -> str | None:
    """Return the znode of a WAL in any of the peer's queues; None if no queue contains it. Raises QueuesMoving."""

    def look() -> str | None:
        return next(iter(read_values(session, [f"{queue}/{wal}" for queue in queue_paths(session, peer_id)])), None)

    return looked_for(session, look, lambda first, again: first or again, enough=lambda found: found is not None)


def read_group(session: Session, peer_id: str, group: str, place: QueuePlace | None = None) -> list[Queue]:
    """Return the queues that contain WALs of the group, with only these WALs and their positions.

    There is one queue, unless the group is just moving. If `place` contains the whole group, no other queue is read. Raises
    StorageError, QueuesMoving.
    """
    if session.nodes.in_table:
        from walferry.replication.queues import in_table  # it imports numpy, so only where it is used

        return in_table.read_group(session, peer_id, group, place)
    queue = None if place is None else _read_at(session, group, place)
    return read_queues(session, peer_id, group) if queue is None else [queue]


def _read_at(session: Session, group: str, place: QueuePlace) -> Queue | None:
    """Return the group as it lies at `place`; None if some of it may lie elsewhere.

    A live server's own queue never moves. No other queue gets more WALs, so the whole group is at `place` exactly if as many WALs
    are there as were seen before.
    """
    path = session.nodes.queue(place.server, place.queue_id)
    wals = [wal for name in children(session.zk, path) or () if (wal := as_wal_name(name)) is not None and wal.group == group]
    names = [wal.text for wal in wals]
    values = read_values(session, [f"{path}/{name}" for name in names])
    if not names or len(values) != len(names):
        return None
    # After the queue: a server that has died in between is not live.
    queue_id = parse_queue_id(place.queue_id)
    live = not queue_id.recovered and is_live(session.zk, session.nodes, place.server)
    if not live and (place.live or len(names) != place.wals):
        return None
    return queue_of(place.server, queue_id, path, names, values, server_is_live=live)
