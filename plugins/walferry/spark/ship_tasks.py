"""What the Python workers of a Spark Connect server run: the groups of a job, each in a task of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from walferry.shipping.group_job import GroupJob
from walferry.spark.ship_run import ship

if TYPE_CHECKING:
    import pyarrow as pa

RESULT = "summary"  # the column of the summaries, as JSON


def tasks_of(jobs: Sequence[GroupJob]) -> tuple[Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]], Any]:
    """The function for mapInArrow that ships the jobs with the numbers that it is given, and the type of its rows."""
    import pyarrow as pa
    from pyspark.sql.types import StringType, StructField, StructType

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield pa.RecordBatch.from_pydict({RESULT: [ship(jobs[number]).to_json()]})

    return run, StructType([StructField(RESULT, StringType())])
