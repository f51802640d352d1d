"""The right to ship one group of one run, which one task has at a time.

    <root>/runs/<quoted znode parent>/<peer>/<quoted run id>/<quoted group>/lease      a hold (zk/hold.py)

Spark may begin a task anew, or Airflow a job, while the one before is still alive on a machine that nobody reaches any more. The
later one sends nothing until no request of the earlier one can take effect (zk/right.py).
"""

from __future__ import annotations

import os
import socket
import threading
from types import TracebackType
from typing import Self

from walferry.queues.errors import LeaseHeld, LeaseLost
from walferry.reship.job import ReshipJob
from walferry.shipping.group import after_killed_holder
from walferry.shipping.runs import group_path
from walferry.source.session import Session
from walferry.zk.hold import CALLS, Hold
from walferry.zk.right import Right


class Turn:
    """A task's right to ship `group`, whose summary has been written. A context manager, which waits for a killed task's session.

    Entering raises LeaseHeld, ConnectError.
    """

    def __init__(self, session: Session, job: ReshipJob, group: str) -> None:
        self._job = job
        self._lock = threading.Lock()
        self._hold = Hold(
            session.zk,
            f"{group_path(session, job.peer_id, job.run_id, group)}/lease",
            lambda other, since: LeaseHeld(job.peer_id, group, other, since),
            lambda why: LeaseLost(job.peer_id, group, why),
        )
        self.right = Right()

    def __enter__(self) -> Self:
        seconds = self._job.knobs.call_timeout_seconds
        holder = f"run {self._job.run_id} on {socket.gethostname()}, process {os.getpid()}"
        after_killed_holder(lambda: self._hold.acquire(holder, **{CALLS: f"{seconds:.1f}"}), self._job.deadline)
        self.right = Right(self, seconds, self._hold.quiet_at)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._hold.end()  # from now on nothing more is sent
        self._hold.release(calls_seconds=self.right.quiet_seconds)

    def is_sure(self) -> bool:
        """Whether the task surely has the right now. Raises LeaseLost."""
        return self._hold.is_sure()

    def allow(self, seconds: float) -> None:
        """Note that a server may carry out requests of this task for so long. Raises LeaseLost, ConnectError."""
        with self._lock:
            self._hold.note(**{CALLS: f"{seconds:.1f}"})
