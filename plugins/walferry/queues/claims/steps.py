"""What the ways of claiming queues have in common: the claimer, and single steps of moving WALs from queue to queue."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from kazoo.client import KazooClient, TransactionRequest
from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError, NotEmptyError

from walferry.hbase.layout import ZNodes
from walferry.queues.errors import ClaimHeld, ClaimLost
from walferry.source.session import Session
from walferry.zk.client import ZNode, read, read_all
from walferry.zk.hold import Hold

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
