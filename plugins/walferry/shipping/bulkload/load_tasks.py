"""The functions that Spark's Python workers run for a load: readers before the shuffle, and loaders after it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from walferry.base.jobs import Map

if TYPE_CHECKING:
    import pyarrow as pa

    from walferry.shipping.bulkload.job import LoadJob
    from walferry.shipping.bulkload.wals import LoadWal

PARTITION, OUTCOME = "partition", "outcome"  # columns
COLUMNS = {
    PARTITION: "int", "region": "int", "family": "int", "wal": "int", "number": "int", "size": "int", "crc": "int",
    "data": "binary",
}  # fmt: skip


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
