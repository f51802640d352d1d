"""The job that copies the tables of a new peer to its slave: a task for some regions at a time.

What is copied is noted in ZooKeeper (walferry.load.copy_records), so the job may be killed at any time, and the next one goes on.
While it runs, it says how far it is.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import ClassVar

from walferry.base.jobs import Backend, JobOutcome, Tell
from walferry.initial_snapshot.job import CopyRequest, initial_snapshot
from walferry.initial_snapshot.region_copy import CopiedRegions, RegionOutcome, RegionTask, copy_some
from walferry.replication.source.source_job import SourceJob

TASKS_A_CORE = 8  # each connects to both clusters once, and the last ones should end at about the same time


@dataclass(frozen=True, kw_only=True)
class CopyRun(SourceJob):
    """What is to be copied. No `tables`: all that the peer replicates."""

    kind: ClassVar[str] = "copy"
    nothing_done: ClassVar[str] = "the initial snapshot has stopped"

    tables: tuple[str, ...] = ()
    allow_not_empty: bool = False  # copy into tables that have rows at the slave

    def run(self, on: Backend, say: Tell) -> JobOutcome:
        """Copy what is not copied yet. Raises what initial_snapshot does."""
        request = CopyRequest(
            source=self.source, peer_id=self.peer_id, run=self.run_id, tables=self.tables,
            allow_not_empty=self.allow_not_empty, say=say,
        )  # fmt: skip
        copied = initial_snapshot(request, partial(self._spread, on))
        return JobOutcome(errors=copied.errors, failed=not copied.state.complete, result=json.dumps(asdict(copied.state)))

    def _spread(self, on: Backend, tasks: Sequence[RegionTask]) -> list[RegionOutcome]:
        """Copy the regions, the largest first, dealt out to the tasks."""
        count = min(len(tasks), TASKS_A_CORE * on.cores)
        dealt = [tasks[first::count] for first in range(count)]
        copied = on.run(partial(copy_some, self.source, self.peer_id), dealt, CopiedRegions)
        return [outcome for each in copied for outcome in each.outcomes]
