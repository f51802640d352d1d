"""Deletes queues of peers that no longer exist. HBase neither ships them nor ever cleans their WALs (HBASE-17077)."""

from kazoo.client import TransactionRequest
from kazoo.exceptions import NoNodeError

from walferry.base.zk.client import children, expected, read
from walferry.base.zk.fenced_lock import FencedLock
from walferry.hbase.errors import PeerError
from walferry.replication.queues.claims.steps import chunked, claim_hold, delete_if_empty, read_wals
from walferry.replication.queues.dead_servers import RecoveredQueue
from walferry.replication.queues.errors import QueuesMoving
from walferry.replication.source.session import Session

TRIES = 50


def delete_queue(session: Session, queue: RecoveredQueue, holder: str) -> int:
    """Delete a recovered queue of a peer that is gone, with all its WALs; returns how many it had.

    Edits in them that were not shipped will not reach that peer. Raises PeerError if the peer exists, ClaimHeld while the queue
    is being claimed.
    """
    lock = claim_hold(session.zk, session.own.claim(queue.server), queue.server)
    lock.acquire(holder)
    try:
        return _delete(session, lock, session.nodes.queue(queue.server, queue.queue_id), queue.peer_id)
    finally:
        lock.release(forget=True)


def _delete(session: Session, lock: FencedLock, path: str, peer_id: str) -> int:
    deleted = 0
    for _ in range(TRIES):
        if read(session.zk, session.nodes.peer(peer_id)) is not None:
            raise PeerError(peer_id, f"it exists, so {path} is not deleted", "Drain the queue, or remove the peer first")
        names = children(session.zk, path)
        if names is None:
            return deleted
        for chunk in chunked(read_wals(session.zk, path, names), len(path)):

            def operations(multi: TransactionRequest, names: tuple[str, ...] = tuple(wal.name for wal in chunk)) -> None:
                for name in names:
                    multi.delete(f"{path}/{name}")

            if not chunk or expected(lock.write(operations).refusal, NoNodeError) is None:
                deleted += len(chunk)
        delete_if_empty(lock, path)
    raise QueuesMoving(f"{path} was changed {TRIES} times while it was being deleted; try again later")
