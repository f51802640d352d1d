"""Claims queues in the 2.x layout with one multi a queue, as ZKReplicationQueueStorage.claimQueue does.

    create <to>/<queue>-<dead>
    { create <to>/<queue>-<dead>/<wal> with the value of the old one; delete <dead>/<queue>/<wal> }*
    delete <dead>/<queue>
    create, delete replication/rs/cversion_<queue>-<dead>

The last pair changes the child version of replication/rs, which shows HBase's log cleaner that a queue has moved while it was
reading (HBASE-12865). This layout has no lock: if HBase moves the same queue at the same time, ZooKeeper refuses one of the two
multis. A queue that is too large for one multi (ZooKeeper's jute.maxbuffer, 1 MiB by default) is moved in several. Each of them
moves whole WALs.
"""

import logging
from collections.abc import Callable, Container, Mapping, Sequence

from kazoo.client import TransactionRequest

from walferry.base.zk.client import children, expected
from walferry.base.zk.errors import AnswerTooLong
from walferry.base.zk.fenced_lock import FencedLock, Guard
from walferry.hbase.errors import PeerError
from walferry.hbase.layout import ZNodes
from walferry.hbase.names import parse_queue_id
from walferry.replication.queues.claims.steps import (
    CHANGED,
    TRIES,
    Claimer,
    WalNode,
    bump_cversion,
    chunked,
    create_if_missing,
    delete_if_empty,
    read_wals,
)
from walferry.replication.queues.errors import QueuesMoving
from walferry.replication.source.session import Session

log = logging.getLogger(__name__)


def claim(claimer: Claimer, queues: Mapping[str, Guard], to: str) -> int:
    """Move the queues to `to`. Returns how many it moved. Raises the same errors as `claim.claim`."""
    session, server = claimer.session, claimer.server
    moved = 0
    with claimer.holding(to) as lock:
        for queue_id, guard in queues.items():
            try:
                moved += _move(session, lock, guard, server, queue_id, to)
            except (PeerError, AnswerTooLong) as error:
                log.warning("%s is left: %s", session.nodes.queue(server, queue_id), error)
        delete_if_empty(lock, session.nodes.queue_server(server))
    return moved


def _move(session: Session, lock: FencedLock, guard: Guard, server: str, queue_id: str, to: str) -> bool:
    """Move the queue. Returns False if HBase or another run was faster, or if the queue was empty and was only deleted."""
    old, new_id = session.nodes.queue(server, queue_id), str(parse_queue_id(queue_id).claimed_from(server))
    new = session.nodes.queue(to, new_id)
    moved = False
    for _ in range(TRIES):
        names = children(session.zk, old)
        if names is None:
            return moved
        if not names:
            delete_if_empty(lock, old)
            continue
        create_if_missing(session.zk, lock, session.nodes.server_queues(to))
        there = children(session.zk, new)
        chunks = list(chunked(read_wals(session.zk, old, names), len(new)))
        for number, chunk in enumerate(chunks):
            operations = _moving(
                session.nodes, old, new, chunk, there or (),
                create=there is None and number == 0, delete=number == len(chunks) - 1,
            )  # fmt: skip
            outcome = lock.write(operations, [guard])
            refusal = expected(outcome.refusal, *CHANGED)
            moved |= refusal is None or outcome.maybe_before
            if refusal is not None:
                break
    raise QueuesMoving(f"{old} was changed {TRIES} times while it was being claimed; try again later")


def _moving(
    nodes: ZNodes, old: str, new: str, wals: Sequence[WalNode], there: Container[str], *, create: bool, delete: bool
) -> Callable[[TransactionRequest], None]:
    """Return the operations that `create` the new queue, move `wals`, and `delete` the old queue."""

    def operations(multi: TransactionRequest) -> None:
        if create:
            multi.create(new)
        for wal in wals:
            if wal.name in there:  # can only be a copy of the same WAL; one of the two must go
                multi.check(f"{new}/{wal.name}", -1)
            else:
                multi.create(f"{new}/{wal.name}", wal.value)
            multi.delete(f"{old}/{wal.name}", wal.version)
        if delete:
            multi.delete(old)
        bump_cversion(multi, nodes, new.rpartition("/")[2])

    return operations
