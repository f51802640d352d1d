"""A table's initial snapshot by HBase's ExportSnapshot, by its CopyTable and by Walferry in turn, on the same clusters.

    PYTHONPATH=plugins python -m bench.initial_snapshot         WALFERRY_BENCH_ROWS (1000000), WALFERRY_BENCH_ROUNDS (3),
                                                                WALFERRY_BENCH_WAYS (all)

The table lies in several files. The ways, of which WALFERRY_BENCH_WAYS may name some, with `;` between them:

    ExportSnapshot   in a JVM that is up already, with the snapshot before and the clone after it
    CopyTable        in the same JVM, into a table that was made before
    Connect          a task of Airflow (bench.task) from its start to its end, through a Spark Connect server that is up. It makes
                     the table at the peer cluster, too
    spark-submit     the same through spark-submit

 seconds    from start to end
 job        CPU-seconds of everything that runs for this: the JVM; Walferry's task with its children, and the Spark Connect server
 peer       CPU-seconds of the peer cluster's RegionServers meanwhile

ExportSnapshot copies no file that is still in the peer cluster's archive, so the archive is emptied before each copy.
Cells are compared after the round to warm up only, since with 10 GB that takes longer than the copies.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

from bench.clusters import COLUMNS, MANAGED_PEER, REGIONS, TABLE, VALUE_BYTES, Bench, Setup, bench, region_servers_cpu
from bench.processes import TreeUsage
from bench.task import Place, operate
from bench.ways import chosen
from embedded.client import GLOBAL, even_splits
from walferry.hbase.files.systems import delete_folder

ROWS = int(os.environ.get("WALFERRY_BENCH_ROWS", "1000000"))
ROUNDS = int(os.environ.get("WALFERRY_BENCH_ROUNDS", "3"))
FILES_A_REGION = 4  # at least: a region is flushed by itself, too
UNCOMPACTED = {"hbase.hstore.compaction.min": "1000", "hbase.hstore.blockingStoreFiles": "1000"}  # 10 GB would need 50 of disk
OPERATOR = "walferry.airflow.tasks.initial_snapshot:CopyTablesOperator"
EXPORT, COPY_TABLE, CONNECT, SUBMITTED = "ExportSnapshot", "CopyTable", "Connect", "spark-submit"
NAME = 24  # characters of a way's name
HEADER = f"{'':{NAME}}{'seconds':>9}{'job CPU':>9}{'peer CPU':>9}"


@dataclass(frozen=True)
class Copy:
    """One copy. CPU in seconds."""

    by: str
    seconds: float
    job_cpu: float
    peer_cpu: float

    def line(self) -> str:
        return f"{self.by:{NAME}}{self.seconds:9.1f}{self.job_cpu:9.1f}{self.peer_cpu:9.1f}"


def by_export_snapshot(on: Bench) -> tuple[float, float]:
    """A snapshot, ExportSnapshot, and a clone at the peer cluster. Returns seconds and the JVM's CPU-seconds."""
    return _in_jvm(on, lambda: on.client.export_snapshot(TABLE, on.peer_cluster, f"bench-{on.next_run()}"))


def by_copy_table(on: Bench) -> tuple[float, float]:
    """CopyTable into an empty table."""
    return _in_jvm(on, lambda: on.client.copy_table(TABLE, on.peer_hbase.address.cluster_key))


def by_connect(on: Bench) -> tuple[float, float]:
    """Walferry's task through the Spark Connect server."""
    return _by_task(on, Place(on.connect()))


def by_spark_submit(on: Bench) -> tuple[float, float]:
    """Walferry's task through spark-submit."""
    return _by_task(on, Place(slots=len(os.sched_getaffinity(0))))


def _in_jvm(on: Bench, copy: Callable[[], None]) -> tuple[float, float]:
    usage, began = TreeUsage(on.client.pid), time.monotonic()
    copy()
    return time.monotonic() - began, usage.stop().cpu_seconds


def _by_task(on: Bench, place: Place) -> tuple[float, float]:
    params = {"peer": MANAGED_PEER, "tables": [TABLE], "allow_not_empty": False}
    ran = operate("initial_snapshot", OPERATOR, {}, params, on.source, f"bench-{on.next_run()}", place, on.log)
    return ran.seconds, ran.cpu_seconds


WAYS: dict[str, Callable[[Bench], tuple[float, float]]] = {
    EXPORT: by_export_snapshot, COPY_TABLE: by_copy_table, CONNECT: by_connect, SUBMITTED: by_spark_submit
}  # fmt: skip


def measured(on: Bench, way: str, *, compare: bool) -> Copy:
    """Copy in one way into a peer cluster without the table, and print what it took."""
    on.peer_cluster.drop_table(TABLE)
    delete_folder(f"{on.peer_hbase.address.wal_root}/archive/data/default/{TABLE}")
    if way == COPY_TABLE:
        on.peer_cluster.create_table(TABLE, {"f": GLOBAL}, even_splits(REGIONS))
    before = region_servers_cpu(on.peer_hbase)
    seconds, job_cpu = WAYS[way](on)
    copy = Copy(way, seconds, job_cpu, region_servers_cpu(on.peer_hbase) - before)
    if compare and not (compared := on.client.compare(TABLE, on.peer_cluster)).same:
        raise RuntimeError(f"{way}: {compared.different} cells differ: {compared.examples}")
    print(copy.line(), flush=True)
    return copy


def in_turn(on: Bench, ways: list[str], round_: int, *, compare: bool = False) -> list[Copy]:
    """Copy in each way. Each round begins with another one."""
    first = round_ % len(ways)
    return [measured(on, way, compare=compare) for way in ways[first:] + ways[:first]]


def main() -> None:
    """Start the clusters, write the table, copy it in turns, print."""
    ways = chosen(os.environ.get("WALFERRY_BENCH_WAYS", ""), {way: way for way in WAYS})
    with bench(Setup(source=UNCOMPACTED, source_heap="3g")) as on:
        for part in range(FILES_A_REGION):
            rows = ROWS // FILES_A_REGION
            on.client.put_many(TABLE, rows, COLUMNS, first=part * rows, value_bytes=VALUE_BYTES)
            on.client.flush(TABLE)
        print(
            f"{ROUNDS} rounds of {ROWS:,} rows, {len(COLUMNS)} cells of {VALUE_BYTES} bytes each, in {REGIONS} regions, ", end=""
        )
        print(f"after one to warm up\n{HEADER}", flush=True)
        in_turn(on, ways, 0, compare=True)
        print("-" * len(HEADER))
        done = [copy for round_ in range(ROUNDS) for copy in in_turn(on, ways, round_)]
        print("-" * len(HEADER))
        by = {way: [copy for copy in done if copy.by == way] for way in ways}
        for way, copies in by.items():
            medians = [statistics.median(of) for of in zip(*((c.seconds, c.job_cpu, c.peer_cpu) for c in copies), strict=True)]
            print(f"{way:{NAME}}{''.join(f'{median:9.1f}' for median in medians)}  (medians)")
        for way in (way for way in (CONNECT, SUBMITTED) if EXPORT in ways and way in ways):
            ratios = [theirs.seconds / ours.seconds for theirs, ours in zip(by[EXPORT], by[way], strict=True)]
            each = ", ".join(f"{ratio:.2f}" for ratio in ratios)
            print(f"{way} beside {EXPORT}: {statistics.median(ratios):.2f} times as fast ({each})")


if __name__ == "__main__":
    main()
