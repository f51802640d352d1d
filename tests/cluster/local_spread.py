"""Runs a load's tasks in this process one by one, in an order that Spark would not use: the last parts first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from walferry.base.jobs import BackendFailed, Shuffle
from walferry.shipping.bulkload.job import LoadJob
from walferry.shipping.bulkload.loading import PartitionOutcome, load_partition
from walferry.shipping.bulkload.reading import read_wals
from walferry.shipping.bulkload.rows import ShuffleRow, batches, rows_in
from walferry.shipping.bulkload.wals import LoadWal


@dataclass
class LocalSpread:
    """A backend. It encodes and decodes the rows of the shuffle as for Spark's shuffle."""

    cores: int = 2
    most_tasks: int = 1000
    least_bytes: int = 0
    shuffles: bool = True
    outcomes: list[PartitionOutcome] = field(default_factory=list)

    def run(self, *_: object, **__: object) -> Any:
        raise BackendFailed("only loads go this way")

    def shuffle(self, work: Shuffle) -> list[str]:
        assert isinstance(work.first, partial)
        return [outcome.to_json() for outcome in self(*work.first.args)]

    def __call__(self, job: LoadJob, parts: Sequence[Sequence[LoadWal]]) -> list[PartitionOutcome]:
        rows: list[list[ShuffleRow]] = [[] for _ in range(job.partitions)]
        for part in reversed(parts):
            for row in self.read(part, job):
                rows[row.partition].append(row)
        self.outcomes = [outcome for some in rows for outcome in self.load(some, job)]
        return self.outcomes

    def read(self, part: Sequence[LoadWal], job: LoadJob) -> list[ShuffleRow]:
        """Run a task before the shuffle."""
        return list(rows_in(batches(read_wals(part, job))))

    def load(self, rows: Sequence[ShuffleRow], job: LoadJob) -> list[PartitionOutcome]:
        """Run a task after the shuffle."""
        return list(load_partition(rows, job))
