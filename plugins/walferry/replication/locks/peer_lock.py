"""The peer lock: the right to ship a peer, which one run at a time holds.

    <root>/peer-locks/<quoted znode parent>/<quoted peer>     a fenced lock (base/zk/fenced_lock.py); its version counts the turns

Batches overlap, so that a slow peer does not delay the others. A run that finds a peer locked by another run leaves the peer to
that run. The peer lock only keeps runs out of each other's way; the lease on each WAL group keeps the edits safe.

Tasks that ship rows of scans have no lease. They run on different machines, with their own sessions. So each has a fenced lock,

    <root>/row-shipments/<quoted znode parent>/<quoted peer>/<quoted name>

whose record says for how long the task's requests may take effect. The task sends only while it holds this lock, the run's
attempt holds the peer lock, and the peer stays disabled. It reads rows once it holds the lock, and they must not arrive after
later edits of these rows that HBase ships.

    a task that replaces a killed task, under the same name                waits for the killed task's requests
    the next run that holds the peer lock                                  waits for the requests of all earlier tasks

A task that succeeds, with all its requests answered, deletes its lock. Otherwise the next holder of the peer lock does.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from walferry.base.errors import WalferryError
from walferry.base.zk.client import children, delete_unused, read, read_all
from walferry.base.zk.errors import ConnectError, Contention
from walferry.base.zk.fenced_lock import CALLS, FencedLock, Guard, Record, calls_left, read_record, record_of
from walferry.base.zk.right import Right
from walferry.hbase.layout import quoted
from walferry.replication.source.cluster import SourceCluster
from walferry.replication.source.peer_state import disabled_guard
from walferry.replication.source.session import Session, open_session

NO_TURN = -1  # no run has ever held the peer lock
LOOK_SECONDS = 1.0
JOIN_SECONDS = 5.0

log = logging.getLogger(__name__)


class PeerLocked(WalferryError):
    """Another run ships the peer, or has shipped it since this run read its queues; `holder` names that run."""

    def __init__(self, peer_id: str, holder: str, since: str, *, now: bool = True) -> None:
        has = "has held it since" if now else "has shipped it since this plan was made, beginning at"
        super().__init__(f"peer {peer_id} is left to {holder}, which {has} {since}")
        self.holder = holder


class RightLost(WalferryError):
    """This run no longer holds the peer lock."""


@dataclass(frozen=True)
class Turn:
    """The state of a peer lock: the number of turns so far, the other run that holds it now, and the last holder's record."""

    number: int
    other: PeerLocked | None
    last: Record = field(default_factory=dict)


def turn_of(session: Session, peer_id: str, run: str) -> Turn:
    """Read the peer lock without taking it. A session left by a killed task of `run` does not count as another run."""
    path = session.own.peer_lock(peer_id)
    znode = read(session.zk, path)
    if znode is None:
        return Turn(NO_TURN, None)
    held = bool(children(session.zk, path))
    record = read_record(session.zk, path)
    other = PeerLocked(peer_id, *_who_and_since(record)) if held and record.get("run") != run else None
    return Turn(int(znode.stat.version), other, record)


def turn_of_attempt(session: Session, peer_id: str, attempt: str) -> int | None:
    """Return the number of the peer's last turn if this attempt took it (see `holding_peer`); None if another attempt did."""
    znode = read(session.zk, session.own.peer_lock(peer_id))
    if znode is None or record_of(znode.value).get("attempt") != attempt:
        return None
    return int(znode.stat.version)


@contextmanager
def holding_peer(source: SourceCluster, peer_id: str, run: str, holder: str, planned: int) -> Iterator[str]:
    """Hold the peer lock while the block runs; `planned` is the turn that the run's plan has seen.

    Yields a name for this attempt of the run, by which other processes recognize the holder. `holder` names the run to people.

    A session left by a killed task of the same run is ended. If our own session ends in the meantime, this takes the lock again
    as soon as ZooKeeper answers, unless another attempt has held it since: then data that this attempt has read during its turn,
    to be sent later, may be out of date. Raises PeerLocked, ConnectError.
    """
    with open_session(source) as session:
        right = PeerLock(session, peer_id, run, holder)
        right.take(planned)
        try:
            await_rows(session, peer_id)
            yield right.attempt
        finally:
            right.give_up()


@contextmanager
def holding_peer_after_others(
    source: SourceCluster, peer_id: str, run: str, holder: str, *, wait_seconds: float, waiting: Callable[[str], None],
) -> Iterator[str]:  # fmt: skip
    """Wait for the run that holds the peer lock now, then hold the lock while the block runs. `waiting` gets the reason.

    Raises PeerLocked after `wait_seconds`, ConnectError.
    """
    give_up = time.monotonic() + wait_seconds
    reported = ""
    with ExitStack() as stack:
        while True:
            with open_session(source, look_only=True) as session:
                planned = turn_of(session, peer_id, run).number
            try:
                attempt = stack.enter_context(holding_peer(source, peer_id, run, holder, planned))
                break
            except PeerLocked as error:
                if time.monotonic() > give_up:
                    raise
                if str(error) != reported:
                    reported = str(error)
                    waiting(reported)
            time.sleep(LOOK_SECONDS)
        yield attempt


def lock_of(session: Session, peer_id: str) -> FencedLock:
    """Return the lock behind the peer lock, not acquired."""
    return FencedLock(
        session.zk,
        session.own.peer_lock(peer_id),
        lambda holder, since: PeerLocked(peer_id, holder, since),
        lambda why: RightLost(f"this run no longer holds the lock of peer {peer_id}: {why}"),
    )


def has_rows(session: Session, peer_id: str) -> bool:
    """Return whether the next holder may have to wait for requests of an earlier holder's row tasks."""
    return bool(children(session.zk, session.own.row_shipments(peer_id)))


def await_rows(session: Session, peer_id: str) -> None:
    """Wait until no request of an earlier holder's row tasks can take effect any more, and forget these tasks.

    Only the holder of the peer lock may call this: an earlier holder's task that begins now sees that its run has lost the lock.
    """
    folder = session.own.row_shipments(peer_id)
    paths = [f"{folder}/{name}" for name in children(session.zk, folder) or ()]
    if not paths:
        return
    clock = read(session.zk, session.own.peer_lock(peer_id))  # written a moment ago
    seconds = max((calls_left(left, clock) for left in read_all(session.zk, paths) if left is not None), default=0.0)
    if seconds:
        log.info("peer %s: waiting for %.0f s, as requests of an earlier run may take effect until then", peer_id, seconds)
        time.sleep(seconds)
    for path in paths:
        delete_unused(session.zk, path)


class PeerLock:
    """One attempt's hold of the peer lock. Other processes recognize the holder by `attempt`."""

    def __init__(self, session: Session, peer_id: str, run: str, holder: str) -> None:
        self._session = session
        self._peer_id = peer_id
        self._run = run
        self._holder = holder
        self.attempt = uuid.uuid4().hex
        self._hold = lock_of(self._session, self._peer_id)
        self._turn = NO_TURN  # the number of our last turn
        self._ended = threading.Event()
        self._keeper = threading.Thread(target=self._keep, name=f"right to ship peer {peer_id}", daemon=True)

    def take(self, planned: int) -> None:
        """Take the peer lock. Raises PeerLocked, ConnectError."""
        # A run that was overtaken must not take a turn: it would overtake other runs, which then would ship nothing either.
        seen = turn_of(self._session, self._peer_id, self._run)
        if seen.other is None and seen.number != planned and seen.last.get("run", self._run) != self._run:
            raise PeerLocked(self._peer_id, *_who_and_since(seen.last), now=False)
        before = self._acquire(self._hold)
        if before and before.get("run") != self._run and self._hold.turn - 1 != planned:
            self._hold.release()
            raise PeerLocked(self._peer_id, *_who_and_since(before), now=False)
        self._turn = self._hold.turn
        self._keeper.start()

    def give_up(self) -> None:
        """Release the peer lock to other runs."""
        self._ended.set()
        self._keeper.join(JOIN_SECONDS)
        self._hold.release()

    def _acquire(self, lock: FencedLock) -> Record:
        return lock.acquire(self._holder, self._run, attempt=self.attempt)

    def _keep(self) -> None:
        """Take the lock again whenever our session has ended."""
        while not self._ended.wait(LOOK_SECONDS):
            if not self._hold.lost.is_set():
                continue
            try:
                self._take_anew()
            except PeerLocked as error:
                log.warning("the ZooKeeper session ended, and another run was faster: %s", error)
                return
            except (ConnectError, Contention, RightLost) as error:
                log.info("the right to ship peer %s is not taken anew yet: %s", self._peer_id, error)

    def _take_anew(self) -> None:
        """Take the lock again. Raises PeerLocked if another attempt has had a turn since; ConnectError, Contention, RightLost."""
        seen = turn_of(self._session, self._peer_id, self._run)
        ours = (self._turn, self._turn + 1)  # the second if we have taken the lock again, and the answer was lost
        if seen.number not in ours or seen.last.get("attempt") != self.attempt:
            raise PeerLocked(self._peer_id, *_who_and_since(seen.last), now=seen.other is not None)
        lock = lock_of(self._session, self._peer_id)
        before = self._acquire(lock)
        if lock.turn != seen.number + 1:
            lock.release()
            raise PeerLocked(self._peer_id, *_who_and_since(before), now=False)
        self._hold, self._turn = lock, lock.turn


class RowsTaken(WalferryError):
    """Another task ships the same rows, or the session of a killed task has not ended yet."""


@contextmanager
def row_right(session: Session, peer_id: str, attempt: str, name: str, rows: str, seconds: float) -> Iterator[Right]:
    """Yield the right to ship some rows, once no earlier request for these rows can take effect.

    `attempt` is the attempt of the run that holds the peer lock. Tasks with the same `name` ship the same rows; `rows` describes
    the rows for people. A request usually takes at most `seconds`. Raises RowsTaken, EnabledPeer, MissingPeer, ConnectError.
    """
    guard = disabled_guard(session, peer_id)
    lock = FencedLock(
        session.zk,
        f"{session.own.row_shipments(peer_id)}/{quoted(name)}",
        lambda holder, since: RowsTaken(f"{rows} are shipped by {holder} since {since}", "Wait until it has ended"),
        lambda why: RightLost(f"{rows} are not shipped any more by this task, whose right to do so is lost: {why}"),
    )
    lock.acquire(f"a task on {socket.gethostname()}, process {os.getpid()}", **{CALLS: f"{seconds:.1f}"})
    ground = _Ground(session, peer_id, attempt, lock, guard)
    right = Right(ground, seconds, lock.quiet_at)
    try:
        if quiet := right.quiet_seconds:
            log.info("%s wait for %.0f s, as requests of a killed task may take effect until then", rows, quiet)
            time.sleep(quiet)
        yield right
    finally:
        ground.release(right.end())


class _Ground:
    """The conditions for a row task's requests: the attempt's turn at the peer, the task's own lock, and the peer's state."""

    def __init__(self, session: Session, peer_id: str, attempt: str, lock: FencedLock, guard: Guard) -> None:
        self._session = session
        self._peer_id = peer_id
        self._attempt = attempt
        self._fenced = lock
        self._guard = guard
        self._lock = threading.Lock()

    def is_sure(self) -> bool:
        """Return whether the task certainly holds its right at this moment. Raises RightLost, PeerError, ConnectError."""
        sure = self._fenced.is_sure()
        if turn_of_attempt(self._session, self._peer_id, self._attempt) is None:
            raise RightLost(f"this run no longer holds the lock of peer {self._peer_id}: another run has taken it")
        self._guard.renew()
        state = read(self._session.zk, self._guard.path)
        if state is None or state.stat.version != self._guard.version:
            raise self._guard.broken()
        return sure and self._fenced.is_sure()  # again: the values read may be old if the process was stopped meanwhile

    def allow(self, seconds: float) -> None:
        """Note that a server may carry out requests of this task for `seconds`. Raises RightLost, ConnectError."""
        with self._lock:
            self._fenced.note(**{CALLS: f"{seconds:.1f}"})

    def release(self, seconds: float) -> None:
        """Give the rows up. Requests of this task may take effect for `seconds`; a hanging thread may just be noting more."""
        with self._lock:
            self._fenced.release(forget=True, calls_seconds=seconds)


def _who_and_since(record: Record) -> tuple[str, str]:
    return record.get("holder", "another run"), record.get("since", "an unknown time")
