"""The lease on a WAL group: its holder moves positions forward, and takes finished WALs out of their queues.

The lease is a fenced lock (base/zk/fenced_lock.py) at <root>/leases/<cluster>/<peer>/<group>. Each write also depends on the
peer's state, which must not have changed since the lease began, so no write is done once the peer is enabled. While a live server
adds to the group, the lease's znode stays and names the last holder. The holder that finishes a dead server's group deletes the
znode; garbage collection deletes the znodes of killed holders (shipping/garbage_collection.py).

A lease is also the right to send the group's edits to the peer cluster (base/zk/right.py). A sender asks `right` before each
request. `release` leaves a note for the next holder: for how long unanswered requests may still take effect. So `release` may be
called at any time.

Below /hbase a lease creates nothing but a serial peer's last pushed ids. It sets these, and positions of queued WALs. It deletes
finished WALs, emptied queues of dead servers, Walferry's own pseudo server when it is empty, and references to bulk-loaded HFiles
that the peer cluster has copied. HBase may
move a queue between any two of our calls. A lease remembers where the group's WALs were read, and writes there. It looks for a
WAL in all queues of the peer only when the WAL is not there any more.
"""

import logging
import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from kazoo.client import TransactionRequest
from kazoo.exceptions import NoNodeError, NotEmptyError

from walferry.base.zk.client import NOT_AS_READ, Refusal, children, expected, read, read_all
from walferry.base.zk.errors import Contention
from walferry.base.zk.fenced_lock import CALLS, TOKEN, FencedLock, Guard, WriteOutcome
from walferry.base.zk.records import delete_fenced
from walferry.base.zk.right import Right, spare_seconds
from walferry.hbase.cluster import is_live
from walferry.hbase.names import QueueId, WalName, as_wal_name, is_file_name, parse_queue_id, parse_wal_name
from walferry.hbase.values import decode_position, encode_position
from walferry.replication.peers.settings import CALL_TIMEOUT
from walferry.replication.queues.dead_servers import WALFERRY_SERVER
from walferry.replication.queues.errors import LastWal, LeaseHeld, LeaseLost, WalGone
from walferry.replication.queues.finding import QueuePlace, find_wal, read_group
from walferry.replication.queues.last_pushed import NO_IDS, IdUpdate, PushedIds
from walferry.replication.queues.reading import Queue
from walferry.replication.source.peer_state import disabled_guard, seconds_disabled
from walferry.replication.source.peers import read_peer
from walferry.replication.source.session import Session

HBASE_CALL_SECONDS = 60.0  # the time limit of a RegionServer's call to a peer cluster, by default
MAX_DIGITS = 11  # of a time in ms, which HBase reads as an int
TRIES = 50  # a try fails if the WAL moves or its position changes between the read and the write

WHY_SETTLING = (
    "it was disabled a moment ago, and calls of its RegionServers that were under way then may still take effect at the peer "
    "cluster"
)

log = logging.getLogger(__name__)


def acquire(
    session: Session, peer_id: str, group: str, holder: str, *, calls_seconds: float = 0.0,
    known: Mapping[str, float] | None = None,
) -> "Lease":  # fmt: skip
    """Become the holder of a WAL group of a disabled peer. `holder` is the name that people see.

    A server may carry out a request of this holder for `calls_seconds`. `known` lists this process's earlier leases, by `token`,
    with the time at which their requests had ended.

    If the peer was disabled a moment ago, this waits until no call of its RegionServers can take effect any more.

    Raises LeaseHeld naming the present holder, EnabledPeer, MissingPeer, ConnectError.
    """
    guard = disabled_guard(session, peer_id)
    lock = lock_of(session, peer_id, group)
    before = lock.acquire(holder, **{CALLS: f"{calls_seconds:.1f}"})
    lock.quiet_at = (known or {}).get(before.get(TOKEN, ""), lock.quiet_at)
    try:
        await_settled(session, peer_id, guard, lock.path)
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


def await_settled(session: Session, peer_id: str, guard: Guard, lock: str) -> None:
    """Wait if the peer was disabled a moment ago. `lock` is the path of a lock just written: it shows ZooKeeper's clock."""
    if guard.version == 0 and session.source.peers_root is None:
        return
    clock = read(session.zk, lock)
    disabled = math.inf if clock is None else seconds_disabled(session, peer_id, clock)
    if disabled == math.inf:
        return  # the peer was removed, or the lock is lost: each write reports it
    pause = settling_seconds(disabled, read_peer(session, peer_id).config)
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


class _NotThere(Exception):
    """The WAL is not where it was last seen."""


@dataclass(frozen=True)
class _Queued:
    """A WAL's znode as last read or written."""

    path: str
    position: int
    version: int


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
        self._zk = session.zk
        self._nodes = session.nodes
        self._fenced = lock
        self._guard = guard
        self.right = Right(self, calls_seconds, lock.quiet_at)
        self._ids = PushedIds(session, peer_id, lambda operations: self._write(operations).refusal)
        self._lock = threading.Lock()
        self._queues: dict[str, str] = {}  # the queue's znode where each WAL was last seen
        self._newest: dict[str, WalName] = {}  # the newest WAL of the group seen in any queue
        self._seen: dict[str, _Queued] = {}
        self._finished = False  # the group's last WAL was removed, and no server adds to the group

    @property
    def lost(self) -> threading.Event:
        """An event that is set as soon as this client knows that the lease is gone, so that shipping can stop."""
        return self._fenced.lost

    @property
    def token(self) -> str:
        """A name of this acquisition."""
        return self._fenced.token

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
            for queue in found:
                self._remember(queue.path, [wal.name for wal in queue.wals])
                for wal in queue.wals:
                    if wal.version is not None and isinstance(wal.position_or_problem, int):
                        self._seen[wal.name.text] = _Queued(wal.path, wal.position_or_problem, wal.version)
        return found

    def list_wals(self, place: QueuePlace) -> frozenset[str]:
        """Return which of the group's WALs lie at `place`. Removing these needs no search."""
        path = self._nodes.queue(place.server, place.queue_id)
        wals = self._mine(children(self._zk, path) or ())
        with self._lock:
            self._remember(path, wals)
        return frozenset(wal.text for wal in wals)

    def register_position(self, wal: str, offset: int, pushed: Mapping[str, int] = NO_IDS) -> None:
        """Move the WAL's position to `offset`, the end of an entry, in the queue that contains the WAL now.

        A position at `offset` or beyond it is not changed. `pushed` are the last sequence ids, by region, that are shipped to a
        serial peer: they are written in the same multi. Raises WalGone, PositionError, ValueError for a WAL of another group.
        """
        self._check_group(wal)
        value = encode_position(offset)
        with self._lock:
            self._fenced.check()
            for _ in range(TRIES):
                seen = self._seen.get(wal) or self._look_up(wal)
                if offset <= seen.position:
                    self._ids.raise_all(pushed)
                    return
                if self._set(seen, value, self._ids.raise_all_but_last(pushed)):
                    self._seen[wal] = replace(seen, position=offset, version=seen.version + 1)
                    return
                del self._seen[wal]
        raise Contention(f"WAL {wal} of peer {self.peer_id} was moved or changed {TRIES} times while its position was being set")

    def remove_wal(self, wal: str, pushed: Mapping[str, int] = NO_IDS) -> bool:
        """Take a finished WAL out of its queue. An emptied queue of a dead server is deleted, too.

        The caller knows that the file is closed and that its last edit is acknowledged. `pushed` is written before, as in
        `register_position`. Returns False if no queue contained the WAL. Raises LastWal if a live server may still write to it,
        ValueError for a WAL of another group.
        """
        self._check_group(wal)
        maybe_ours = False
        with self._lock:
            self._fenced.check()
            self._ids.raise_all(pushed)
            for _ in range(TRIES):
                path = self._place_of(wal)
                if path is None:
                    return maybe_ours
                try:
                    newer = self._newer_wal(path)
                except _NotThere:
                    self._look_further(wal)
                    continue
                outcome = self._write(_deletion(path, newer))
                maybe_ours |= outcome.maybe_before
                self._seen.pop(wal, None)
                if outcome.refusal is None:
                    self._removed(path, newer)
                    return True
                expected(outcome.refusal, NoNodeError)
                if newer is not None and outcome.refusal.operation == 0:  # the newer WAL is gone
                    self._newest.pop(path.rpartition("/")[0], None)
                else:
                    self._look_further(wal)
        raise Contention(f"WAL {wal} of peer {self.peer_id} was moved {TRIES} times while it was being removed")

    def remove_empty_queue(self, queue_path: str) -> bool:
        """Delete a queue of this peer that contains no WALs and gets none; returns whether it is gone now.

        Raises ValueError for a path that is not a queue of this peer.
        """
        server, name = self._nodes.place(queue_path)
        if self._nodes.queue(server, name) != queue_path or parse_queue_id(name).peer_id != self.peer_id:
            raise ValueError(f"{queue_path} is not a queue of peer {self.peer_id} under {self._nodes.queues}")
        with self._lock:
            self._fenced.check()
            if self._is_live(f"{queue_path}/") or children(self._zk, queue_path):
                return False
            self._finished = self._delete_queue(queue_path)
            return self._finished

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
        parent = self._nodes.hfile_refs(self.peer_id)
        for name in names:
            if not is_file_name(name):
                raise ValueError(f"{name!r} is not the name of an HFile")
        paths = [f"{parent}/{name}" for name in names]
        with self._lock:
            self._fenced.check()
            there = [path for path, znode in zip(paths, read_all(self._zk, paths), strict=True) if znode is not None]
            delete_fenced(lambda operations: self._write(operations).refusal, there)

    def release(self) -> None:
        """Give the lease up, so that the next holder need not wait for the session's end. A lost lease may be released, too.

        The next holder sends nothing for as long as unanswered requests of this holder may take effect.

        The znode of a finished group's lease is deleted; if the group is queued again, the next holder creates it again.
        """
        seconds = self.right.end()  # without the lock: a request that is just beginning waits for it
        with self._lock:
            self._fenced.release(forget=self._finished, calls_seconds=seconds)

    def __enter__(self) -> "Lease":
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def _check_group(self, wal: str) -> None:
        group = parse_wal_name(wal).group
        if group != self.group:
            raise ValueError(f"WAL {wal} is of group {group}, and this lease is for group {self.group}")

    def _look_up(self, wal: str) -> _Queued:
        for _ in range(TRIES):
            path = self._place_of(wal)
            if path is None:
                raise WalGone(self.peer_id, wal)
            znode = read(self._zk, path)
            if znode is not None:
                self._seen[wal] = _Queued(path, decode_position(znode.value, path), int(znode.stat.version))
                return self._seen[wal]
            self._look_further(wal)
        raise Contention(f"WAL {wal} of peer {self.peer_id} was moved {TRIES} times while it was being looked up")

    def _place_of(self, wal: str) -> str | None:
        """Return the WAL's znode as last seen, which may have moved since; None if no queue of the peer contains the WAL."""
        if wal not in self._queues:
            self._look_further(wal)
        return f"{self._queues[wal]}/{wal}" if wal in self._queues else None

    def _look_further(self, wal: str) -> None:
        """Look for the WAL in all queues of the peer. Queues move as a whole, so its queue's other WALs should be there too."""
        before = self._queues.pop(wal, None)
        path = find_wal(self._session, self.peer_id, wal)
        if path is None:
            return
        now = path.rpartition("/")[0]
        beside = [other for other, queue in self._queues.items() if queue == before and before != now]
        self._queues |= dict.fromkeys([wal, *beside], now)
        if before is not None and before != now and (newest := self._newest.pop(before, None)) is not None:
            self._newest.setdefault(now, newest)

    def _remember(self, queue: str, wals: Sequence[WalName]) -> None:
        """Note the group's WALs that were seen in a queue."""
        self._queues |= {wal.text: queue for wal in wals}
        if wals:
            self._newest[queue] = max(wals, key=lambda wal: wal.timestamp)

    def _mine(self, names: Iterable[str]) -> list[WalName]:
        """Return the names that are WALs of the group."""
        return [wal for name in names if (wal := as_wal_name(name)) is not None and wal.group == self.group]

    def _write(self, operations: Callable[[TransactionRequest], None]) -> WriteOutcome:
        return self._fenced.write(operations, [self._guard])

    def _set(self, seen: _Queued, value: bytes, ids: Sequence[IdUpdate]) -> bool:
        def operations(multi: TransactionRequest) -> None:
            multi.set_data(seen.path, value, seen.version)
            for update in ids:
                update.add_to(multi)

        return expected(self._write(operations).refusal, *NOT_AS_READ) is None

    def _is_live(self, wal_path: str) -> bool:
        """Return whether a running server adds WALs to this WAL's queue. A dead server never comes back under its name."""
        server, queue_id = self._nodes.place(wal_path.rpartition("/")[0])
        return not parse_queue_id(queue_id).recovered and is_live(self._zk, self._nodes, server)

    def _newer_wal(self, path: str) -> str | None:
        """Return the znode of a newer WAL of the group in the same queue; None if no newer one exists and no server adds any.

        Raises LastWal if a live server may still write to this WAL.
        """
        queue, _, name = path.rpartition("/")
        wal = parse_wal_name(name)
        newest = self._newest.get(queue)
        if newest is None or newest.timestamp <= wal.timestamp:
            if not self._is_live(path):
                return None
            there = self._mine(children(self._zk, queue) or ())
            if wal not in there:
                raise _NotThere
            self._remember(queue, there)
            newest = self._newest[queue]
        if newest.timestamp <= wal.timestamp:
            raise LastWal(path)
        return f"{queue}/{newest.text}"

    def _removed(self, path: str, newer: str | None) -> None:
        """Forget a WAL that was removed. If no server adds to its queue, the queue is deleted once it is empty."""
        queue, _, wal = path.rpartition("/")
        self._queues.pop(wal, None)
        self._finished = False
        if newer is None:
            self._newest.pop(queue, None)
            left = children(self._zk, queue) or []
            mine = self._mine(left)
            self._remember(queue, mine)
            self._finished = not mine
            if not left:
                self._delete_queue(queue)

    def _delete_queue(self, queue: str) -> bool:
        """Delete the queue unless it contains WALs or may get some; delete Walferry's pseudo server with its last queue.

        Returns whether the queue is gone.
        """
        if self._is_being_copied(queue) or not self._deleted_if_empty(queue):
            return False
        if self._nodes.place(queue)[0] == WALFERRY_SERVER:
            self._deleted_if_empty(self._nodes.queue_server(WALFERRY_SERVER))  # a claimer that needs it creates it again
        return True

    def _is_being_copied(self, queue: str) -> bool:
        """Return whether a claim in a classic layout may still copy WALs into the queue: the original queue still exists."""
        queue_id = parse_queue_id(self._nodes.place(queue)[1])
        if not self._nodes.locked or not queue_id.recovered:
            return False
        *before, last = queue_id.dead_servers
        return read(self._zk, self._nodes.queue(last, str(QueueId(queue_id.peer_id, tuple(before))))) is not None

    def _deleted_if_empty(self, path: str) -> bool:
        refusal = expected(self._write(lambda multi: multi.delete(path)).refusal, NoNodeError, NotEmptyError)
        return refusal is None or isinstance(refusal.error, NoNodeError)


def _deletion(path: str, newer: str | None) -> Callable[[TransactionRequest], None]:
    def operations(multi: TransactionRequest) -> None:
        if newer is not None:
            multi.check(newer, -1)
        multi.delete(path)

    return operations
