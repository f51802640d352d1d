"""Compares our way from a WAL to files of Iceberg with Spark's own write of the same rows as Parquet, in turns, on one core each.

    PYTHONPATH=plugins python -m bench.changes          WALFERRY_BENCH_WAL_MB (256), WALFERRY_BENCH_WAL_ROUNDS (5)

 Walferry    reads the WAL, filters, decodes, sorts by row, writes Parquet, and makes Iceberg's figures of the files
 Spark       writes the same rows, which it holds in memory, sorted: DataFrameWriter.parquet, local[1], with the same codec

The WAL is HBase's own writer's: 100-byte values, 8 regions, two cells an entry. Then one commit of many files is timed, and a
commit on top of many snapshots.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from uuid import UUID

import psutil
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table
from pyspark.sql import DataFrame, SparkSession

from bench.wal_read import MEGABYTES, HBaseReader, make_keys
from walferry.hbase.files.systems import open_wal
from walferry.hbase.wal.reader import read_wal_batches
from walferry.replication.filters.entry_filter import filter_batch
from walferry.replication.filters.rules import FilterRules
from walferry.replication.sinks.changes import Wal, changes_of
from walferry.replication.sinks.iceberg.commits import Batch, Positions, append, positions_of
from walferry.replication.sinks.iceberg.data_files import ChangeFile, DataFiles, Target
from walferry.replication.sinks.iceberg.tables import table_of

ROUNDS = int(os.environ.get("WALFERRY_BENCH_WAL_ROUNDS", "5"))
GROUPS, COMMITS = 500, 100
RULES = FilterRules(UUID(int=1), UUID(int=2))
CODEC = "zstd"


def write_changes(wal: Path, name: str, target: Target) -> list[ChangeFile]:
    """What a task does with a WAL."""
    writer, place = DataFiles({name: target}), Wal("bench%2C16020%2C1", wal.name, f"file://{wal}")
    with open_wal(place.path) as file:
        for batch in read_wal_batches(file, place.path, 0, partial_tail="error"):
            for found in changes_of(batch, filter_batch(batch, RULES, place.path), place):
                writer.add(found)
    return writer.finish()


def table_in(wal: Path) -> str:
    """The name of the table whose edits are in the WAL."""
    with open_wal(f"file://{wal}") as file:
        batch = next(iter(read_wal_batches(file, str(wal), 0, partial_tail="error")))
        return next(changes_of(batch, filter_batch(batch, RULES, str(wal)), Wal("g", wal.name, str(wal)))).table


def timed(work: Callable[[], object], process: psutil.Process) -> tuple[float, float]:
    """Wall-clock seconds of some work, and the processor time of a process meanwhile."""
    before, began = process.cpu_times(), time.perf_counter()
    work()
    after = process.cpu_times()
    return time.perf_counter() - began, after.user + after.system - before.user - before.system


def in_turns(
    ways: Mapping[str, tuple[Callable[[], object], psutil.Process]], *, warm_up: int
) -> dict[str, list[tuple[float, float]]]:
    """Do the work of all ways in turns. Returns what `timed` says of each round behind those that warm up."""
    found: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
    for number in range(ROUNDS + warm_up):
        for way, (work, process) in ways.items():
            one = timed(work, process)
            if number >= warm_up:
                found[way].append(one)
    return found


def print_ratio(found: Mapping[str, list[tuple[float, float]]], ours: str, other: str) -> None:
    """Print how many times as fast our way is, round by round, and how many times as little processor time it takes."""
    pairs = list(zip(found[ours], found[other], strict=True))
    wall, cpu = (statistics.median(theirs[i] / mine[i] for mine, theirs in pairs) for i in (0, 1))
    print(f"  {ours} / {other}, median of the rounds: {wall:.2f} (in CPU time {cpu:.2f})", flush=True)


def rows_in_spark(files: list[ChangeFile], folder: Path) -> DataFrame:
    spark = (
        SparkSession.builder.master("local[1]").appName("bench").config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "6g").config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.parquet.compression.codec", CODEC).config("spark.log.level", "ERROR")
        .config("spark.local.dir", str(folder)).getOrCreate()
    )  # fmt: skip
    rows = spark.read.parquet(*(file.path for file in files)).cache()
    print(f"{rows.count():,} rows in Spark's memory")
    return rows


def compare(wal: Path, table: Table, folder: Path) -> None:
    name, target, size = table_in(wal), Target.of(table), wal.stat().st_size / 1e6
    files = write_changes(wal, name, target)
    rows = rows_in_spark(files, folder)
    jvm = next(child for child in psutil.Process().children(recursive=True) if "SparkSubmit" in " ".join(child.cmdline()))
    out = f"file://{folder}/spark"
    ways: dict[str, tuple[Callable[[], object], psutil.Process]] = {
        "Walferry": (lambda: write_changes(wal, name, target), psutil.Process()),
        "Spark": (lambda: rows.write.mode("overwrite").parquet(out), jvm),
    }
    found = in_turns(ways, warm_up=2)  # of the JVM
    bytes_of = {"Walferry": sum(file.size for file in files), "Spark": _bytes_in(folder / "spark")}
    print(f"WAL of {size:.0f} MB; MB of the WAL a second, round by round")
    for way, runs in found.items():
        rounds = " ".join(f"{size / wall:5.0f}" for wall, _ in runs)
        cpu = statistics.median(size / each for _, each in runs)
        print(f"  {way:9} {rounds}   per CPU-second {cpu:5.0f}; files of {bytes_of[way] / 1e6:.0f} MB")
    print_ratio(found, "Walferry", "Spark")


def _bytes_in(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*.parquet"))


def commits(wal: Path, table: Table) -> None:
    """Time a commit of a file for each of many WAL groups, and small commits, one after the other."""
    (file, *_) = write_changes(wal, table_in(wal), Target.of(table))
    groups = [f"server{n}.example.com%2C16020%2C1764000000000" for n in range(GROUPS)]
    moved = {group: (f"{group}.1764000000001", 1) for group in groups}
    began = time.perf_counter()
    append(table, Batch("peer", "0"), [file] * GROUPS, seen=Positions(), moved=moved)
    print(f"a commit of {GROUPS} files of as many WAL groups: {time.perf_counter() - began:.2f} s")
    seconds = []
    for number in range(COMMITS):
        began = time.perf_counter()
        table.refresh()
        next_one = {group: (name, offset + number + 1) for group, (name, offset) in moved.items()}
        append(table, Batch("peer", str(number)), [file], seen=positions_of(table, "peer"), moved=next_one)
        seconds.append(time.perf_counter() - began)
    print(
        f"a commit of one file, on top of {COMMITS} snapshots: {statistics.median(seconds[-10:]):.2f} s; first {seconds[0]:.2f} s"
    )


def written_wal(folder: Path) -> Path:
    """Let HBase's own writer write a WAL."""
    wal = folder / "bench%2C16020%2C1.1"
    with HBaseReader(make_keys(folder)) as hbase:
        hbase.write(wal, MEGABYTES * 1_000_000, 2, {})
    return wal


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="walferry-bench-") as name:
        folder = Path(name)
        wal = written_wal(folder)
        catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/warehouse")
        compare(wal, table_of(catalog, ("default", "changes")), folder)
        commits(wal, table_of(catalog, ("default", "commits")))


if __name__ == "__main__":
    main()
