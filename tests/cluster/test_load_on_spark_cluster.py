"""A Spark cluster of several executors with little memory loads a backlog. One executor may be killed."""

from __future__ import annotations

import random
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from embedded.client import GLOBAL, even_splits
from embedded.spark_cluster import Executor, SparkCluster
from tests.cluster.spark_runs import Finished, Job
from tests.cluster.test_hfiles import FAMILIES, repeated
from tests.cluster.walferry_runs import plan, roll
from walferry.replication.peers.settings import SinkKind

EXECUTORS = 2
CONF = {
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.cores.max": str(EXECUTORS),
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",  # no task begins before all executors are there
}
READING, LOADING = 0, 1  # stages of the job
WALS = 5
WAL_ROWS = 1500
VALUE_BYTES = 1000
REGIONS = 4
WAIT_SECONDS = 120


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with SparkCluster(tmp_path_factory.mktemp("spark"), workers=EXECUTORS) as started:
        yield started


@pytest.fixture
def backlog(sides, peer, unique) -> Callable[[], None]:
    """The peer's WALs are queued. The function checks that all of them are loaded, and both sides have the same cells."""
    table, chance = unique("load"), random.Random(5)
    for client, splits in ((sides.source, even_splits(2)), (sides.peer_cluster, [*even_splits(REGIONS), b"row30"])):
        client.create_table(table, dict.fromkeys(FAMILIES, GLOBAL), splits, versions=1_000)
        client.switch_compaction(table, False)
        for family in FAMILIES:
            client.alter_family(table, family, {"KEEP_DELETED_CELLS": "TRUE"})
    for number in range(WALS):
        sides.source.put_many(table, WAL_ROWS, ["f:a", "g:a"], first=number * WAL_ROWS // 2, value_bytes=VALUE_BYTES)
        sides.source.write(table, repeated(chance, 300))
        roll(sides.at, peer)
    assert sum(len(group.wals) for group in plan(sides.at, peer).to_ship) >= WALS

    def check() -> None:
        assert not plan(sides.at, peer).to_ship
        for raw in (True, False):
            compared = sides.source.compare(table, sides.peer_cluster, raw=raw)
            assert compared.same, compared.examples
            assert compared.left > WAL_ROWS

    return check


def tasks(executor: Executor, what: str = "Finished") -> Counter[int]:
    """Return how many tasks of each stage an executor has `Finished`, or has been `Running`."""
    return Counter(int(stage) for stage in re.findall(rf"{what} task \S+ in stage (\d+)\.", executor.log))


def await_that(done: Callable[[], object]) -> None:
    give_up = time.monotonic() + WAIT_SECONDS
    while not done():
        assert time.monotonic() < give_up
        time.sleep(0.05)


def files_left(cluster: SparkCluster) -> list[Path]:
    return [path for path in cluster.local_folder.rglob("*") if path.is_file()]


def check_loaded(done: Finished, backlog: Callable[[], None], cluster: SparkCluster) -> None:
    assert done.code == 0, done.output
    assert re.search(r"^loaded [\d,]+ files with", done.output, re.MULTILINE), done.output
    assert "by requests" not in done.output, done.output
    backlog()
    await_that(lambda: not files_left(cluster))


@pytest.mark.soak  # the next test shows the same, with an executor that is killed
def test_executors_share_a_load_and_leave_nothing_on_their_disks(sides, peer, backlog, cluster, tmp_path):
    with Job(sides.at, peer, "load", tmp_path, sink=SinkKind.HFILES, master=cluster.master, conf=CONF) as job:
        done = job.finish()
    check_loaded(done, backlog, cluster)
    executors = cluster.executors
    assert len(executors) == EXECUTORS
    for executor in executors:
        assert tasks(executor).keys() == {READING, LOADING}, executor.log


# If an executor is killed while it loads, the rows that it has read are lost too.
STAGES = [pytest.param(READING, id="reading", marks=pytest.mark.soak), pytest.param(LOADING, id="loading")]


@pytest.mark.parametrize("stage", STAGES)
def test_the_tasks_of_an_executor_that_is_killed_run_again(sides, peer, backlog, cluster, tmp_path, stage):
    with Job(sides.at, peer, "load", tmp_path, sink=SinkKind.HFILES, master=cluster.master, conf=CONF) as job:

        def kill_one() -> bool:
            for executor in cluster.executors if "are loaded as files" in job.output else ():
                if executor.process is not None and tasks(executor, "Running")[stage] > tasks(executor)[stage]:
                    executor.process.kill()
                    return True
            assert job.running, job.output
            return False

        await_that(kill_one)
        done = job.finish()
    assert re.search(r"Lost executor \d+", done.output), done.output
    check_loaded(done, backlog, cluster)
    assert len(cluster.executors) > EXECUTORS
