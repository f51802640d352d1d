"""Claiming in the 2.x layout: one multi a queue, as ZKReplicationQueueStorage.claimQueue has it.

    create <to>/<queue>-<dead>
    { create <to>/<queue>-<dead>/<wal> with the value of the old one; delete <dead>/<queue>/<wal> }*
    delete <dead>/<queue>
    create, delete replication/rs/cversion_<queue>-<dead>

The last pair changes the child version of replication/rs, by which HBase's log cleaner notices that a queue was moved while it
was reading (HBASE-12865). There is no lock in this layout: HBase may move the same queue in between, and one of the two multis
is refused then. A queue that is too large for one multi (ZooKeeper's jute.maxbuffer, by default 1 MiB) is moved in several, each
of which moves some WALs as a whole.
"""

import logging
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from kazoo.client import KazooClient, TransactionRequest
from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError, NotEmptyError

from walferry.hbase.errors import PeerError
from walferry.hbase.layout import ZNodes
from walferry.names import parse_queue_id
from walferry.queues.errors import ClaimHeld, ClaimLost, QueuesMoving
from walferry.source.session import Session
from walferry.zk.client import ZNode, children, read, read_all
from walferry.zk.hold import Guard, Hold

log = logging.getLogger(__name__)

MAX_MULTI_BYTES = 256 * 1024  # a quarter of what ZooKeeper takes if nobody has set jute.maxbuffer
OPERATION_BYTES = 80  # of one create or delete beside its path and value: headers, lengths, ACL
TRIES = 50  # each time the queue was changed between our reading and our writing

CHANGED = (NoNodeError, NodeExistsError, NotEmptyError, BadVersionError)


@dataclass(frozen=True)
class WalNode:
    """A queued WAL as it was read."""

    name: str
    value: bytes
    version: int


def claim_hold(zk: KazooClient, path: str, server: str) -> Hold:
    """The right to change a server's queues, at the path of its claim; to be acquired."""
    return Hold(zk, path, lambda who, since: ClaimHeld(server, who, since), lambda why: ClaimLost(server, why))


@dataclass(frozen=True)
class Claimer:
    """Who claims from which dead server, and where that is written down."""

    session: Session
    server: str
    run_id: str
    holder: str

    @property
    def path(self) -> str:
        """The znode of the claim."""
        return self.session.own.claim(self.server)

    @contextmanager
    def holding(self, to: str) -> Iterator[Hold]:
        """The right to move the server's queues to `to`; forgotten when the block ends without an error. Raises ClaimHeld."""
        hold = claim_hold(self.session.zk, self.path, self.server)
        hold.acquire(self.holder, self.run_id, to=to)
        done = False
        try:
            yield hold
            done = True
        finally:
            hold.release(forget=done)


def claim(claimer: Claimer, queues: Mapping[str, Guard], to: str) -> int:
    """Move the queues to `to`; how many. Raises as claims.claim."""
    session, server = claimer.session, claimer.server
    moved = 0
    with claimer.holding(to) as hold:
        for queue_id, guard in queues.items():
            try:
                moved += _move(session, hold, guard, server, queue_id, to)
            except PeerError as error:
                log.warning("%s is left: %s", session.nodes.queue(server, queue_id), error)
        delete_if_empty(hold, session.nodes.queue_server(server))
    return moved


def _move(session: Session, hold: Hold, guard: Guard, server: str, queue_id: str, to: str) -> bool:
    """Whether the queue was moved by us; False if somebody else was faster, or it was empty and only had to go."""
    old, new_id = session.nodes.queue(server, queue_id), str(parse_queue_id(queue_id).claimed_from(server))
    new = session.nodes.queue(to, new_id)
    moved = False
    for _ in range(TRIES):
        names = children(session.zk, old)
        if names is None:
            return moved
        if not names:
            delete_if_empty(hold, old)
            continue
        create_if_missing(session.zk, hold, session.nodes.server_queues(to))
        there = children(session.zk, new)
        chunks = list(chunked(read_wals(session.zk, old, names), len(new)))
        for number, chunk in enumerate(chunks):
            operations = _moving(
                session.nodes, old, new, chunk, there or (),
                create=there is None and number == 0, delete=number == len(chunks) - 1,
            )  # fmt: skip
            outcome = hold.write(operations, [guard])
            if outcome.refusal is not None and not isinstance(outcome.refusal.error, CHANGED):
                raise outcome.refusal.error
            moved |= outcome.refusal is None or outcome.maybe_before
            if outcome.refusal is not None:
                break
    raise QueuesMoving(f"{old} was changed {TRIES} times while it was being claimed; try again later")


def _moving(
    nodes: ZNodes, old: str, new: str, wals: Sequence[WalNode], there: Container[str], *, create: bool, delete: bool
) -> Callable[[TransactionRequest], None]:
    """Move `wals`; `create` the new queue before, `delete` the old one after that."""

    def operations(multi: TransactionRequest) -> None:
        if create:
            multi.create(new)
        for wal in wals:
            if wal.name in there:  # can only be a copy of the same; one of the two has to go
                multi.check(f"{new}/{wal.name}", -1)
            else:
                multi.create(f"{new}/{wal.name}", wal.value)
            multi.delete(f"{old}/{wal.name}", wal.version)
        if delete:
            multi.delete(old)
        bump_cversion(multi, nodes, new.rpartition("/")[2])

    return operations


def read_wals(zk: KazooClient, queue: str, names: Sequence[str]) -> list[WalNode]:
    """The queue's WALs; one that is gone meanwhile is left out."""
    znodes: list[ZNode | None] = read_all(zk, [f"{queue}/{name}" for name in names])
    return [WalNode(name, z.value, int(z.stat.version)) for name, z in zip(names, znodes, strict=True) if z is not None]


def chunked(wals: Sequence[WalNode], path_bytes: int) -> Iterator[list[WalNode]]:
    """The WALs in chunks that fit a multi, each WAL twice, below paths of about `path_bytes`; at least one chunk."""
    chunk: list[WalNode] = []
    size = 0
    for wal in wals:
        cost = 2 * (path_bytes + len(wal.name) + OPERATION_BYTES) + len(wal.value)
        if chunk and size + cost > MAX_MULTI_BYTES:
            yield chunk
            chunk, size = [], 0
        chunk.append(wal)
        size += cost
    yield chunk


def bump_cversion(multi: TransactionRequest, nodes: ZNodes, queue_id: str) -> None:
    """Let readers of the queues know that one has moved; nobody ever sees the znode."""
    path = f"{nodes.queues}/cversion_{queue_id}"
    multi.create(path)
    multi.delete(path)


def create_if_missing(zk: KazooClient, hold: Hold, path: str) -> None:
    """A znode that queues are to lie under."""
    if read(zk, path) is not None:
        return
    refusal = hold.write(lambda multi: multi.create(path)).refusal
    if refusal is not None and not isinstance(refusal.error, NodeExistsError):
        raise refusal.error


def delete_if_empty(hold: Hold, path: str) -> None:
    """Delete a znode without children; one that is gone or in use is fine."""
    refusal = hold.write(lambda multi: multi.delete(path)).refusal
    if refusal is not None and not isinstance(refusal.error, (NoNodeError, NotEmptyError)):
        raise refusal.error
