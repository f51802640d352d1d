"""The right of a task to ship rows of a scan, while its run holds the peer lock (peer_lock.py).

    <root>/row-shipments/<quoted znode parent>/<quoted peer>/<quoted name>      a fenced lock (base/zk/fenced_lock.py)

No lease fences such rows. The tasks of a run have sessions of their own, on machines of their own. So each has a fenced lock,
which says for how long its requests may take effect, and sends only while it has that, the run's attempt holds the peer lock, and
the peer stays disabled: rows are read once the right is held, and must not come after what HBase ships of them later.

    a task that comes in the place of a killed one, under the same name     waits for the requests of that one
    a run that holds the peer lock next                                    waits for the requests of all tasks before

A task that ends well, with all of its requests answered, deletes its lock. Otherwise the next holder of the peer does.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from walferry.base.errors import WalferryError
from walferry.base.zk.client import read
from walferry.base.zk.fenced_lock import CALLS, FencedLock, Guard
from walferry.base.zk.right import Right
from walferry.hbase.layout import quoted
from walferry.replication.locks.peer_lock import RightLost, turn_of_attempt
from walferry.replication.peers.reading import disabled_guard
from walferry.replication.source.session import Session

log = logging.getLogger(__name__)


class RowsTaken(WalferryError):
    """Another task ships the same rows, or the session of a killed one has not ended yet."""


@contextmanager
def row_right(session: Session, peer_id: str, attempt: str, name: str, rows: str, seconds: float) -> Iterator[Right]:
    """The right to ship some rows by requests that usually have `seconds`, once no earlier request for them can take effect.

    `attempt` is that of the run that holds the peer lock. Tasks with the same `name` ship the same rows; `rows` is what they are
    for people. Raises RowsTaken, EnabledPeer, MissingPeer, ConnectError.
    """
    guard = disabled_guard(session.zk, session.nodes, peer_id)
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
    """The turn of the attempt at the peer, the task's own lock, and the peer's state."""

    def __init__(self, session: Session, peer_id: str, attempt: str, lock: FencedLock, guard: Guard) -> None:
        self._session = session
        self._peer_id = peer_id
        self._attempt = attempt
        self._fenced = lock
        self._guard = guard
        self._lock = threading.Lock()

    def is_sure(self) -> bool:
        """Whether the task surely has its right now. Raises RightLost, PeerError, ConnectError."""
        sure = self._fenced.is_sure()
        if turn_of_attempt(self._session, self._peer_id, self._attempt) is None:
            raise RightLost(f"this run no longer holds the lock of peer {self._peer_id}: another run has taken it")
        state = read(self._session.zk, self._guard.path)
        if state is None or state.stat.version != self._guard.version:
            raise self._guard.broken()
        return sure and self._fenced.is_sure()  # again: what was read may be old if the process was stopped meanwhile

    def allow(self, seconds: float) -> None:
        """Note that a server may carry out requests of this task for so long. Raises RightLost, ConnectError."""
        with self._lock:
            self._fenced.note(**{CALLS: f"{seconds:.1f}"})

    def release(self, seconds: float) -> None:
        """Give the rows up; requests of this task may take effect for so long. One that hangs may be noting more just now."""
        with self._lock:
            self._fenced.release(forget=True, calls_seconds=seconds)
