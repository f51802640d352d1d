"""Finds closed WALs of a peer that a task has not dealt with yet. A cursor records the task's progress.

    <root>/cursors/<cluster>/<peer>/<key>     {group: newest timestamp dealt with} as JSON

A WAL counts as closed when its group has a newer WAL, or when its server is gone. `key` names the cursor's owner, such as an
Airflow task. A cursor only moves forward. Several runs may look at once, but each WAL is new to one `commit` only.
`NewWalsStream` announces new WALs to an event loop as they come.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from walferry.base.records import NotARecord
from walferry.base.zk.client import Watch, has_znode, read
from walferry.base.zk.errors import AnswerTooLong
from walferry.base.zk.records import decode, encode, update, wrong_record
from walferry.base.zk.watcher import Watcher
from walferry.hbase.files.errors import StoreError
from walferry.replication.peers.reading import check_ours
from walferry.replication.queues.consistent import consistent
from walferry.replication.queues.queue import closed_groups
from walferry.replication.queues.reading import list_queues, queued_groups
from walferry.replication.source.cluster import SourceCluster
from walferry.replication.source.peers import look_again_seconds, read_peer
from walferry.replication.source.session import Session, writing_session

Timestamps = Mapping[str, int]  # by WAL group, in milliseconds as in WAL names


@dataclass(frozen=True)
class NewWals:
    """Closed WALs that a cursor does not cover."""

    newest: Timestamps  # of the groups that have closed WALs
    count: int


def find_new(
    session: Session, peer_id: str, key: str, beside: Timestamps | None = None, watch: Watch | None = None
) -> NewWals | None:
    """Return the closed WALs that neither the cursor `key` nor `beside` covers; None without any, or if the peer is paused.

    `watch` is called, in a thread of the client, when a queue may have changed or the connection was lost, and sometimes without
    a change. Raises PeerError if the peer must not be shipped, StorageError, ZNodeValueError, ConnectError.
    """
    nodes = session.nodes
    if watch is not None and session.source.peers_root is None:
        has_znode(session.zk, nodes.peer(peer_id), watch)
        has_znode(session.zk, nodes.peer_state(peer_id), watch)
    peer = read_peer(session, peer_id)
    check_ours(peer)
    if peer.paused:
        return None
    closed = _closed_wals(session, peer_id, watch)
    path = session.own.cursor(peer_id, key)
    znode = read(session.zk, path)
    seen = _merged(_cursor(None if znode is None else znode.value, path), beside or {})
    new = {group: [t for t in timestamps if t > seen.get(group, -1)] for group, timestamps in closed.items()}
    newest = {group: max(timestamps) for group, timestamps in new.items() if timestamps}
    return NewWals(newest, sum(map(len, new.values()))) if newest else None


def commit(session: Session, peer_id: str, key: str, newest: Timestamps) -> bool:
    """Let the cursor `key` cover `newest`; returns whether that moved the cursor. Raises WalferryError."""
    path = session.own.cursor(peer_id, key)

    def moved_on(value: bytes | None) -> bytes | None:
        cursor = _cursor(value, path)
        wanted = _merged(cursor, newest)
        if wanted == cursor:
            return None
        try:
            queued = consistent(session, lambda: queued_groups(session, peer_id))
        except AnswerTooLong:  # that queue may contain a group of the cursor
            queued = frozenset(cursor)
        # A group that is no longer queued never comes back: its server never starts again under the same name.
        return encode({group: timestamp for group, timestamp in wanted.items() if group in queued or group in newest})

    return update(session.zk, path, moved_on)


class NewWalsStream(Watcher):
    """Announces new closed WALs of one peer for one mark. Use `async with`, or `close` it: it has a session and a thread."""

    waits_through = (*Watcher.waits_through, StoreError)  # of peers in files

    def __init__(self, source: SourceCluster, peer_id: str, key: str) -> None:
        super().__init__(source.quorum, source.login)
        self.peer_id = peer_id
        self.key = key
        self._source = source

    async def next(self, beside: Timestamps | None = None) -> NewWals:
        """Wait for closed WALs that neither the cursor nor `beside` covers. Only `commit` moves the cursor.

        The stream waits through lost sessions and while the ensemble is away. Raises PeerError if the peer must not be shipped,
        StorageError, ZNodeValueError.
        """
        return await self.first(
            lambda zk, watch: find_new(Session(self._source, zk), self.peer_id, self.key, beside, watch),
            lambda: look_again_seconds(self._source),
        )

    async def commit(self, newest: Timestamps) -> bool:
        """Let the cursor cover `newest`; returns whether that moved the cursor. Raises ConnectError, WalferryError."""
        return await self.call(lambda zk: commit(writing_session(self._source, zk), self.peer_id, self.key, newest))


def _closed_wals(session: Session, peer_id: str, watch: Watch | None) -> dict[str, list[int]]:
    """Return the timestamps of closed WALs by group, oldest first. A queue that cannot be listed counts as empty."""
    closed: dict[str, list[int]] = {}
    for queue in list_queues(session, peer_id, watch, watch_wals=watch, even_unread=True):
        for group, wals in closed_groups(queue).items():
            closed.setdefault(group, []).extend(wal.name.timestamp for wal in wals)
    return closed


def _merged(one: Timestamps, other: Timestamps) -> dict[str, int]:
    return {group: max(one.get(group, -1), other.get(group, -1)) for group in {**one, **other}}


def _cursor(value: bytes | None, path: str) -> dict[str, int]:
    """Return the cursor in a znode's value; without a znode, all WALs are new."""
    try:
        return {} if value is None else decode(dict[str, int], value)
    except NotARecord as error:
        raise wrong_record(path, "a cursor of Walferry's", error, "Delete it: all WALs are new then") from error
