"""Finds closed WALs of a peer that a task has not dealt with yet; a mark remembers how far it is.

    <root>/marks/<cluster>/<peer>/<key>     {group: newest timestamp dealt with} as JSON

As far as queues tell, a WAL is closed when its group has a newer one, or when its server is gone. `key` names the mark's owner,
such as an Airflow task. A mark only moves forward. Several runs may look at once, but each WAL is new to one `commit` only.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError, NodeExistsError

from walferry.base.records import NotARecord, converted, parsed
from walferry.base.zk.client import OUTCOME_UNKNOWN, Watch, read, retried
from walferry.base.zk.errors import AnswerTooLong, Contention
from walferry.hbase.errors import ZNodeValueError
from walferry.replication.peers.reading import check_ours, read_peer
from walferry.replication.queues.consistent import consistent
from walferry.replication.queues.reading import closed_groups, list_queues, queued_groups
from walferry.replication.source.session import Session

COMMIT_TRIES = 50

Timestamps = Mapping[str, int]  # by WAL group, in milliseconds as in WAL names


@dataclass(frozen=True)
class NewWals:
    """Closed WALs that a mark does not cover."""

    newest: Timestamps  # of the groups that have any
    count: int


def find_new(
    session: Session, peer_id: str, key: str, beside: Timestamps | None = None, watch: Watch | None = None
) -> NewWals | None:
    """The peer's closed WALs that neither the mark `key` nor `beside` covers; None if there are none, or the peer is paused.

    `watch` is called, in a thread of the client, when anything may have changed or the connection was lost; often without need.
    Raises PeerError if the peer must not be shipped, StorageError, ZNodeValueError, ConnectError.
    """
    nodes = session.nodes
    if watch is not None:
        retried(session.zk, session.zk.exists, nodes.peer(peer_id), watch=watch)
        retried(session.zk, session.zk.exists, nodes.peer_state(peer_id), watch=watch)
    peer = read_peer(session.zk, nodes, peer_id)
    check_ours(peer)
    if peer.paused:
        return None
    closed = _closed_wals(session, peer_id, watch)
    seen = _merged(_read_mark(session.zk, session.own.mark(peer_id, key))[0], beside or {})
    new = {group: [t for t in timestamps if t > seen.get(group, -1)] for group, timestamps in closed.items()}
    newest = {group: max(timestamps) for group, timestamps in new.items() if timestamps}
    return NewWals(newest, sum(map(len, new.values()))) if newest else None


def commit(session: Session, peer_id: str, key: str, newest: Timestamps) -> bool:
    """Let the mark `key` cover `newest`; returns whether it did not cover all of that already. Raises WalferryError."""
    path = session.own.mark(peer_id, key)
    maybe_ours = False
    for _ in range(COMMIT_TRIES):
        mark, version = _read_mark(session.zk, path)
        wanted = _merged(mark, newest)
        if wanted == mark:
            return maybe_ours
        try:
            queued = consistent(session, lambda: queued_groups(session, peer_id))
        except AnswerTooLong:  # a group of the mark may be in that queue
            queued = frozenset(mark)
        # A group that is no longer queued never comes back: its server had its name for one life only.
        value = json.dumps(
            {group: timestamp for group, timestamp in wanted.items() if group in queued or group in newest}
        ).encode()
        try:
            if version is None:
                retried(session.zk, session.zk.ensure_path, path.rpartition("/")[0])
                session.zk.create(path, value)
            else:
                session.zk.set(path, value, version)
        except (BadVersionError, NodeExistsError):
            continue
        except OUTCOME_UNKNOWN:
            maybe_ours = True
            continue
        return True
    raise Contention(f"{path} changed {COMMIT_TRIES} times while it was being set; try again later")


def _closed_wals(session: Session, peer_id: str, watch: Watch | None) -> dict[str, list[int]]:
    """The timestamps of closed WALs by group, oldest first. A queue that cannot be listed has none: nothing of it is shipped."""
    closed: dict[str, list[int]] = {}
    for queue in list_queues(session, peer_id, watch, watch_wals=watch, even_unread=True):
        for group, wals in closed_groups(queue).items():
            closed.setdefault(group, []).extend(wal.name.timestamp for wal in wals)
    return closed


def _merged(one: Timestamps, other: Timestamps) -> dict[str, int]:
    return {group: max(one.get(group, -1), other.get(group, -1)) for group in {**one, **other}}


def _read_mark(zk: KazooClient, path: str) -> tuple[dict[str, int], int | None]:
    """The mark and its version; without one, everything is new."""
    znode = read(zk, path)
    if znode is None:
        return {}, None
    try:
        mark: dict[str, int] = converted(dict[str, int], parsed(znode.value), "the mark")
    except NotARecord as error:
        raise ZNodeValueError(
            path, f"its value is not a mark of Walferry's ({error})", "Delete it: all WALs are new then"
        ) from error
    return mark, int(znode.stat.version)
