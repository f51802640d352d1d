"""The lease on a WAL group: its holder moves positions forward, and takes finished WALs out of their queues.

The lease is a fenced lock (base/zk/fenced_lock.py) at <root>/leases/<cluster>/<peer>/<group>. Each write also depends on the
peer's state, which must not have changed since the lease began, so no write is done once the peer is enabled. While a live server
adds to the group, the lease's znode stays and names the last holder. The holder that finishes a dead server's group deletes the
znode; garbage collection deletes the znodes of killed holders (shipping/garbage_collection.py).

A lease is also the right to send the group's edits to the peer cluster (base/zk/right.py). A sender asks `right` before each
request. `release` leaves a note for the next holder: for how long unanswered requests may still take effect. So `release` may be
called at any time.

Queues lie in ZooKeeper (znode_writes.py), or in a table of HBase 3 (table_writes.py).
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from kazoo.client import TransactionRequest

from walferry.base.zk.client import Refusal, read
from walferry.base.zk.fenced_lock import CALLS, TOKEN, FencedLock, Guard, WriteOutcome
from walferry.base.zk.right import Right, spare_seconds
from walferry.hbase.names import ServerName, is_file_name, parse_queue_id, parse_wal_name
from walferry.replication.peers.settings import CALL_TIMEOUT
from walferry.replication.queues.errors import LeaseHeld, LeaseLost, PeerSettling
from walferry.replication.queues.finding import read_group
from walferry.replication.queues.last_pushed import NO_IDS
from walferry.replication.queues.queue import Queue, QueuedWal, QueuePlace
from walferry.replication.queues.znode_writes import ZNodeWrites
from walferry.replication.source.peer_state import disabled_guard, seconds_disabled
from walferry.replication.source.peers import read_peer
from walferry.replication.source.session import Session

HBASE_CALL_SECONDS = 60.0  # the time limit of a RegionServer's call to a peer cluster, by default
MAX_DIGITS = 11  # of a time in ms, which HBase reads as an int

WHY_SETTLING = (
    "it was disabled a moment ago, and calls of its RegionServers that were under way then may still take effect at the peer "
    "cluster"
)

if TYPE_CHECKING:
    from walferry.replication.queues.table_writes import TableWrites

log = logging.getLogger(__name__)


def acquire(
    session: Session, peer_id: str, group: str, holder: str, *, calls_seconds: float = 0.0,
    known: Mapping[str, float] | None = None, wait: bool = True,
) -> Lease:  # fmt: skip
    """Become the holder of a WAL group of a disabled peer. `holder` is the name that people see.

    A server may carry out a request of this holder for `calls_seconds`. `known` lists this process's earlier leases, by `token`,
    with the time at which their requests had ended.

    If the peer was disabled a moment ago, this waits until no call of its RegionServers can take effect any more. Without `wait`
    it raises PeerSettling instead.

    Raises LeaseHeld naming the present holder, EnabledPeer, MissingPeer, ConnectError.
    """
    guard = disabled_guard(session, peer_id)
    lock = lock_of(session, peer_id, group)
    before = lock.acquire(holder, **{CALLS: f"{calls_seconds:.1f}"})
    lock.quiet_at = (known or {}).get(before.get(TOKEN, ""), lock.quiet_at)
    try:
        await_settled(session, peer_id, guard, lock.path, wait=wait)
    except BaseException:
        lock.release()
        raise
    return Lease(session, peer_id, group, lock, guard, calls_seconds)


def lock_of(session: Session, peer_id: str, group: str) -> FencedLock:
    """Return the lock behind a lease, not acquired."""
    return FencedLock(
        session.zk,
        session.own.lease(peer_id, group),
        lambda other, since: LeaseHeld(peer_id, group, other, since),
        lambda why: LeaseLost(peer_id, group, why),
    )


def await_settled(session: Session, peer_id: str, guard: Guard, lock: str, *, wait: bool = True) -> None:
    """Wait if the peer was disabled a moment ago. `lock` is the path of a lock just written: it shows ZooKeeper's clock.

    Without `wait`, raise PeerSettling.
    """
    if guard.version == 0 and session.source.peers_root is None:
        return
    clock = read(session.zk, lock)
    disabled = math.inf if clock is None else seconds_disabled(session, peer_id, clock)
    if disabled == math.inf:
        return  # the peer was removed, or the lock is lost: each write reports it
    pause = settling_seconds(disabled, read_peer(session, peer_id).config)
    if pause > 0 and not wait:
        raise PeerSettling(f"peer {peer_id}: {WHY_SETTLING}", f"Wait for {pause:.0f} s")
    if pause > 0:
        log.info("peer %s: waiting %.0f s: %s", peer_id, pause, WHY_SETTLING)
        time.sleep(pause)


def settling_seconds(disabled: float, config: Mapping[str, str]) -> float:
    """Return for how many seconds calls of RegionServers may still take effect at the cluster of a peer, `disabled` seconds after
    it was DISABLED.

    HBase looks at the peer's state before each call, and a call under way goes on: for HBASE_CALL_SECONDS, or for the timeout in
    the peer's configuration if that is longer (ReplicationSourceShipper of 2.x; in 1.x it is hbase.rpc.timeout), and then for as
    long as our own requests may take effect after their timeout (base/zk/right.py).
    """
    text = config.get(CALL_TIMEOUT, "").strip()
    call = max(HBASE_CALL_SECONDS, int(text) / 1000 if text.isascii() and text.isdigit() and len(text) < MAX_DIGITS else 0.0)
    whole = call + spare_seconds(call)
    return min(whole, whole - disabled)


class Lease:
    """One holder's writes to the queues of one WAL group. Methods may be called from any thread.

    All of them raise LeaseLost once the lease is gone, EnabledPeer or MissingPeer when the peer was enabled or removed in the
    meantime, and ConnectError when ZooKeeper stays away.
    """

    def __init__(
        self, session: Session, peer_id: str, group: str, lock: FencedLock, guard: Guard, calls_seconds: float = 0.0
    ) -> None:
        self.peer_id = peer_id
        self.group = group
        self._session = session
        self._fenced = lock
        self._guard = guard
        self.right = Right(self, calls_seconds, lock.quiet_at)
        self._lock = threading.Lock()
        self._queues = _writes(session)(session, peer_id, group, self._write)

    @property
    def lost(self) -> threading.Event:
        """An event that is set as soon as this client knows that the lease is gone, so that shipping can stop."""
        return self._fenced.lost

    @property
    def token(self) -> str:
        """A name of this acquisition."""
        return self._fenced.token

    @property
    def one_offset(self) -> bool:
        """Whether the queue keeps one offset a group: then a WAL cannot stay queued once a later one is registered."""
        return self._session.nodes.in_table

    def is_sure(self) -> bool:
        """Return whether this client certainly has the lease now. Does not look at the peer's state."""
        return self._fenced.is_sure()

    def allow(self, seconds: float) -> None:
        """Note that a server may carry out requests of this holder for `seconds`."""
        with self._lock:
            self._fenced.note(**{CALLS: f"{seconds:.1f}"})

    @property
    def peer_state(self) -> tuple[str, int]:
        """The znode of the peer's state, and its version while the peer stays DISABLED."""
        return self._guard.path, self._guard.version

    def read(self, place: QueuePlace | None = None) -> list[Queue]:
        """Return the queues that contain WALs of the group, with only these WALs.

        There is one queue, unless the group is just moving. If `place` contains the whole group, no other queue is read. Raises
        StorageError, QueuesMoving.
        """
        found = read_group(self._session, self.peer_id, self.group, place)
        with self._lock:
            self._queues.saw(found)
        return found

    def list_wals(self, place: QueuePlace) -> frozenset[str]:
        """Return which of the group's WALs lie at `place`. Removing these needs no search."""
        with self._lock:
            return self._queues.list_wals(place)

    def register_position(self, wal: str, offset: int, pushed: Mapping[str, int] = NO_IDS) -> None:
        """Move the WAL's position to `offset`, the end of an entry, in the queue that contains the WAL now.

        A position at `offset` or beyond it is not changed. `pushed` are the last sequence ids, by region, that are shipped to a
        serial peer: they are written in the same multi. Raises WalGone, PositionError, ValueError for a WAL of another group.
        """
        self._check_group(wal)
        with self._lock:
            self._fenced.check()
            self._queues.register_position(wal, offset, pushed)

    def set_position(self, wal: QueuedWal, to: int) -> bool:
        """Set a WAL's position for an operator, also to a smaller one. Returns False if the WAL was moved or changed."""
        self._check_group(wal.name.text)
        with self._lock:
            self._fenced.check()
            return self._queues.set_position(wal, to)

    def remove_wal(self, wal: str, pushed: Mapping[str, int] = NO_IDS) -> bool:
        """Take a finished WAL out of its queue. An emptied queue of a dead server is deleted, too.

        The caller knows that the file is closed and that its last edit is acknowledged. `pushed` is written before, as in
        `register_position`. Returns False if no queue contained the WAL. Raises LastWal if a live server may still write to it,
        ValueError for a WAL of another group.
        """
        self._check_group(wal)
        with self._lock:
            self._fenced.check()
            return self._queues.remove_wal(wal, pushed)

    def remove_empty_queue(self, server: str, queue_id: str) -> bool:
        """Delete a queue of this peer that contains no WALs and gets none; returns whether it is gone now.

        Raises ValueError for a name that is not a server's, or not that of a queue of this peer.
        """
        if parse_queue_id(queue_id).peer_id != self.peer_id:
            raise ValueError(f"{server}/{queue_id} is not a queue of peer {self.peer_id}")
        ServerName.parse(server)
        with self._lock:
            self._fenced.check()
            return self._queues.remove_empty_queue(server, queue_id)

    def write(self, operations: Callable[[TransactionRequest], None]) -> Refusal | None:
        """Write something of Walferry's own in one multi that is carried out only while this is the holder.

        The multi is repeated while its outcome is unknown. Returns the first refused operation.
        """
        with self._lock:
            return self._write(operations).refusal

    def remove_hfile_refs(self, names: Sequence[str]) -> None:
        """Let HBase clean these bulk-loaded HFiles as far as this peer is concerned: the peer cluster has their cells.

        References that are already gone are skipped. Raises ValueError for a name that a file cannot have.
        """
        for name in names:
            if not is_file_name(name):
                raise ValueError(f"{name!r} is not the name of an HFile")
        with self._lock:
            self._fenced.check()
            self._queues.remove_hfile_refs(names)

    def release(self) -> None:
        """Give the lease up, so that the next holder need not wait for the session's end. A lost lease may be released, too.

        The next holder sends nothing for as long as unanswered requests of this holder may take effect.

        The znode of a finished group's lease is deleted; if the group is queued again, the next holder creates it again.
        """
        seconds = self.right.end()  # without the lock: a request that is just beginning waits for it
        with self._lock:
            self._fenced.release(forget=self._queues.finished, calls_seconds=seconds)
            self._queues.close()

    def __enter__(self) -> Lease:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def _check_group(self, wal: str) -> None:
        group = parse_wal_name(wal).group
        if group != self.group:
            raise ValueError(f"WAL {wal} is of group {group}, and this lease is for group {self.group}")

    def _write(self, operations: Callable[[TransactionRequest], None]) -> WriteOutcome:
        return self._fenced.write(operations, [self._guard])


def _writes(session: Session) -> type[ZNodeWrites] | type[TableWrites]:
    """Return what writes to the queues of this source."""
    if not session.nodes.in_table:
        return ZNodeWrites
    from walferry.replication.queues.table_writes import TableWrites  # it imports numpy, so only where it is used

    return TableWrites
