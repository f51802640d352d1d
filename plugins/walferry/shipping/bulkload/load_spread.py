"""Spreads a load over a backend: parts of WALs → readers → shuffle by partition → loaders → outcomes.

What goes through the shuffle are sorted runs, some megabytes a row. Spark spills them to disk, so a backlog may be of any size.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from walferry.base.jobs import Backend, BackendFailed, Shuffle, Tell
from walferry.base.records import NotARecord
from walferry.shipping.bulkload.job import LoadJob
from walferry.shipping.bulkload.load_progress import LoadProgress
from walferry.shipping.bulkload.load_tasks import COLUMNS, OUTCOME, PARTITION, loaders, readers
from walferry.shipping.bulkload.loading import PartitionOutcome
from walferry.shipping.bulkload.wals import LoadWal


class LoadSpread:
    """Runs a load's tasks; `tell` is told how far they are."""

    def __init__(self, on: Backend, tell: Tell) -> None:
        self._on = on
        self._tell = tell
        self.cores, self.most_tasks, self.least_bytes = on.cores, on.most_tasks, on.least_bytes

    def __call__(self, job: LoadJob, parts: Sequence[Sequence[LoadWal]]) -> list[PartitionOutcome]:
        """Run the tasks to their end. Raises BackendFailed, and what Spark does if one of them fails again and again."""
        wals = sum(map(len, parts))
        answers = self._on.shuffle(
            Shuffle(
                items=len(parts), first=partial(readers, job, parts), columns=COLUMNS, partition=PARTITION,
                partitions=job.partitions, second=partial(loaders, job), answer=OUTCOME,
                # An outcome a region, reports of WALs, and of each WAL and partition notes of two kinds and a count of runs.
                most_answers=len(job.regions) + wals + 3 * job.partitions * wals, progress=LoadProgress(self._tell),
            )
        )  # fmt: skip
        try:
            return [PartitionOutcome.from_json(text) for text in answers]
        except NotARecord as error:
            raise BackendFailed(f"an answer of a load cannot be read: {error}") from None
