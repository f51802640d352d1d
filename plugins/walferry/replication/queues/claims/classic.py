"""Claims queues in the layouts of HBase 0.98 to 1.x without multi: lock, copy, delete (ReplicationQueuesZKImpl.claimQueue).

    create <dead>/lock                      PBUF ReplicationLock; its owner, a RegionServer or Walferry, claims
    { create <to>/<queue>-<dead>, and in it a copy of each WAL }*          all queues, one at a time
    { delete <dead>/<queue>/<wal>, <dead>/<queue> }*
    delete <dead>/lock, <dead>

`to` is a live RegionServer. It does not know of the copies, so it ships none of them. If `to` were any other name, the next
RegionServer that starts would take it for a dead server and move its queues on. Each write depends on `to` being alive. If `to`
dies during the claim, no server has begun to claim from it yet, and the claim chooses another one.

A claim takes over a lock whose owner is a dead RegionServer (HBASE-2611, HBASE-16144: with HBase alone these queues were stuck).
The WALs that this server had copied lie under its own znode and are claimed from there. So a WAL that is also in another queue of
its peer is not copied again, only removed from this queue: each WAL ends in one queue.

Between copying and deleting, the child version of replication/rs is changed, which shows HBase's log cleaner that WALs have moved
while it was reading.
"""

import logging
import operator
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kazoo.client import TransactionRequest
from kazoo.exceptions import NodeExistsError, NoNodeError, NotEmptyError

from walferry.base.errors import WalferryError
from walferry.base.zk.client import children, commit, expected, read
from walferry.base.zk.errors import AnswerTooLong
from walferry.base.zk.fenced_lock import FencedLock, Guard, is_held, read_record
from walferry.hbase.cluster import is_live, live_servers
from walferry.hbase.errors import ClusterError, PeerError
from walferry.hbase.layout import ZNodes
from walferry.hbase.names import parse_queue_id
from walferry.hbase.values import decode_lock, decode_position, decode_server_version, encode_lock
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
from walferry.replication.queues.consistent import looked_for
from walferry.replication.queues.errors import ClaimHeld, ClaimLost, NoTarget, QueuesMoving
from walferry.replication.queues.reading import every_queue
from walferry.replication.source.session import Session

log = logging.getLogger(__name__)

LOCK_WAIT_SECONDS = 60.0  # for a live RegionServer that is claiming; it holds the lock for one queue at a time
LOCK_POLL_SECONDS = 0.1
TARGETS = 5  # live servers to try, since each may die


class _TargetDied(WalferryError):
    """The server that the queues were being moved to has died."""


@dataclass(frozen=True)
class _Transfer:
    """A running claim of a dead server, with its lock."""

    session: Session
    fenced: FencedLock
    server: str
    to: str
    guards: tuple[Guard, ...]  # the lock is ours, and `to` is alive

    def copy_of(self, queue_id: str) -> str:
        return self.session.nodes.queue(self.to, str(parse_queue_id(queue_id).claimed_from(self.server)))


def claim(claimer: Claimer, queues: Callable[[], Mapping[str, Guard]], to: str | None) -> int:
    """Take the lock and move the queues that `queues()` then names. Returns how many. Raises the same errors as `claim.claim`."""
    session, server = claimer.session, claimer.server
    _check_classic(session)
    for _ in range(TARGETS):
        target = to or _target(session, server, read_record(session.zk, claimer.path).get("to"))
        try:
            with claimer.holding(target) as fenced:
                return _claim(session, fenced, server, target, queues)
        except _TargetDied:
            if to is not None:
                raise
            log.warning("%s died while the queues of %s were being moved to it; trying another server", target, server)
    raise NoTarget(server)


def _claim(session: Session, fenced: FencedLock, server: str, to: str, queues: Callable[[], Mapping[str, Guard]]) -> int:
    alive = Guard(f"{session.nodes.rs}/{to}", -1, lambda: _TargetDied(f"{to} is dead"))
    lock = _take_lock(session, fenced, server, alive)
    if lock is None:
        return 0
    transfer = _Transfer(session, fenced, server, to, (lock, alive))
    copied: dict[str, Guard] = {}
    for queue_id, guard in queues().items():
        try:
            _copy(transfer, guard, queue_id)
            copied[queue_id] = guard
        except (PeerError, AnswerTooLong) as error:
            log.warning("%s is left: %s", session.nodes.queue(server, queue_id), error)
    moved = 0
    for queue_id, guard in copied.items():
        moved += _delete(transfer, guard, queue_id)
    _unlock(transfer)
    return moved


def _check_classic(session: Session) -> None:
    """Refuse HBase 2.x, which would take the lock for a queue and never end the dead server's crash procedure."""
    for name in live_servers(session.zk, session.nodes):
        znode = read(session.zk, f"{session.nodes.rs}/{name}")
        version = decode_server_version(znode.value, f"{session.nodes.rs}/{name}") if znode else None
        if version is not None and not version.startswith(("0.", "1.")):
            raise ClusterError(
                f"{name} runs HBase {version}, which has no lock on queues, but the connection's queue_layout is "
                f"{session.nodes.layout}: set it to 2.x"
            )


def _target(session: Session, server: str, before: str | None) -> str:
    """Choose the live server that gets the queues: the one that already has some of them, or any other."""
    live = sorted(map(str, live_servers(session.zk, session.nodes)))
    if not live:
        raise NoTarget(server)
    return before if before in live else random.choice(live)


def _take_lock(session: Session, fenced: FencedLock, server: str, alive: Guard) -> Guard | None:
    """Take the lock. Returns the guard of all later writes; None if the server's znode is gone, so that no queues are left."""
    path, give_up = session.nodes.lock(server), time.monotonic() + LOCK_WAIT_SECONDS
    while True:
        znode = read(session.zk, path)
        if znode is None:
            outcome = fenced.write(lambda multi: multi.create(path, encode_lock(fenced.path)), [alive])
            refusal = expected(outcome.refusal, NodeExistsError, NoNodeError)
            if refusal is not None and isinstance(refusal.error, NoNodeError):
                return None
            continue
        owner, version = decode_lock(znode.value, path), int(znode.stat.version)
        if owner == fenced.path:
            return Guard(path, version, lambda: ClaimLost(server, f"its lock {path} was taken away"))
        owning_server = owner.rpartition("/")[2]
        if is_live(session.zk, session.nodes, owning_server):
            if time.monotonic() > give_up:
                since = time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(znode.stat.mtime / 1000))
                raise ClaimHeld(server, f"RegionServer {owning_server}", since)
            time.sleep(LOCK_POLL_SECONDS)
            continue
        log.warning("%s is locked by %s, which is dead: taking the lock over", server, owning_server)
        _done(fenced, _taking_over(path, version, fenced.path), (alive,))


def _taking_over(lock: str, version: int, owner: str) -> Callable[[TransactionRequest], None]:
    return lambda multi: multi.set_data(lock, encode_lock(owner), version)


def _copy(transfer: _Transfer, guard: Guard, queue_id: str) -> None:
    """Copy the queue's WALs that are neither in the copy nor in another queue."""
    nodes, fenced, zk = transfer.session.nodes, transfer.fenced, transfer.session.zk
    old, new = nodes.queue(transfer.server, queue_id), transfer.copy_of(queue_id)
    for _ in range(TRIES):
        names = children(zk, old)
        there = children(zk, new)
        elsewhere = _elsewhere(transfer, queue_id)
        todo = [name for name in names or () if name not in (there or ()) and name not in elsewhere]
        if not todo:
            return
        create_if_missing(zk, fenced, nodes.queue_server(transfer.to))
        create_if_missing(zk, fenced, nodes.server_queues(transfer.to))
        for number, chunk in enumerate(chunked(read_wals(zk, old, todo), len(new))):
            copying = _copying(old, new, chunk, create=there is None and number == 0)
            if not _done(fenced, copying, (*transfer.guards, guard)):
                break
    raise QueuesMoving(f"{old} was changed {TRIES} times while it was being copied; try again later")


def _delete(transfer: _Transfer, guard: Guard, queue_id: str) -> bool:
    """Delete the queue. A WAL is deleted only while another queue contains it too. Returns False if it was gone."""
    nodes, fenced, zk = transfer.session.nodes, transfer.fenced, transfer.session.zk
    old, new = nodes.queue(transfer.server, queue_id), transfer.copy_of(queue_id)
    deleted = False
    for _ in range(TRIES):
        names = children(zk, old)
        if names is None:
            return deleted
        copies = {wal.name: wal for wal in read_wals(zk, new, names)}
        elsewhere = _elsewhere(transfer, queue_id)
        wals = read_wals(zk, old, names)
        if any(wal.name not in copies and wal.name not in elsewhere for wal in wals):
            _copy(transfer, guard, queue_id)
            continue
        for chunk in chunked(wals, 2 * len(new)):
            if chunk and not _done(fenced, _deleting(nodes, old, new, chunk, copies, elsewhere), (*transfer.guards, guard)):
                break
        else:
            delete_if_empty(fenced, old)
            deleted = True
    raise QueuesMoving(f"{old} was changed {TRIES} times while it was being deleted; try again later")


def _copying(old: str, new: str, wals: Sequence[WalNode], *, create: bool) -> Callable[[TransactionRequest], None]:
    def operations(multi: TransactionRequest) -> None:
        if create:
            multi.create(new)
        for wal in wals:
            multi.check(f"{old}/{wal.name}", wal.version)
            multi.create(f"{new}/{wal.name}", wal.value)

    return operations


def _deleting(
    nodes: ZNodes, old: str, new: str, wals: Sequence[WalNode], copies: Mapping[str, WalNode], elsewhere: Mapping[str, str]
) -> Callable[[TransactionRequest], None]:
    """Return the operations that delete `wals`, each only while in the copy, at its latest position, or in another queue."""

    def operations(multi: TransactionRequest) -> None:
        for wal in wals:
            copy = copies.get(wal.name)
            if copy is None:
                multi.check(f"{elsewhere[wal.name]}/{wal.name}", -1)
            elif _position(wal.value, f"{old}/{wal.name}") > _position(copy.value, f"{new}/{wal.name}"):
                multi.set_data(f"{new}/{wal.name}", wal.value, copy.version)
            else:
                multi.check(f"{new}/{wal.name}", copy.version)
            multi.delete(f"{old}/{wal.name}", wal.version)
        bump_cversion(multi, nodes, new.rpartition("/")[2])

    return operations


def _position(value: bytes, znode: str) -> int:
    """Read a position; -1 if it is malformed. A malformed position is kept, and stops its queue at shipping."""
    try:
        return decode_position(value, znode)
    except WalferryError:
        return -1


def _elsewhere(transfer: _Transfer, queue_id: str) -> dict[str, str]:
    """Map WALs of this queue in other queues of the peer to these queues, without this queue and its copy.

    Only queues that came from the same server can contain them: the WALs' servers are the first one of each queue's chain. If
    such a queue is deleted after this read, ZooKeeper refuses the write that depends on it.
    """
    zk, nodes, mine = transfer.session.zk, transfer.session.nodes, parse_queue_id(queue_id)
    here = {nodes.queue(transfer.server, queue_id), transfer.copy_of(queue_id)}
    origin = (*mine.dead_servers, transfer.server)[0]

    def look() -> dict[str, str]:
        every = ((path, of, (*of.dead_servers, server)[0]) for server, of, path in every_queue(transfer.session))
        paths = [path for path, of, first in every if of.peer_id == mine.peer_id and first == origin and path not in here]
        return {name: path for path in paths for name in children(zk, path) or ()}

    return looked_for(transfer.session, look, operator.or_)


def _unlock(transfer: _Transfer) -> None:
    """Delete the lock, and the server's znode too if no queue of another peer is left there."""
    zk, nodes, fenced, server = transfer.session.zk, transfer.session.nodes, transfer.fenced, transfer.server
    lock = transfer.guards[0]
    for _ in range(TRIES):
        outcome = fenced.write(_unlocking(lock.path, lock.version, _emptied(transfer.session, server)))
        if outcome.refusal is None or read(zk, lock.path) is None:
            return
        expected(outcome.refusal, NoNodeError, NotEmptyError)
    raise QueuesMoving(f"{nodes.queue_server(server)} was changed {TRIES} times while it was being removed; try again later")


def _emptied(session: Session, server: str) -> list[str]:
    """Return the server's znodes to delete, innermost first; none while a queue is left."""
    own, queues = session.nodes.queue_server(server), session.nodes.server_queues(server)
    there = children(session.zk, queues)
    if any(session.nodes.is_queue(name) for name in there or ()):
        return []
    return [own] if there is None or own == queues else [queues, own]


def remove_abandoned_lock(session: Session, server: str, claim: str) -> bool:
    """Remove the lock and the dead server's znode if no queue is left and the lock's owner is dead. Returns whether it did.

    Without a queue no claimer takes the lock over, and HBase never removes the locked znode. `claim` is the owner named in
    Walferry's locks.
    """
    lock = session.nodes.lock(server)
    znode, gone = read(session.zk, lock), _emptied(session, server)
    if znode is None or not gone:
        return False
    owner = decode_lock(znode.value, lock)
    alive = is_held(session.zk, claim) if owner == claim else is_live(session.zk, session.nodes, owner.rpartition("/")[2])
    if alive:
        return False
    multi = session.zk.transaction()
    _unlocking(lock, int(znode.stat.version), gone)(multi)
    return commit(multi) is None


def _unlocking(lock: str, version: int, gone: Sequence[str]) -> Callable[[TransactionRequest], None]:
    def operations(multi: TransactionRequest) -> None:
        multi.delete(lock, version)
        for path in gone:
            multi.delete(path)

    return operations


def _done(fenced: FencedLock, operations: Callable[[TransactionRequest], None], guards: tuple[Guard, ...]) -> bool:
    return expected(fenced.write(operations, guards).refusal, *CHANGED) is None
