"""What the Python workers of a Spark Connect server run: the groups of a job, dealt out to its tasks as cards are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from walferry.jobs.ship_run import ship
from walferry.shipping.group_job import GroupJob

if TYPE_CHECKING:
    import pyarrow as pa

RESULT = "summary"  # the column of the summaries, as JSON


def tasks_of(jobs: Sequence[GroupJob], tasks: int) -> tuple[Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]], Any]:
    """The function for mapInArrow that ships the jobs of the tasks whose numbers it is given, and the type of its rows.

    Groups that lie side by side are those of one server, and likely to be slow together: so they go to different tasks.
    """
    import pyarrow as pa
    from pyspark.sql.types import StringType, StructField, StructType

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for job in jobs[number::tasks]:
                    yield pa.RecordBatch.from_pydict({RESULT: [ship(job).to_json()]})

    return run, StructType([StructField(RESULT, StringType())])
