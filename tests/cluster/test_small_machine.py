"""One core and 1 GB are enough for a job that ships a backlog, and 1.25 GB for one that loads it as files."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from bench.processes import TreeUsage
from embedded.client import GLOBAL, even_splits
from tests.cluster.spark_runs import Job
from tests.cluster.walferry_runs import plan, roll
from walferry.replication.peers.settings import SinkKind

ROWS = 120_000
VALUE_BYTES = 1000
CORE = 0
BOUNDS = {SinkKind.DIRECT: 1 << 30, SinkKind.REPLICATE: 1 << 30, SinkKind.HFILES: 5 << 28}  # bytes: JVM and Python workers
CONF = {"spark.driver.memory": "512m"}  # of `local[1]`, whose executor is in the driver

pytestmark = pytest.mark.parametrize("sink", [SinkKind.HFILES], indirect=True)


@pytest.mark.parametrize("way", list(BOUNDS))
def test_a_backlog_goes_through_one_core_and_little_memory(sides, unique, managed_peer, tmp_path: Path, way: SinkKind) -> None:
    peer, table = managed_peer(sides.source_cluster.address, sides.peer_hbase.address), unique("small")
    for client in (sides.source, sides.peer_cluster):
        client.create_table(table, {"f": GLOBAL}, even_splits(4))
    sides.source.put_many(table, ROWS, ["f:q"], value_bytes=VALUE_BYTES, batch=500)
    roll(sides.at, peer)
    assert plan(sides.at, peer).to_ship
    with Job(sides.at, peer, f"small-{random.randrange(1 << 30)}", tmp_path, sink=way, cores=1, conf=CONF) as job:
        os.sched_setaffinity(job.pid, {CORE})
        usage = TreeUsage(job.pid)
        done = job.finish()
        used = usage.stop()
    print(
        f"{way}: peak {used.peak_bytes >> 20} MB, of Python {used.peak_python_bytes >> 20} MB, {used.cpu_seconds:.1f} CPU-seconds"
    )
    assert done.code == 0, done.output
    assert not plan(sides.at, peer).to_ship
    compared = sides.source.compare(table, sides.peer_cluster)
    assert compared.same, compared.examples
    assert compared.left == ROWS
    assert used.peak_bytes < BOUNDS[way]
