"""Runs jobs that spark-submit starts: this process is the driver (spark_jobs/run_job.py).

Spark starts while the job plans. Walferry does not stop Spark, which would take a second: the JVM does that as it ends.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any, TypeVar

from walferry.base.errors import WalferryError
from walferry.base.jobs import MAX_LINE_CHARS, JobOutcome, Progress, reporting
from walferry.base.records import NotARecord, Record
from walferry.base.texts import one_line
from walferry.jobs.session_settings import CLUSTER_BYTES, MACHINE_BYTES
from walferry.jobs.waiting import AwaitedJob, awaited, end_process, name_in

if TYPE_CHECKING:
    from pyspark import SparkContext

T = TypeVar("T")
R = TypeVar("R", bound=Record)

MOST_TASKS = 5_000  # of a call of `run`
TRACKED = "AmIpFilter.param.PROXY_URI_BASES"  # ends the setting with the application's address at each ResourceManager of YARN
LATER_CORES = 16  # cores that may join a cluster once there is work for them


def run_job(kind: type[AwaitedJob], text: str) -> int:
    """Run the job that `text` describes, print its outcome, with the result as JSON last, and return the exit code.

    A WalferryError ends the job with one line that says what has stopped, and why.
    """
    if isinstance(sys.stdout, TextIOWrapper):  # a cluster's machine may have another locale than the names of tables need
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        outcome = _run(kind.from_json(text))
    except (WalferryError, NotARecord) as error:
        tell(f"{kind.nothing_done}: {error}")
        return 1
    for line in outcome.lines:
        say(line)
    for line in outcome.errors:
        tell(line)
    print(outcome.result, flush=True)
    return 1 if outcome.failed else 0


def _run(job: AwaitedJob) -> JobOutcome:
    """Run the job. If a task on another machine waits for it, run it only while the task does, and leave the outcome there."""
    if not (name := name_in(os.environ)):
        return job.run(Submitted(job.title), say)
    with awaited(job.source, name, _end_without_task) as task:
        job, spark = job.begun_later(task.late), Submitted(job.title)
        try:
            outcome = job.run(spark, say)
        except WalferryError as error:
            task.leave(JobOutcome(errors=[f"{job.nothing_done}: {error}"], failed=True))
            raise
        spark.await_start()
        task.leave(outcome)
        return outcome


def _end_without_task() -> None:
    tell("the task that waited for this job is gone, so the job ends")
    end_process()


def say(text: str) -> None:
    """Print a line. Names and texts from clusters cannot end the line, nor control a terminal."""
    print(one_line(text, MAX_LINE_CHARS), flush=True)


def tell(text: str) -> None:
    """Print a failure to stderr, in the same way as `say`."""
    print(one_line(text, MAX_LINE_CHARS), file=sys.stderr, flush=True)


class Submitted:
    """Spark in this process. It begins to start at once."""

    most_tasks = MOST_TASKS

    def __init__(self, title: str) -> None:
        self._starting: Future[SparkContext] = Future()
        # A daemon thread: a job without work, or one that may not begin, does not wait for a cluster without free cores.
        threading.Thread(target=self._start, args=(title,), name="spark", daemon=True).start()

    def _start(self, title: str) -> None:
        try:
            self._starting.set_result(_start(title))
        except BaseException as error:
            self._starting.set_exception(error)

    def await_start(self) -> None:
        """Wait until Spark has started or failed: a cluster takes a driver that never starts Spark for a failed one."""
        self._starting.exception()

    @property
    def cores(self) -> int:
        """The number of tasks that run at a time, about."""
        known: int = self._context.defaultParallelism
        return known if self._is_local else max(known, LATER_CORES)

    @property
    def least_bytes(self) -> int:
        """The bytes of data from which another task pays off."""
        return MACHINE_BYTES if self._is_local else CLUSTER_BYTES

    def run(
        self, function: Callable[[T], R], items: Sequence[T], result: type[R], lost: Callable[[T, str], R] | None = None,
        progress: Progress | None = None,
    ) -> list[R]:  # fmt: skip
        """Call `function` for each item. Raises Spark's error if a task fails again and again."""
        if not items:
            return []
        tasks = min(len(items), MOST_TASKS)
        # Neighbouring items are likely to be slow together, so they go to different tasks.
        dealt = [(number, items[number]) for first in range(tasks) for number in range(first, len(items), tasks)]
        context = self._context
        with reporting(progress, lambda: _ended_tasks(context)):
            done = context.parallelize(dealt, tasks).map(partial(_numbered, function)).collect()
        return [found for _, found in sorted(done, key=lambda pair: pair[0])]

    @property
    def _context(self) -> SparkContext:
        return self._starting.result()

    @property
    def _is_local(self) -> bool:
        return str(self._context.master).startswith("local")


def _start(title: str) -> SparkContext:
    from pyspark import SparkConf, SparkContext

    # A speculative copy of a task would only wait for the lease of the first copy, or load the same files again.
    conf = SparkConf().setAppName(title).set("spark.speculation", "false")
    context = SparkContext(conf=conf)
    context.setLogLevel("WARN")
    _show_application(context)
    return context


def _show_application(context: SparkContext) -> None:
    """Print the application's address at YARN, as YARN's client does in cluster mode. The application master has told it."""
    tracked = [value for name, value in context.getConf().getAll() if name.endswith(TRACKED)]
    if tracked:
        say(f"tracking URL: {tracked[0].split(',')[0]}")


def _numbered(function: Callable[[Any], R], item: tuple[int, Any]) -> tuple[int, R]:
    return item[0], function(item[1])


def _ended_tasks(context: SparkContext) -> tuple[int, int] | None:
    """Return how many tasks of the running stage have ended, and of how many. `Submitted.run` has one stage."""
    tracker = context.statusTracker()
    stages = [stage for number in tracker.getActiveStageIds() if (stage := tracker.getStageInfo(number)) is not None]
    return (stages[0].numCompletedTasks, stages[0].numTasks) if stages else None
