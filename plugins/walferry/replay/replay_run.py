"""The job that ships again to one peer all that was written in an interval. No queue is read or changed.

First all WALs are scanned, each in a task of its own. Then they are shipped, a task for each WAL group. While the job runs, the
summaries of all groups are kept in ZooKeeper (walferry.engine.summary).
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from typing import ClassVar

from walferry.base.jobs import Backend, JobOutcome, Tell
from walferry.engine.summary import Status
from walferry.replication.source.source_job import SourceJob

KEPT_SECONDS = 3600  # for which a summary is kept beyond the deadline


@dataclass(frozen=True, kw_only=True)
class ReplayRun(SourceJob):
    """What is to be shipped again: what was written from `start` to before `end`, in ms since the epoch."""

    kind: ClassVar[str] = "replay"
    nothing_done: ClassVar[str] = "nothing is shipped"

    start: int
    end: int
    deadline: float  # seconds from the job's begin, after which nothing more is read
    tables: tuple[str, ...] = ()  # none: all that the peer gets
    dry_run: bool = False  # only count what the interval has
    what_is_there: bool = False  # ship what is left of an interval that is partly gone

    def run(self, on: Backend, say: Tell) -> JobOutcome:
        """Ship, and tell what became of each group. Raises WalferryError if it cannot begin."""
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
