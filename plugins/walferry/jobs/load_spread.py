"""Spreads a load over Spark: parts of WALs → readers → shuffle by partition → loaders → outcomes.

What goes through the shuffle are sorted runs, some megabytes a row. Spark spills them to disk, so a backlog may be of any size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from walferry.base.periodic import every
from walferry.jobs.connect.errors import ConnectFailed
from walferry.jobs.connect.plan import pickled_call, shuffled_plan
from walferry.jobs.load_progress import LoadProgress
from walferry.jobs.load_tasks import COLUMNS, OUTCOME, PARTITION, loaders, readers, with_type

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    from walferry.base.protos.spark_connect_pb2 import Plan
    from walferry.shipping.bulkload.job import LoadJob
    from walferry.shipping.bulkload.loading import PartitionOutcome
    from walferry.shipping.bulkload.wals import LoadWal

LOOK_SECONDS = 1.0
MOST_TASKS = 5_000  # of a stage: Spark keeps a place for each pair of a task that reads and one that loads
LATER_CORES = 16  # as many as may come to a cluster once there is work for them
# What is worth another Python worker, which takes half a second of CPU before it does anything: on executors of a cluster, which
# have cores of their own, and where tasks share a machine.
CLUSTER_BYTES, MACHINE_BYTES = 1 << 20, 64 << 20
MOST_SENT_BYTES = 32 << 20  # to a Spark Connect server, whose clients send 128 MB at most
SETTINGS = {
    "spark.sql.execution.arrow.maxBytesPerBatch": str(8 << 20),  # that go to a Python worker at once: rows are of some megabytes
    "spark.sql.adaptive.enabled": "false",  # nothing is known of the runs that could be of use to it
    # Spark would hash each row to find tasks that yield something else when they are run again. Ours count their runs.
    "spark.sql.shuffle.orderIndependentChecksum.enabled": "false",
}


class SparkSpread:
    """Runs a load's tasks in a Spark session of this process; `tell` is told how far they are."""

    def __init__(self, spark: SparkSession, tell: Callable[[str], None]) -> None:
        self._spark = spark
        self._tell = tell
        for name, value in SETTINGS.items():
            spark.conf.set(name, value)

    @property
    def cores(self) -> int:
        """How many tasks run at a time, about."""
        context = self._spark.sparkContext
        known: int = context.defaultParallelism
        return known if self._is_local else max(known, LATER_CORES)

    @property
    def most_tasks(self) -> int:
        """How many tasks may read, and how many may load."""
        return MOST_TASKS

    @property
    def least_bytes(self) -> int:
        """How much is worth another task."""
        return MACHINE_BYTES if self._is_local else CLUSTER_BYTES

    @property
    def _is_local(self) -> bool:
        return str(self._spark.sparkContext.master).startswith("local")

    def __call__(self, job: LoadJob, parts: Sequence[Sequence[LoadWal]]) -> list[PartitionOutcome]:
        """Run the tasks to their end. Raises what Spark does if one of them fails again and again."""
        from walferry.shipping.bulkload.loading import PartitionOutcome

        columns = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
        rows = (
            self._spark.range(0, len(parts), 1, min(len(parts), MOST_TASKS))
            .mapInArrow(readers(job, parts), columns)
            .repartitionById(job.partitions, PARTITION)
            .mapInArrow(loaders(job), f"{OUTCOME} string")
        )
        context, told = self._spark.sparkContext, LoadProgress(self._tell)
        with every(LOOK_SECONDS, lambda: _look(context, told)):
            return [PartitionOutcome.from_json(row[OUTCOME]) for row in rows.collect()]


class ConnectSpread:
    """Runs a load's tasks on a Spark Connect server, no more at a time than a job may take of it.

    `run(plan, column, most, progress)` yields the rows of a plan, in a session that has the SETTINGS.
    """

    def __init__(
        self, run: Callable[[Plan, str, int, LoadProgress], Iterable[str]], tasks: int, tell: Callable[[str], None]
    ) -> None:
        self._run = run
        self._tell = tell
        self.cores = self.most_tasks = tasks
        self.least_bytes = MACHINE_BYTES  # it does not tell whether its tasks share a machine

    def __call__(self, job: LoadJob, parts: Sequence[Sequence[LoadWal]]) -> list[PartitionOutcome]:
        """Run the tasks to their end. Raises ConnectFailed, also if the job is too large to be sent at once, and Interrupted."""
        from walferry.shipping.bulkload.loading import PartitionOutcome

        first = pickled_call(with_type, readers, COLUMNS, job, parts)
        second = pickled_call(with_type, loaders, {OUTCOME: "string"}, job)
        if len(first) + len(second) > MOST_SENT_BYTES:
            raise ConnectFailed(f"the job has {len(first) + len(second):,} bytes, which are too many for a Spark Connect server")
        plan = shuffled_plan(len(parts), self.most_tasks, first, COLUMNS, PARTITION, job.partitions, second, OUTCOME)
        wals = sum(map(len, parts))
        # An outcome a region, reports of WALs, and of each WAL and partition notes of two kinds and a count of runs.
        most = len(job.regions) + wals + 3 * job.partitions * wals
        return [PartitionOutcome.from_json(text) for text in self._run(plan, OUTCOME, most, LoadProgress(self._tell))]


def _look(context: SparkContext, told: LoadProgress) -> None:
    """Tell how many tasks have ended."""
    tracker = context.statusTracker()
    jobs = [job for number in tracker.getActiveJobsIds() if (job := tracker.getJobInfo(number)) is not None]
    stages = [tracker.getStageInfo(stage) for job in jobs for stage in sorted(job.stageIds)]
    told([(stage.numCompletedTasks, stage.numTasks) for stage in stages if stage is not None])
