"""Writes to the queues of one WAL group in ZooKeeper.

Below /hbase this creates nothing but a serial peer's last pushed ids. It sets these, and positions of queued WALs. It deletes
finished WALs, emptied queues of dead servers, Walferry's own pseudo server when it is empty, and references to bulk-loaded HFiles
that the peer cluster has copied. HBase may move a queue between any two of our calls. So a WAL is written where it was last seen,
and looked for in all queues of the peer only when it is not there any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from kazoo.client import TransactionRequest
from kazoo.exceptions import NoNodeError, NotEmptyError

from walferry.base.zk.client import NOT_AS_READ, children, expected, read, read_all
from walferry.base.zk.errors import Contention
from walferry.base.zk.fenced_lock import WriteOutcome
from walferry.base.zk.records import delete_fenced
from walferry.hbase.cluster import is_live
from walferry.hbase.names import QueueId, WalName, as_wal_name, parse_queue_id, parse_wal_name
from walferry.hbase.values import decode_position, encode_position
from walferry.replication.queues.dead_servers import WALFERRY_SERVER
from walferry.replication.queues.errors import LastWal, WalGone
from walferry.replication.queues.finding import find_wal
from walferry.replication.queues.last_pushed import NO_IDS, IdUpdate, PushedIds
from walferry.replication.queues.queue import Queue, QueuedWal, QueuePlace
from walferry.replication.source.session import Session

TRIES = 50  # a try fails if the WAL moves or its position changes between the read and the write

Write = Callable[[Callable[[TransactionRequest], None]], WriteOutcome]


class _NotThere(Exception):
    """The WAL is not where it was last seen."""


@dataclass(frozen=True)
class _Queued:
    """A WAL's znode as last read or written."""

    path: str
    position: int
    version: int


class ZNodeWrites:
    """The writes of a lease's holder. `write` carries out operations in one multi, which fails once the lease is lost."""

    def __init__(self, session: Session, peer_id: str, group: str, write: Write) -> None:
        self._session = session
        self._zk = session.zk
        self._nodes = session.nodes
        self._peer_id = peer_id
        self._group = group
        self._write = write
        self._ids = PushedIds(session, peer_id, lambda operations: write(operations).refusal)
        self._queues: dict[str, str] = {}  # the queue's znode where each WAL was last seen
        self._newest: dict[str, WalName] = {}  # the newest WAL of the group seen in any queue
        self._seen: dict[str, _Queued] = {}
        self.finished = False  # the group's last WAL was removed, and no server adds to the group

    def saw(self, queues: Sequence[Queue]) -> None:
        """Note where the group's WALs are now."""
        for queue in queues:
            self._remember(queue.path, [wal.name for wal in queue.wals])
            for wal in queue.wals:
                if wal.version is not None and isinstance(wal.position_or_problem, int):
                    self._seen[wal.name.text] = _Queued(wal.path, wal.position_or_problem, wal.version)

    def list_wals(self, place: QueuePlace) -> frozenset[str]:
        """Return which of the group's WALs lie at `place`. Removing these needs no search."""
        path = self._nodes.queue(place.server, place.queue_id)
        wals = self._mine(children(self._zk, path) or ())
        self._remember(path, wals)
        return frozenset(wal.text for wal in wals)

    def register_position(self, wal: str, offset: int, pushed: Mapping[str, int] = NO_IDS) -> None:
        """Move the WAL's position to `offset`: see `Lease.register_position`."""
        value = encode_position(offset)
        for _ in range(TRIES):
            seen = self._seen.get(wal) or self._look_up(wal)
            if offset <= seen.position:
                self._ids.raise_all(pushed)
                return
            if self._set(seen, value, self._ids.raise_all_but_last(pushed)):
                self._seen[wal] = replace(seen, position=offset, version=seen.version + 1)
                return
            del self._seen[wal]
        raise Contention(f"WAL {wal} of peer {self._peer_id} was moved or changed {TRIES} times while its position was being set")

    def set_position(self, wal: QueuedWal, to: int) -> bool:
        """Set a WAL's position for an operator, also to a smaller one. Returns False if the WAL was moved or changed."""

        def operations(multi: TransactionRequest) -> None:
            multi.set_data(wal.path, encode_position(to) if to else b"", wal.version)

        return expected(self._write(operations).refusal, *NOT_AS_READ) is None

    def remove_wal(self, wal: str, pushed: Mapping[str, int] = NO_IDS) -> bool:
        """Take a finished WAL out of its queue: see `Lease.remove_wal`."""
        maybe_ours = False
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
        raise Contention(f"WAL {wal} of peer {self._peer_id} was moved {TRIES} times while it was being removed")

    def remove_empty_queue(self, server: str, queue_id: str) -> bool:
        """Delete a queue that contains no WALs and gets none; returns whether it is gone now."""
        path = self._nodes.queue(server, queue_id)
        if self._is_live(f"{path}/") or children(self._zk, path):
            return False
        self.finished = self._delete_queue(path)
        return self.finished

    def remove_hfile_refs(self, names: Sequence[str]) -> None:
        """Delete references to bulk-loaded HFiles. References that are already gone are skipped."""
        paths = [f"{self._nodes.hfile_refs(self._peer_id)}/{name}" for name in names]
        there = [path for path, znode in zip(paths, read_all(self._zk, paths), strict=True) if znode is not None]
        delete_fenced(lambda operations: self._write(operations).refusal, there)

    def close(self) -> None:
        """Nothing is open."""

    def _look_up(self, wal: str) -> _Queued:
        for _ in range(TRIES):
            path = self._place_of(wal)
            if path is None:
                raise WalGone(self._peer_id, wal)
            znode = read(self._zk, path)
            if znode is not None:
                self._seen[wal] = _Queued(path, decode_position(znode.value, path), int(znode.stat.version))
                return self._seen[wal]
            self._look_further(wal)
        raise Contention(f"WAL {wal} of peer {self._peer_id} was moved {TRIES} times while it was being looked up")

    def _place_of(self, wal: str) -> str | None:
        """Return the WAL's znode as last seen, which may have moved since; None if no queue of the peer contains the WAL."""
        if wal not in self._queues:
            self._look_further(wal)
        return f"{self._queues[wal]}/{wal}" if wal in self._queues else None

    def _look_further(self, wal: str) -> None:
        """Look for the WAL in all queues of the peer. Queues move as a whole, so its queue's other WALs should be there too."""
        before = self._queues.pop(wal, None)
        path = find_wal(self._session, self._peer_id, wal)
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
        return [wal for name in names if (wal := as_wal_name(name)) is not None and wal.group == self._group]

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
        self.finished = False
        if newer is None:
            self._newest.pop(queue, None)
            left = children(self._zk, queue) or []
            mine = self._mine(left)
            self._remember(queue, mine)
            self.finished = not mine
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
