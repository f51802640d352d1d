"""A backlog that is large against the memory of Spark's executors is loaded. WALFERRY_LOAD_MB says how large; 3 GB by default."""

from __future__ import annotations

import os
import time

import pytest

from bench.processes import TreeUsage
from embedded.client import GLOBAL, even_splits
from embedded.spark_cluster import SparkCluster
from tests.cluster.spark_runs import Job
from tests.cluster.test_load_on_spark_cluster import CONF, EXECUTORS
from tests.cluster.walferry_runs import plan, roll
from walferry.replication.peers.settings import SinkKind

MEGABYTES = int(os.environ.get("WALFERRY_LOAD_MB", "3000"))
VALUE_BYTES = 20_000
ROWS = MEGABYTES * 1_000_000 // VALUE_BYTES
WALS = 6
REGIONS = 8
# Of an executor's Python worker. YARN's container has 384 MB besides the executor's heap, for this and for Java.
MAX_WORKER_BYTES = 500 << 20

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]


def test_a_large_backlog_is_loaded_by_executors_with_little_memory(sides, peer, unique, tmp_path):
    table = unique("large")
    for client, regions in ((sides.source, 2), (sides.peer_cluster, REGIONS)):
        client.create_table(table, {"f": GLOBAL}, even_splits(regions))
        client.switch_compaction(table, False)
    for number in range(WALS):
        rows = ROWS // WALS
        sides.source.put_many(table, rows, ["f:a"], first=number * rows, value_bytes=VALUE_BYTES, batch=50)
        roll(sides.at, peer)
    size = sum(group.bytes_left for group in plan(sides.at, peer).to_ship)
    assert size > 0.9 * MEGABYTES * 1_000_000
    with SparkCluster(tmp_path / "spark", workers=EXECUTORS) as cluster:
        usages = [TreeUsage(pid) for pid in cluster.pids]
        began = time.monotonic()
        with Job(sides.at, peer, "load", tmp_path, sink=SinkKind.HFILES, master=cluster.master, conf=CONF) as job:
            done = job.finish(3000)
        seconds = time.monotonic() - began
        worker = max(usage.stop().peak_python_bytes for usage in usages)
    print(done.output)
    print(f"{size / 1e6:,.0f} MB of WALs in {seconds:.0f} s; the largest Python worker had {worker / 1e6:.0f} MB")
    assert done.code == 0, done.output
    assert "by requests" not in done.output, done.output
    assert not plan(sides.at, peer).to_ship
    compared = sides.source.compare(table, sides.peer_cluster)
    assert compared.same, compared.examples
    assert compared.left == WALS * (ROWS // WALS)
    assert worker < MAX_WORKER_BYTES
