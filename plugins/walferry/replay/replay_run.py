"""The job that ships all edits of an interval to one peer again. It neither reads nor changes queues.

First all WALs are scanned, each in its own task. Then they are shipped, one task per WAL group. While the job runs, ZooKeeper
contains the summaries of all groups (walferry.engine.summary).
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from typing import ClassVar

from walferry.base.jobs import Backend, JobOutcome, Tell
from walferry.engine.summary import Status
from walferry.replication.source.source_job import SourceJob

KEPT_SECONDS = 3600  # a summary is kept this long beyond the deadline


@dataclass(frozen=True, kw_only=True)
class ReplayRun(SourceJob):
    """A request to ship edits again that were written from `start` to before `end`, in ms since the epoch."""

    kind: ClassVar[str] = "replay"
    nothing_done: ClassVar[str] = "nothing is shipped"

    start: int
    end: int
    deadline: float  # seconds after the job's begin; then reading stops
    tables: tuple[str, ...] = ()  # empty: all tables that the peer gets
    dry_run: bool = False  # only count the interval's edits
    what_is_there: bool = False  # ship the rest of an interval that is partly gone

    def run(self, on: Backend, say: Tell) -> JobOutcome:
        """Ship, and report how each group ended. Raises WalferryError if the job cannot begin."""
        from walferry.replay.interval import Interval
        from walferry.replay.job import ReplayJob
        from walferry.replay.run import replay

        job = ReplayJob(
            source=self.source, peer_id=self.peer_id, interval=Interval(self.start, self.end), run_id=self.run_id,
            deadline=time.time() + self.deadline, tables=frozenset(self.tables), what_is_there=self.what_is_there,
        )  # fmt: skip
        summaries = replay(job, on, dry_run=self.dry_run, keep_seconds=self.deadline + KEPT_SECONDS)
        return JobOutcome(
            lines=[
                f"{s.group}: {s.status}, {s.completedLogs} WALs, shipped {s.shippedOps} operations, {s.shippedBytes} bytes"
                for s in summaries
            ],
            errors=[f"{s.group}: {s.error}" for s in summaries if s.error],
            failed=any(s.status is not Status.DONE for s in summaries),
            result=json.dumps([asdict(s) for s in summaries]),
        )
