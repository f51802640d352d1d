"""Compares `walferry wal` with HBase's WALPrettyPrinter: processes from start to end, in turns, output to /dev/null.

    PYTHONPATH=plugins python -m bench.wal_show          WALFERRY_BENCH_WAL_MB (256), WALFERRY_BENCH_SHOW_ROUNDS (3)

 show   all cells of one WAL with their values
 find   the cells of one row, in four such WALs

The WALs are written by HBase's own writer: 100-byte values, two cells an entry.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from bench.wal_read import MEGABYTES, HBaseReader, make_keys
from embedded.jars import hbase_classpath
from embedded.java import find_java, jvm_options

ROUNDS = int(os.environ.get("WALFERRY_BENCH_SHOW_ROUNDS", "3"))
FILES = 4
ROW = "0000000000001000"
OURS = [sys.executable, "-m", "walferry.cli", "wal"]


def pretty_printer() -> list[str]:
    jars = os.pathsep.join(map(str, hbase_classpath()))
    options = [*jvm_options(), "-Xmx1g", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
    return [str(find_java()), *options, "-cp", jars, "org.apache.hadoop.hbase.wal.WALPrettyPrinter"]


def seconds(command: Sequence[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return time.perf_counter() - started


def rows_printed(command: Sequence[str]) -> int:
    run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    return run.stdout.count(b"row=")


def measure(what: str, hbase: Sequence[str], ours: Sequence[str]) -> None:
    expected, found = rows_printed(hbase), rows_printed(ours)  # this also compiles our kernels, once for all later runs
    if not expected == found > 0:
        raise RuntimeError(f"{what}: WALPrettyPrinter prints {expected} cells, wal {what} {found}")
    pairs = [(seconds(hbase), seconds(ours)) for _ in range(ROUNDS)]
    ratio = statistics.median(theirs / own for theirs, own in pairs)
    rounds = ", ".join(f"{theirs:.1f} / {own:.1f}" for theirs, own in pairs)
    print(f"wal {what}, {found:,} cells: WALPrettyPrinter / wal {what}, seconds: {rounds}; median of the ratios: {ratio:.1f}")


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="walferry-bench-") as folder:
        files = [str(Path(folder) / f"bench%2C16020%2C1.{number}") for number in range(1, FILES + 1)]
        with HBaseReader(make_keys(Path(folder))) as hbase:
            for file in files:
                hbase.write(Path(file), MEGABYTES * 1_000_000, 2, {})
        measure("show", [*pretty_printer(), "-p", files[0]], [*OURS, "show", "--values", files[0]])
        measure("find", [*pretty_printer(), "-w", ROW, *files], [*OURS, "find", "--row", ROW, folder])


if __name__ == "__main__":
    main()
