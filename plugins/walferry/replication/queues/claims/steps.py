"""The claimer, and the steps that move WALs between queues: shared by both ways of claiming."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from kazoo.client import KazooClient, TransactionRequest
from kazoo.exceptions import NodeExistsError, NoNodeError, NotEmptyError

from walferry.base.zk.client import NOT_AS_READ, ZNode, expected, read, read_all
from walferry.base.zk.fenced_lock import FencedLock
from walferry.hbase.layout import ZNodes
from walferry.replication.queues.errors import ClaimHeld, ClaimLost
from walferry.replication.source.session import Session

MAX_MULTI_BYTES = 256 * 1024  # a quarter of ZooKeeper's default limit (jute.maxbuffer)
OPERATION_BYTES = 80  # of a create or delete, without its path and value: headers, lengths, ACL
TRIES = 50  # a try fails if the queue changes between the read and the write

CHANGED = (*NOT_AS_READ, NotEmptyError)


@dataclass(frozen=True)
class WalNode:
    """A queued WAL's znode, as it was read."""

    name: str
    value: bytes
    version: int


def claim_hold(zk: KazooClient, path: str, server: str) -> FencedLock:
    """Return the lock, not acquired yet, that gives the right to change a server's queues."""
    return FencedLock(zk, path, lambda other, since: ClaimHeld(server, other, since), lambda why: ClaimLost(server, why))


@dataclass(frozen=True)
class Claimer:
    """A run that claims a dead server's queues."""

    session: Session
    server: str
    run_id: str
    holder: str

    @property
    def path(self) -> str:
        """The znode of the claim."""
        return self.session.own.claim(self.server)

    @contextmanager
    def holding(self, to: str) -> Iterator[FencedLock]:
        """Hold the right to move the server's queues to `to`. The znode is deleted if the block succeeds. Raises ClaimHeld."""
        lock = claim_hold(self.session.zk, self.path, self.server)
        lock.acquire(self.holder, self.run_id, to=to)
        done = False
        try:
            yield lock
            done = True
        finally:
            lock.release(forget=done)


def read_wals(zk: KazooClient, queue: str, names: Sequence[str]) -> list[WalNode]:
    """Read the queue's WALs, without WALs that are gone by now."""
    znodes: list[ZNode | None] = read_all(zk, [f"{queue}/{name}" for name in names])
    return [WalNode(name, z.value, int(z.stat.version)) for name, z in zip(names, znodes, strict=True) if z is not None]


def chunked(wals: Sequence[WalNode], path_bytes: int) -> Iterator[list[WalNode]]:
    """Split the WALs into chunks that fit a multi, each WAL twice, below paths of about `path_bytes`. At least one chunk."""
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
    """Show readers of the queues that a queue has moved, by a znode that exists only within the multi."""
    path = f"{nodes.queues}/cversion_{queue_id}"
    multi.create(path)
    multi.delete(path)


def create_if_missing(zk: KazooClient, lock: FencedLock, path: str) -> None:
    """Create a parent of queues if it is missing."""
    if read(zk, path) is not None:
        return
    expected(lock.write(lambda multi: multi.create(path)).refusal, NodeExistsError)


def delete_if_empty(lock: FencedLock, path: str) -> None:
    """Delete a znode if it has no children; it may also be gone already."""
    expected(lock.write(lambda multi: multi.delete(path)).refusal, NoNodeError, NotEmptyError)
