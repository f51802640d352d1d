"""Claiming in the layouts of HBase 0.98 to 1.x without multi: lock, copy, delete (ReplicationQueuesZKImpl.claimQueue).

    create <dead>/lock                      PBUF ReplicationLock; whoever has it claims, RegionServers and Walferry alike
    { create <to>/<queue>-<dead>, and in it a copy of each WAL }*          all queues, one at a time
    { delete <dead>/<queue>/<wal>, <dead>/<queue> }*
    delete <dead>/lock, <dead>

`to` is a live RegionServer, which knows nothing of the copies and so ships nothing of them. Any other server would be taken for
a dead one by the next RegionServer that starts, and its queues be moved on. Each of our writes depends on `to` being alive: when
it dies in the middle, nobody has begun to claim from it yet, and another one is chosen.

A lock whose owner is a dead RegionServer is taken over (HBASE-2611, HBASE-16144: with HBase alone its queues were stuck). What
that server had copied already lies under its own znode, to be claimed from there. So a WAL that is queued elsewhere for its peer
is not copied again, only taken out here: each WAL ends in one queue.

Between copying and deleting, the child version of replication/rs is changed, by which HBase's log cleaner notices that WALs were
moved while it was reading.
"""

import logging
import operator
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kazoo.client import TransactionRequest
from kazoo.exceptions import NodeExistsError, NoNodeError, NotEmptyError

from walferry.errors import WalferryError
from walferry.hbase.cluster import is_live, live_servers
from walferry.hbase.errors import ClusterError, PeerError
from walferry.hbase.layout import ZNodes
from walferry.hbase.values import decode_lock, decode_position, decode_server_version, encode_lock
from walferry.names import parse_queue_id
from walferry.queues.claims.steps import (
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
from walferry.queues.errors import ClaimHeld, ClaimLost, NoTarget, QueuesMoving
from walferry.queues.reading import looked_for, peer_queues
from walferry.source.session import Session
from walferry.zk.client import children, commit, read
from walferry.zk.hold import Guard, Hold, is_held, read_record

log = logging.getLogger(__name__)

LOCK_WAIT_SECONDS = 60.0  # for a live RegionServer that is claiming: it holds the lock for one queue at a time
LOCK_POLL_SECONDS = 0.1
TARGETS = 5  # live servers that are tried, as each of them may die


class _TargetDied(WalferryError):
    """The server that was to get the queues died."""


@dataclass(frozen=True)
class _Transfer:
    """One claimer's work on one dead server, with the lock."""

    session: Session
    hold: Hold
    server: str
    to: str
    guards: tuple[Guard, ...]  # the lock is ours, and `to` is alive

    def copy_of(self, queue_id: str) -> str:
        return self.session.nodes.queue(self.to, str(parse_queue_id(queue_id).claimed_from(self.server)))


def claim(claimer: Claimer, queues: Callable[[], Mapping[str, Guard]], to: str | None) -> int:
    """Move the queues that `queues()` names once the lock is ours; how many. Raises as claims.claim."""
    session, server = claimer.session, claimer.server
    _check_classic(session)
    for _ in range(TARGETS):
        target = to or _target(session, server, read_record(session.zk, claimer.path).get("to"))
        try:
            with claimer.holding(target) as hold:
                return _claim(session, hold, server, target, queues)
        except _TargetDied:
            if to is not None:
                raise
            log.warning("%s died while it was getting the queues of %s; taking another server", target, server)
    raise NoTarget(server)


def _claim(
    session: Session, hold: Hold, server: str, to: str, queues: Callable[[], Mapping[str, Guard]]
) -> int:
    alive = Guard(f"{session.nodes.rs}/{to}", -1, lambda: _TargetDied(f"{to} is dead"))
    lock = _take_lock(session, hold, server, alive)
    if lock is None:
        return 0
    transfer = _Transfer(session, hold, server, to, (lock, alive))
    copied: dict[str, Guard] = {}
    for queue_id, guard in queues().items():
        try:
            _copy(transfer, guard, queue_id)
            copied[queue_id] = guard
        except PeerError as error:
            log.warning("%s is left: %s", session.nodes.queue(server, queue_id), error)
    moved = 0
    for queue_id, guard in copied.items():
        moved += _delete(transfer, guard, queue_id)
    _unlock(transfer)
    return moved


def _check_classic(session: Session) -> None:
    """In 2.x a lock would be taken for a queue, and the dead server's crash procedure would never end."""
    for name in live_servers(session.zk, session.nodes):
        znode = read(session.zk, f"{session.nodes.rs}/{name}")
        version = decode_server_version(znode.value, f"{session.nodes.rs}/{name}") if znode else None
        if version is not None and not version.startswith(("0.", "1.")):
            raise ClusterError(
                f"{name} runs HBase {version}, which has no lock on queues, but the connection's queue_layout is "
                f"{session.nodes.layout}: set it to 2.x"
            )


def _target(session: Session, server: str, before: str | None) -> str:
    """The live server that gets the queues: the one that has some of them already, or any."""
    live = sorted(map(str, live_servers(session.zk, session.nodes)))
    if not live:
        raise NoTarget(server)
    return before if before in live else random.choice(live)


def _take_lock(session: Session, hold: Hold, server: str, alive: Guard) -> Guard | None:
    """What every later write depends on; None if the server has no znode any more, so nothing is left to claim."""
    path, give_up = session.nodes.lock(server), time.monotonic() + LOCK_WAIT_SECONDS
    while True:
        znode = read(session.zk, path)
        if znode is None:
            refusal = hold.write(lambda multi: multi.create(path, encode_lock(hold.path)), [alive]).refusal
            if refusal is not None and isinstance(refusal.error, NoNodeError):
                return None
            if refusal is not None and not isinstance(refusal.error, NodeExistsError):
                raise refusal.error
            continue
        owner, version = decode_lock(znode.value, path), int(znode.stat.version)
        if owner == hold.path:
            return Guard(path, version, lambda: ClaimLost(server, f"its lock {path} was taken away by somebody"))
        who = owner.rpartition("/")[2]
        if is_live(session.zk, session.nodes, who):
            if time.monotonic() > give_up:
                raise ClaimHeld(server, f"RegionServer {who}", _when(znode.stat.mtime))
            time.sleep(LOCK_POLL_SECONDS)
            continue
        log.warning("%s is locked by %s, which is dead: taking it over", server, who)
        refusal = hold.write(_taking_over(path, version, hold.path), [alive]).refusal
        if refusal is not None and not isinstance(refusal.error, CHANGED):
            raise refusal.error


def _taking_over(lock: str, version: int, owner: str) -> Callable[[TransactionRequest], None]:
    return lambda multi: multi.set_data(lock, encode_lock(owner), version)


def _when(mtime_ms: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(mtime_ms / 1000))


def _copy(transfer: _Transfer, guard: Guard, queue_id: str) -> None:
    """Copy the queue's WALs that are neither there yet nor queued elsewhere."""
    nodes, hold, zk = transfer.session.nodes, transfer.hold, transfer.session.zk
    old, new = nodes.queue(transfer.server, queue_id), transfer.copy_of(queue_id)
    for _ in range(TRIES):
        names = children(zk, old)
        there = children(zk, new)
        elsewhere = _elsewhere(transfer, queue_id)
        todo = [name for name in names or () if name not in (there or ()) and name not in elsewhere]
        if not todo:
            return
        create_if_missing(zk, hold, nodes.queue_server(transfer.to))
        create_if_missing(zk, hold, nodes.server_queues(transfer.to))
        for number, chunk in enumerate(chunked(read_wals(zk, old, todo), len(new))):
            copying = _copying(old, new, chunk, create=there is None and number == 0)
            if not _done(hold, copying, (*transfer.guards, guard)):
                break
    raise QueuesMoving(f"{old} was changed {TRIES} times while it was being copied; try again later")


def _delete(transfer: _Transfer, guard: Guard, queue_id: str) -> bool:
    """Delete the queue, each WAL only while it is queued elsewhere. False if it was gone already."""
    nodes, hold, zk = transfer.session.nodes, transfer.hold, transfer.session.zk
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
            if chunk and not _done(hold, _deleting(nodes, old, new, chunk, copies, elsewhere), (*transfer.guards, guard)):
                break
        else:
            delete_if_empty(hold, old)
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
    """Delete `wals`, each while it stays queued in our copy, at the position that it has by now, or elsewhere."""

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
    """-1 for a position that cannot be read: it stays as it is, and stops its queue when it is shipped."""
    try:
        return decode_position(value, znode)
    except WalferryError:
        return -1


def _elsewhere(transfer: _Transfer, queue_id: str) -> dict[str, str]:
    """The queues in which WALs of the queue's peer lie besides this one and our copy, by WAL.

    What is gone since it was looked at is refused when a write depends on it.
    """
    zk, nodes = transfer.session.zk, transfer.session.nodes
    here = {nodes.queue(transfer.server, queue_id), transfer.copy_of(queue_id)}

    def look() -> dict[str, str]:
        paths = [path for _, _, path in peer_queues(transfer.session, parse_queue_id(queue_id).peer_id) if path not in here]
        return {name: path for path in paths for name in children(zk, path) or ()}

    return looked_for(transfer.session, look, operator.or_)


def _unlock(transfer: _Transfer) -> None:
    """Give the lock up, and the server's znode with it if no queue of another peer is left there."""
    zk, nodes, hold, server = transfer.session.zk, transfer.session.nodes, transfer.hold, transfer.server
    lock = transfer.guards[0]
    for _ in range(TRIES):
        outcome = hold.write(_unlocking(lock.path, lock.version, _emptied(transfer.session, server)))
        if outcome.refusal is None or read(zk, lock.path) is None:
            return
        if not isinstance(outcome.refusal.error, (NoNodeError, NotEmptyError)):
            raise outcome.refusal.error
    raise QueuesMoving(f"{nodes.queue_server(server)} was changed {TRIES} times while it was being removed; try again later")


def _emptied(session: Session, server: str) -> list[str]:
    """The server's znodes that are to go, innermost first: none while a queue is there."""
    own, queues = session.nodes.queue_server(server), session.nodes.server_queues(server)
    there = children(session.zk, queues)
    if any(session.nodes.is_queue(name) for name in there or ()):
        return []
    return [own] if there is None or own == queues else [queues, own]


def remove_abandoned_lock(session: Session, server: str, claim: str) -> bool:
    """Remove the lock, and the dead server's znode with it, if nothing else is there and its owner is dead; whether it did.

    Without queues nobody takes such a lock over, and with it HBase never removes the znode. `claim` is what our locks name.
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


def _done(hold: Hold, operations: Callable[[TransactionRequest], None], guards: tuple[Guard, ...]) -> bool:
    refusal = hold.write(operations, guards).refusal
    if refusal is not None and not isinstance(refusal.error, CHANGED):
        raise refusal.error
    return refusal is None
