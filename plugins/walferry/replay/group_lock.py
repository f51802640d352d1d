"""The right to ship one group of one run. One task has it at a time.

    <root>/runs/<quoted znode parent>/<peer>/<quoted run id>/<quoted group>/lease      a fenced lock (base/zk/fenced_lock.py)

Spark may restart a task, or Airflow a job, while the one before is still alive on a machine that cannot be reached any more. The
later one sends nothing until no request of the earlier one can take effect (base/zk/right.py).
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator, Sequence
from urllib.parse import unquote

from walferry.base.closing import Closing
from walferry.base.zk.client import children, children_all
from walferry.base.zk.fenced_lock import CALLS, FencedLock, Guard
from walferry.base.zk.records import encode
from walferry.base.zk.right import Right
from walferry.engine.summary import GroupSummary
from walferry.replay.job import ReplayJob
from walferry.replication.queues.errors import LeaseHeld, LeaseLost
from walferry.replication.source.session import Session
from walferry.shipping.group import after_killed_holder
from walferry.shipping.runs import group_path, run_path

LEASE = "lease"


class GroupLock(Closing):
    """A task's right to ship `group`, or a stage of it, whose summary `name` has been written.

    It is acquired when it is made, after waiting for a killed task's session. That raises LeaseHeld, ConnectError.
    """

    def __init__(self, session: Session, job: ReplayJob, group: str, name: str) -> None:
        self._lock = threading.Lock()
        self._summary = group_path(session, job.peer_id, job.run_id, name)
        self._fenced = _fenced(session, job.peer_id, group_path(session, job.peer_id, job.run_id, group), group)
        overtaken = LeaseHeld(job.peer_id, group, "a later try of this run", "it began")
        self._fenced.depend_on(Guard(run_path(session, job.peer_id, job.run_id), job.begun, lambda: overtaken))
        seconds = job.settings.call_timeout_seconds
        holder = f"run {job.run_id} on {socket.gethostname()}, process {os.getpid()}"
        after_killed_holder(lambda: self._fenced.acquire(holder, **{CALLS: f"{seconds:.1f}"}), job.deadline)
        self.right = Right(self, seconds, self._fenced.quiet_at)

    def close(self) -> None:
        """Give up the right."""
        seconds = self.right.end()  # not under the lock: a request that begins just now waits for it
        with self._lock:
            self._fenced.release(calls_seconds=seconds)

    def write(self, summary: GroupSummary) -> None:
        """Write the summary. Raises LeaseLost, ConnectError, LeaseHeld if another try of the run has begun."""
        with self._lock:
            refusal = self._fenced.write(lambda multi: multi.set_data(self._summary, encode(summary))).refusal
        if refusal is not None:
            raise refusal.error

    def is_sure(self) -> bool:
        """Return whether the task surely has the right now. Raises LeaseLost."""
        return self._fenced.is_sure()

    def allow(self, seconds: float) -> None:
        """Note that a server may carry out requests of this task for `seconds`. Raises LeaseLost, ConnectError."""
        with self._lock:
            self._fenced.note(**{CALLS: f"{seconds:.1f}"})


def locks_of(session: Session, peer_id: str) -> list[FencedLock]:
    """Return the locks that tasks have held at the peer, in all runs that are kept. Acquires none of them."""
    folder = session.own.runs(peer_id)
    runs = [f"{folder}/{run}" for run in children(session.zk, folder) or ()]
    groups = [f"{run}/{group}" for run, names in _with_children(session, runs) for group in names]
    taken = [path for path, names in _with_children(session, groups) if LEASE in names]
    return [_fenced(session, peer_id, path, unquote(path.rpartition("/")[2])) for path in taken]


def _with_children(session: Session, paths: Sequence[str]) -> Iterator[tuple[str, Sequence[str]]]:
    return zip(paths, (names or () for names in children_all(session.zk, paths)), strict=True)


def _fenced(session: Session, peer_id: str, of_group: str, group: str) -> FencedLock:
    return FencedLock(
        session.zk,
        f"{of_group}/{LEASE}",
        lambda other, since: LeaseHeld(peer_id, group, other, since),
        lambda why: LeaseLost(peer_id, group, why),
    )
