"""Logs a Spark job's progress in the task that waits for it. The job keeps summaries in ZooKeeper.

If the peer cluster acknowledges nothing, the task logs a warning; it logs all of Spark's own lines as INFO.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Self

from walferry.base.amounts import count, duration, size
from walferry.replication.sinks.answers import Repeats
from walferry.replication.source.cluster import SourceCluster
from walferry.runs.values import Planned

if TYPE_CHECKING:  # a DAG file imports this by way of the operator, and is parsed without kazoo
    from walferry.engine.summary import GroupSummary
    from walferry.replication.source.session import Session

LOOK_SECONDS = 3.0
EVERY_SECONDS = 10.0  # between two lines about progress
PACE_SECONDS = 60.0  # the period over which the rate is measured
LEAST_SECONDS = 5.0  # before a rate is logged
JOIN_SECONDS = 5.0


@dataclass(frozen=True)
class JobProgress:
    """The WALs and bytes that all attempts of the run have done, out of the planned ones. 100 % means that no WAL is left."""

    wals_done: int
    wals: int
    bytes_done: int
    bytes: int

    def __str__(self) -> str:
        done = 100 * self.bytes_done // self.bytes if self.bytes else 100
        percent = f" ({min(done, 99) if self.wals_done < self.wals else done} %)" if self.bytes else ""
        wals = f"{self.wals_done:,} of {count(self.wals, 'WAL')}"
        return f"{wals}, {size(self.bytes_done)} of {size(self.bytes)}{percent}; {self.left}"

    @property
    def left(self) -> str:
        """The rest of the work."""
        return f"left: {count(self.wals - self.wals_done, 'WAL')}, {size(self.bytes - self.bytes_done)}"


def progress(plan: Planned, summaries: Sequence[GroupSummary]) -> JobProgress:
    """Return the progress of the job of `plan`. Files may have grown since: HBase closed them, or HDFS recovered their length.

    A killed attempt may have taken a WAL out of its queue without having counted it. So the WALs left are the WALs that the last
    attempt has found, and those that groups which have not begun must have.
    """
    to_ship, bytes_done, left, counted = (
        sum(getattr(s, field) for s in summaries) for field in ("bytesToShip", "bytesDone", "logsLeft", "completedLogs")
    )
    waiting = max(0, plan.groups - sum(bool(s.queue_id or s.status == "done") for s in summaries))
    wals = max(plan.wals, counted + left + waiting)
    total = max(plan.bytes, to_ship)
    if waiting:
        return JobProgress(min(counted, wals - left - waiting), wals, min(bytes_done, total), total)
    # Work that is in no group's figures was done by earlier attempts.
    return JobProgress(wals - left, wals, min(bytes_done + total - to_ship, total) if left else total, total)


class JobPace:
    """The job's recent rate, and how long the rest takes at that rate."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def __call__(self, now: float, at: JobProgress) -> str:
        """Note the progress at this second. Return it in words, empty if the rate is not known yet or nothing is left."""
        self._seen.append((now, at.bytes_done))
        while len(self._seen) > 2 and self._seen[1][0] <= now - PACE_SECONDS:
            self._seen.popleft()
        (began, before), left = self._seen[0], at.bytes - at.bytes_done
        if now - began < LEAST_SECONDS or left <= 0:
            return ""
        rate = (at.bytes_done - before) / (now - began)
        if rate <= 0:
            return f"; nothing in the last {duration(now - began)}"
        return f"; {size(rate)}/s, about {duration(left / rate)} to go"


def outage(peer: str, summaries: Sequence[GroupSummary], left: str) -> str | None:
    """Return a warning if groups that are being shipped note that the peer cluster acknowledges nothing; None if it
    acknowledges."""
    running = [s for s in summaries if s.status == "running"]
    silent = [s for s in running if s.sinkSilentSince is not None]
    if not silent:
        return None
    of_whom = "" if len(silent) == len(running) else f" of {len(silent)} of {count(len(running), 'WAL group')}"
    since = min(s.sinkSilentSince or 0 for s in silent) // 1000
    worst = max(silent, key=lambda s: s.sinkTries)
    tries = sum(s.sinkTries for s in silent)
    error = f"{tries:,} failed {'try' if tries == 1 else 'tries'}, the last: {worst.sinkError}" if tries else "it is silent"
    when = f"{datetime.fromtimestamp(since, UTC):%Y-%m-%d %H:%M:%S} UTC"
    return (
        f"peer {peer}: peer cluster {worst.peer_cluster} has acknowledged nothing{of_whom} since {when} ({error}). "
        f"The backlog is kept, {left}; the job tries on until its deadline"
    )


class ProgressLog:
    """Logs a run's progress whenever it has changed, while the block runs, and at the end of a block that takes some seconds.

    It calls `warn` if the peer cluster acknowledges nothing: soon, and again after growing intervals, until the peer cluster
    acknowledges.
    """

    def __init__(
        self, source: SourceCluster, plan: Planned, tell: Callable[[str], object], warn: Callable[[str], object]
    ) -> None:
        self._source = source
        self._peer = plan.peer
        self._plan = plan
        self._tell = tell
        self._warn = warn
        self._repeats = Repeats()
        self._away = Repeats()
        self._next = 0.0
        self._reported: JobProgress | None = None
        self._pace = JobPace()
        self._loading = ""
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"progress of peer {plan.peer}", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(JOIN_SECONDS)

    def _run(self) -> None:
        from walferry.base.errors import WalferryError
        from walferry.replication.source.session import open_session

        while not self._ended.wait(LOOK_SECONDS):
            try:
                with open_session(self._source) as session:
                    self._look(session)
                    self._away.reset()
                    while not self._ended.wait(LOOK_SECONDS):
                        self._look(session)
                    self._look(session)
            except WalferryError as error:
                if self._away.due():
                    self._warn(f"peer {self._peer}: the job's progress is not known: {error}")

    def _look(self, session: Session) -> None:
        from walferry.shipping.bulkload.load_note import read_load_note
        from walferry.shipping.runs import read_run

        if (loading := read_load_note(session, self._peer, self._plan.run_id)) and loading != self._loading:
            self._loading = loading
            self._tell(f"peer {self._peer}: {loading}")
        mine = read_run(session, self._peer, self._plan.run_id)
        if not mine:
            return
        now = progress(self._plan, mine)
        pace = self._pace(time.monotonic(), now)
        if now != self._reported and (time.monotonic() >= self._next or self._ended.is_set()):
            self._reported, self._next = now, time.monotonic() + EVERY_SECONDS
            self._tell(f"peer {self._peer}: {now}{pace}")
        trouble = outage(self._peer, mine, now.left)
        if trouble and self._repeats.due():
            self._warn(trouble)
        elif not trouble and self._repeats.reset() and any(s.status == "running" for s in mine):
            self._tell(f"peer {self._peer}: its peer cluster acknowledges again")
