"""The task that waits for a job whose driver runs on another machine, such as in YARN's cluster mode.

    <root>/waiting/<quoted znode parent>/<name>     ephemeral, of the task's session: empty, then the driver's report

The driver begins the job once it finds the task's znode, and ends if the task is gone. So no job goes on without a task, however
the task ends: an application that YARN starts hours later ends at once. The driver leaves the job's outcome in the same znode,
where the task reads it. The znode ends with the task, so nothing has to be cleaned up.

A driver on the task's own machine prints its outcome and ends with the task; it does not read the znode.
"""

from __future__ import annotations

import logging
import os
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Protocol

from kazoo.exceptions import BadVersionError, KazooException, NodeExistsError, NoNodeError

from walferry.base.errors import WalferryError
from walferry.base.jobs import Job, JobOutcome
from walferry.base.periodic import every
from walferry.base.records import Record
from walferry.base.texts import one_line
from walferry.base.zk.client import ZNode, read, retried
from walferry.base.zk.errors import ConnectError, known
from walferry.base.zk.records import decode_or_none, encode
from walferry.jobs.session_settings import DRIVERS_ELSEWHERE
from walferry.replication.source.cluster import SourceCluster
from walferry.replication.source.session import Session, open_session

NAME = "WALFERRY_WAITING"  # the environment variable by which a driver elsewhere learns the znode's name
LOOK_SECONDS = 2.0
GONE_SECONDS = 20.0  # a task whose session with ZooKeeper has ended comes back within this time
# Of a report: a znode holds 1 MiB, and a character takes up to 12 bytes of JSON.
MAX_LINES, MAX_LINE_CHARS, MAX_CHARS = 500, 2_000, 60_000
GONE_CODE = 1

log = logging.getLogger(__name__)


class AwaitedJob(Job, Protocol):
    """A job of a source, in whose ZooKeeper a task can wait for the job."""

    @property
    def source(self) -> SourceCluster:
        """The source cluster."""


class NotAwaited(WalferryError):
    """No task waits for this job any more."""

    retry_helps = False


@dataclass(frozen=True)
class JobReport(Record):
    """What a driver has left for the task: nothing but that it has begun, or the outcome of the job."""

    ended: bool = False
    failed: bool = False
    lines: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    waited: float = 0.0  # for how many seconds the task had waited when it made this znode


class Waiting:
    """A task that waits."""

    def __init__(self, session: Session) -> None:
        self.name = secrets.token_hex(16)
        self._zk = session.zk
        self._path = session.own.waiting(self.name)
        self._since = time.monotonic()
        self._seen = JobReport()

    @property
    def settings(self) -> dict[str, str]:
        """Spark's settings that tell a driver elsewhere the znode's name."""
        return {f"{prefix}.{NAME}": self.name for prefix in DRIVERS_ELSEWHERE}

    def report(self) -> JobOutcome | None:
        """Return the outcome that the driver has left; None if it has left none. Raises ConnectError."""
        self.keep()
        found = self._seen
        if not found.ended:
            return None
        return JobOutcome(lines=_bounded(found.lines), errors=_bounded(found.errors), failed=found.failed)

    def keep(self) -> None:
        """Note what the driver has left, or make the znode again: a session that has ended takes it away. Raises ConnectError."""
        znode = read(self._zk, self._path)
        if znode is not None:
            self._seen = (decode_or_none(JobReport, znode.value) if znode.value else None) or self._seen
            return
        last = replace(self._seen, waited=time.monotonic() - self._since)
        with suppress(NodeExistsError):
            retried(self._zk, self._zk.create, self._path, encode(last), ephemeral=True, makepath=True)


@contextmanager
def waiting(source: SourceCluster) -> Iterator[Waiting]:
    """Let a job's driver see, for the length of a block, that this task waits for it. Raises ConnectError."""
    with open_session(source, look_only=True) as session:
        task = Waiting(session)
        task.keep()
        with every(LOOK_SECONDS, lambda: _try(task.keep)):
            yield task


class Awaited:
    """A driver elsewhere, for whose job a task waits. `late` is for how many seconds the task had waited when it began."""

    def __init__(self, session: Session, name: str) -> None:
        self._zk = session.zk
        self._path = session.own.waiting(name)
        self._seen = time.monotonic()
        self.late = self._begin()

    def _begin(self) -> float:
        """Note that the job begins, and return for how many seconds the task has waited. Raises NotAwaited, ConnectError.

        YARN starts the application again if its first driver was killed, and also if the job has failed: then there is nothing
        left to do.
        """
        znode = self._await_task()
        found = (decode_or_none(JobReport, znode.value) if znode.value else None) or JobReport()
        if found.ended:
            raise NotAwaited("an earlier driver has brought this job to its end")
        try:
            stat = retried(self._zk, self._zk.set, self._path, encode(found), znode.stat.version)
        except (NoNodeError, BadVersionError):
            return self._begin()
        return found.waited + max(0.0, float(stat.mtime - stat.ctime) / 1000)

    def _await_task(self) -> ZNode:
        """Return the task's znode: a task whose session has ended makes it again. Raises NotAwaited, ConnectError."""
        while (znode := read(self._zk, self._path)) is None:
            if time.monotonic() - self._seen > GONE_SECONDS:
                raise NotAwaited("the task that waited for this job is gone")
            time.sleep(LOOK_SECONDS)
        return znode

    def leave(self, outcome: JobOutcome) -> None:
        """Leave the outcome for the task. If that fails, the task only learns from Spark whether the job has failed."""
        report = JobReport(True, outcome.failed, _bounded(outcome.lines), _bounded(outcome.errors))
        try:
            while not self._left(encode(report)):
                self._await_task()
        except (ConnectError, NotAwaited) as error:
            log.warning("the outcome cannot be left for the task: %s", error)

    def _left(self, report: bytes) -> bool:
        with suppress(NoNodeError):
            retried(self._zk, self._zk.set, self._path, report)
            return True
        return False

    def look(self, gone: Callable[[], None]) -> None:
        """Call `gone` if the task has been gone for a while. While ZooKeeper is away, nothing is known about the task."""
        try:
            there = read(self._zk, self._path) is not None
        except (WalferryError, KazooException) as error:
            log.warning("whether the task is still there is not known: %s", known(error))
            there = True
        now = time.monotonic()
        if there:
            self._seen = now
        elif now - self._seen > GONE_SECONDS:
            gone()


@contextmanager
def awaited(source: SourceCluster, name: str, gone: Callable[[], None]) -> Iterator[Awaited]:
    """Begin the job, and watch, for the length of a block, whether the task still waits; else call `gone`.

    Raises NotAwaited, ConnectError.
    """
    with open_session(source, look_only=True) as session:
        task = Awaited(session, name)
        with every(LOOK_SECONDS, lambda: task.look(gone)):
            yield task


def name_in(environ: Mapping[str, str]) -> str:
    """Return the name of the znode of the task that waits for this driver; empty if the driver runs on the task's machine."""
    return environ.get(NAME, "")


def end_process() -> None:
    """End this process at once. The leases of its executors end with their sessions."""
    os._exit(GONE_CODE)


def _try(call: Callable[[], None]) -> None:
    try:
        call()
    except (WalferryError, KazooException) as error:
        log.info("whether the job's driver sees this task is not known: %s", known(error))


def _bounded(lines: Sequence[str]) -> tuple[str, ...]:
    """Return the first lines, as far as they fit into a report."""
    kept: list[str] = []
    left = MAX_CHARS
    for line in lines[:MAX_LINES]:
        shown = one_line(line, min(MAX_LINE_CHARS, left))
        left -= len(shown)
        if left <= 0:
            break
        kept.append(shown)
    return tuple(kept)
