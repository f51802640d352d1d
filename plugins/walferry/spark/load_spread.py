"""Spreads a load over Spark: parts of WALs → readers → shuffle by partition → loaders → outcomes.

What goes through the shuffle are sorted runs, some megabytes a row. Spark spills them to disk, so a backlog may be of any size.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from walferry.spark.connect.errors import ConnectFailed
from walferry.spark.connect.plan import pickled_call, shuffled_plan
from walferry.spark.load_tasks import COLUMNS, OUTCOME, PARTITION, loaders, readers, with_type

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    from walferry.bulkload.job import LoadJob
    from walferry.bulkload.loading import Outcome
    from walferry.bulkload.wals import LoadWal
    from walferry.protos.spark_connect_pb2 import Plan

PROGRESS_SECONDS = 10.0
MOST_SENT_BYTES = 32 << 20  # to a Spark Connect server, whose clients send 128 MB at most
BATCH_BYTES = 8 << 20  # that go to a Python worker at once: rows may be of some megabytes each


class SparkSpread:
    """Runs a load's tasks in a Spark session of this process; `say` is told how far they are."""

    def __init__(self, spark: SparkSession, say: Callable[[str], None]) -> None:
        self._spark = spark
        self._say = say
        spark.conf.set("spark.sql.execution.arrow.maxBytesPerBatch", str(BATCH_BYTES))
        spark.conf.set("spark.sql.adaptive.enabled", "false")  # nothing is known of the runs that could be of use to it

    @property
    def cores(self) -> int:
        """How many tasks run at a time, about."""
        return self._spark.sparkContext.defaultParallelism

    def __call__(self, job: LoadJob, parts: Sequence[Sequence[LoadWal]]) -> list[Outcome]:
        """Run the tasks to their end. Raises what Spark does if one of them fails again and again."""
        from walferry.bulkload.loading import Outcome

        columns = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
        rows = (
            self._spark.range(0, len(parts), 1, len(parts))
            .mapInArrow(readers(job, parts), columns)
            .repartitionById(job.partitions, PARTITION)
            .mapInArrow(loaders(job), f"{OUTCOME} string")
        )
        with _progress(self._spark.sparkContext, self._say):
            return [Outcome.from_json(row[OUTCOME]) for row in rows.collect()]


class ConnectSpread:
    """Runs a load's tasks on a Spark Connect server: `run(plan, column, most)` yields the rows of a plan."""

    def __init__(self, run: Callable[[Plan, str, int], Iterable[str]], tasks: int) -> None:
        self._run = run
        self.cores = tasks

    def __call__(self, job: LoadJob, parts: Sequence[Sequence[LoadWal]]) -> list[Outcome]:
        """Run the tasks to their end. Raises ConnectFailed, also if the job is too large to be sent at once, and Interrupted."""
        from walferry.bulkload.loading import Outcome

        first = pickled_call(with_type, readers, COLUMNS, job, parts)
        second = pickled_call(with_type, loaders, {OUTCOME: "string"}, job)
        if len(first) + len(second) > MOST_SENT_BYTES:
            raise ConnectFailed(f"the job has {len(first) + len(second):,} bytes, which are too many for a Spark Connect server")
        plan = shuffled_plan(len(parts), first, COLUMNS, PARTITION, job.partitions, second, OUTCOME)
        wals = sum(map(len, parts))
        most = len(job.regions) + wals + 2 * job.partitions * wals  # an outcome a region, reports of WALs, notes of two kinds
        return [Outcome.from_json(text) for text in self._run(plan, OUTCOME, most)]


@contextmanager
def _progress(context: SparkContext, say: Callable[[str], None]) -> Iterator[None]:
    """Say how many of the tasks have ended, every few seconds while the block runs."""
    ended = threading.Event()

    def tell() -> None:
        tracker, told = context.statusTracker(), ""
        while not ended.wait(PROGRESS_SECONDS):
            stages = [stage for number in tracker.getActiveStageIds() if (stage := tracker.getStageInfo(number)) is not None]
            done = (f"{stage.numCompletedTasks:,} of {stage.numTasks:,} tasks of stage {stage.stageId}" for stage in stages)
            text = "; ".join(done)
            if text and text != told:
                told = text
                say(text)

    thread = threading.Thread(target=tell, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
