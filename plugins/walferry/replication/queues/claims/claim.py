"""Claims a dead server's queues, so that HBase does not move them during a drain.

    <root>/claims/<cluster>/<dead server>     the claimer's lock (base/zk/fenced_lock.py), deleted when nothing is left to claim

One claim at a time moves the queues of the peers that Walferry may ship. HBase keeps the queues of other peers. How queues are
moved depends on their layout: see `multi` and `classic`. Each step can be repeated: if a claim is killed between any two writes,
the next try, by the same run or another, continues where it stopped. A retry of the same run does not wait for the killed
attempt's session to end; from then on the killed attempt's writes are refused.

HBase may claim the same queues at the same time. The faster of the two gets them, and each WAL stays in one queue.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from kazoo.client import KazooClient, TransactionRequest
from kazoo.exceptions import NoNodeError

from walferry.base.zk.client import children, delete_unused, expected, read
from walferry.base.zk.errors import ZNodeValueError
from walferry.base.zk.fenced_lock import FencedLock, Guard
from walferry.hbase.cluster import check_layout, is_live
from walferry.hbase.errors import PeerError
from walferry.hbase.names import as_wal_name, parse_queue_id
from walferry.replication.peers.reading import check_shippable
from walferry.replication.queues.claims import classic as claim_classic
from walferry.replication.queues.claims import multi as claim_multi
from walferry.replication.queues.claims.steps import TRIES, Claimer, chunked, claim_hold, delete_if_empty, read_wals
from walferry.replication.queues.dead_servers import WALFERRY_SERVER, RecoveredQueue, shippable_peers
from walferry.replication.queues.errors import LiveServer, QueuesMoving
from walferry.replication.source.peer_state import disabled_guard
from walferry.replication.source.peers import has_peer, read_peer
from walferry.replication.source.session import Session

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Claim:
    """The result of a claim of a dead server's queues."""

    server: str
    moved: int  # the number of queues that this call moved
    left: tuple[str, ...]  # why the queues of other peers were left in place


def claim(
    session: Session, server: str, run_id: str, holder: str, to: str | None = None, refused: Mapping[str, PeerError] | None = None
) -> Claim:
    """Move the dead server's queues to another server's name. Queues that an earlier call moved stay where they are.

    `run_id` identifies the claimer to its own retries; `holder` names it to people. `to` is the server that gets the queues, by
    default Walferry's pseudo server. In the classic layouts it is a live RegionServer, because HBase would take any other name
    for a dead server. Queues of `refused` peers are left in place.

    Raises ClaimHeld while another run, or in the classic layouts a live RegionServer, claims them; LiveServer, NoTarget,
    ClaimLost, StorageError, ConnectError.
    """
    nodes, own = session.nodes, session.own
    if server == WALFERRY_SERVER or is_live(session.zk, nodes, server):
        raise LiveServer(server)
    if nodes.in_table:  # HBase's claims move a row whole, and its WALs are found by their names: there is nothing to hold
        return Claim(server, 0, ())
    refused = refused or {}
    shippable = shippable_peers(session) - set(refused)
    mine, _ = _queues_under(session, server, shippable, refused)
    moved = 0
    if mine or read(session.zk, own.claim(server)) is not None:
        claimer = Claimer(session, server, run_id, holder)
        if nodes.locked:
            moved = claim_classic.claim(claimer, lambda: _guarded(session, server, refused), to)
        else:
            moved = claim_multi.claim(claimer, _guarded(session, server, refused), to or WALFERRY_SERVER)
    return Claim(server, moved, _queues_under(session, server, shippable, refused)[1])


def clean_up(session: Session, server: str) -> list[str]:
    """Remove the znodes of the dead server and of Walferry's pseudo server if they have no queues. Returns what was removed.

    In the classic layouts this also removes a lock that a dead claimer has left there. Raises LiveServer.
    """
    nodes = session.nodes
    removed = []
    if is_live(session.zk, nodes, server):
        raise LiveServer(server)
    if nodes.locked and claim_classic.remove_abandoned_lock(session, server, session.own.claim(server)):
        removed.append(server)
    for name in (server, WALFERRY_SERVER):
        if nodes.server_queues(name) != nodes.queue_server(name):
            _removed_if_empty(session.zk, nodes.server_queues(name))
        if _removed_if_empty(session.zk, nodes.queue_server(name)):
            removed.append(name)
    return removed


def delete_queue(session: Session, queue: RecoveredQueue, holder: str) -> int:
    """Delete a recovered queue of a peer that is gone, with all its WALs; returns how many WALs it contained.

    HBase neither ships such queues nor ever cleans their WALs (HBASE-17077).

    Edits in them that were not shipped will not reach that peer. WALs that the queue has got since it was read are not deleted.
    Raises PeerError if the peer exists, ClaimHeld while the queue is being claimed, QueuesMoving if it changes.
    """
    lock = claim_hold(session.zk, session.own.claim(queue.server), queue.server)
    lock.acquire(holder)
    try:
        return _delete(session, lock, queue)
    finally:
        lock.release(forget=True)


def _removed_if_empty(zk: KazooClient, path: str) -> bool:
    return children(zk, path) == [] and delete_unused(zk, path)


def _guarded(session: Session, server: str, refused: Mapping[str, PeerError]) -> dict[str, Guard]:
    """Return the queues under the dead server that Walferry may claim, by id, each with a guard on its peer."""
    mine, _ = _queues_under(session, server, shippable_peers(session) - set(refused), refused)
    guards = {}
    for queue_id in mine:
        try:
            guards[queue_id] = disabled_guard(session, parse_queue_id(queue_id).peer_id)
        except PeerError as error:  # enabled or removed a moment ago
            log.warning("%s is left: %s", session.nodes.queue(server, queue_id), error)
    return guards


def _queues_under(
    session: Session, server: str, shippable: frozenset[str], refused: Mapping[str, PeerError]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the ids of the queues under a server that Walferry may claim, and why it leaves the others, sorted by name."""
    mine, left = [], []
    names = children(session.zk, session.nodes.server_queues(server)) or ()
    check_layout(session.zk, session.nodes, server, names)
    for name in names:
        if not session.nodes.is_queue(name):
            continue
        try:
            peer_id = parse_queue_id(name).peer_id
            if peer_id in refused:
                raise refused[peer_id]
            if peer_id not in shippable:
                check_shippable(read_peer(session, peer_id))
            mine.append(name)
        except (ValueError, PeerError, ZNodeValueError) as error:
            left.append(f"{session.nodes.queue(server, name)}: {error}")
    return tuple(mine), tuple(left)


def _delete(session: Session, lock: FencedLock, queue: RecoveredQueue) -> int:
    path, deleted = session.nodes.queue(queue.server, queue.queue_id), 0
    for _ in range(TRIES):
        if has_peer(session, queue.peer_id):
            raise PeerError(queue.peer_id, f"it exists, so {path} is not deleted", "Drain the queue, or remove the peer first")
        names = children(session.zk, path)
        if names is None:
            return deleted
        if new := sorted(filter(as_wal_name, set(names).difference(queue.wals))):
            raise QueuesMoving(f"{path} has got {new[0]} since it was looked at; try again later")
        for chunk in chunked(read_wals(session.zk, path, names), len(path)):

            def operations(multi: TransactionRequest, names: tuple[str, ...] = tuple(wal.name for wal in chunk)) -> None:
                for name in names:
                    multi.delete(f"{path}/{name}")

            if not chunk or expected(lock.write(operations).refusal, NoNodeError) is None:
                deleted += len(chunk)
        delete_if_empty(lock, path)
    raise QueuesMoving(f"{path} was changed {TRIES} times while it was being deleted; try again later")
