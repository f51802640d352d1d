"""Spreads a load over a backend: parts of WALs → readers → shuffle by partition → loaders → outcomes.

Sorted runs go through the shuffle, some megabytes a row. Spark spills them to disk, so a backlog may be of any size. A worker
imports only its half of the load.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from walferry.base.jobs import Backend, BackendFailed, Map, Shuffle, Stages, Tell
from walferry.base.records import NotARecord
from walferry.shipping.bulkload.job import LoadJob
from walferry.shipping.bulkload.wals import LoadWal

if TYPE_CHECKING:
    import pyarrow as pa

    from walferry.shipping.bulkload.loading import PartitionOutcome

PARTITION, OUTCOME = "partition", "outcome"  # columns
COLUMNS = {
    PARTITION: "int", "region": "int", "family": "int", "wal": "int", "number": "int", "size": "int", "crc": "int",
    "data": "binary",
}  # fmt: skip
EVERY_SECONDS = 10.0  # between two reports of the tasks' progress


def spread_load(on: Backend, tell: Tell, job: LoadJob, parts: Sequence[Sequence[LoadWal]]) -> list[PartitionOutcome]:
    """Read the parts, shuffle their rows, and load the partitions. Returns the partitions' outcomes.

    `tell` gets the progress. Raises BackendFailed, and Spark's errors if a task fails again and again.
    """
    from walferry.shipping.bulkload.loading import PartitionOutcome

    wals = sum(map(len, parts))
    answers = on.shuffle(
        Shuffle(
            items=len(parts), first=partial(readers, job, parts), columns=COLUMNS, partition=PARTITION,
            partitions=job.partitions, second=partial(loaders, job), answer=OUTCOME,
            # An outcome per region, a report per WAL, and per WAL and partition two kinds of notes and a count of runs.
            most_answers=len(job.regions) + wals + 3 * job.partitions * wals, progress=LoadProgress(tell),
        )
    )  # fmt: skip
    try:
        return [PartitionOutcome.from_json(text) for text in answers]
    except NotARecord as error:
        raise BackendFailed(f"an answer of a load cannot be read: {error}") from None


def readers(job: LoadJob, parts: Sequence[Sequence[LoadWal]]) -> Map:
    """Return the function for mapInArrow that reads the parts with the numbers it gets, and yields rows for the shuffle."""

    def run(some: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from walferry.shipping.bulkload.reading import read_wals
        from walferry.shipping.bulkload.rows import batches

        for batch in some:
            for number in batch.column(0).to_pylist():
                yield from batches(read_wals(parts[number], job))

    return run


def loaders(job: LoadJob) -> Map:
    """Return the function for mapInArrow that takes a partition's rows, loads its regions and yields their outcomes."""

    def run(some: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        from walferry.shipping.bulkload.loading import load_partition
        from walferry.shipping.bulkload.rows import rows_in

        for outcome in load_partition(rows_in(some), job):
            yield pa.RecordBatch.from_pydict({OUTCOME: [outcome.to_json()]})

    return run


class LoadProgress:
    """Passes changes of the progress to `tell`, once in a few seconds at most."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._reported = ""
        self._next = 0.0

    def __call__(self, stages: Stages) -> None:
        """Take the progress of the stages: the first one reads WALs, the second one loads regions."""
        text = shown(stages)
        if text != self._reported and time.monotonic() >= self._next:
            self._reported, self._next = text, time.monotonic() + EVERY_SECONDS
            self._tell(text)


def shown(stages: Stages) -> str:
    """Return the progress of a load in words; empty if it has not begun."""
    if not any(tasks for _, tasks in stages):
        return ""
    (read, parts), *after = stages
    text = f"read {read:,} of {parts:,} parts of the WALs"
    if read == parts and after:
        loaded, partitions = after[0]
        text += f", loaded {loaded:,} of {partitions:,} partitions of the regions"
    return text
