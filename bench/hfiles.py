"""Compares our way from sorted runs to an HFile with HBase's StoreFileWriter, one thread each, in turns.

    PYTHONPATH=plugins python -m bench.hfiles          WALFERRY_BENCH_HFILE_MB (128), WALFERRY_BENCH_HFILE_ROUNDS (5)

 sort               gives sorted runs of what a WAL's batches have, which are in memory
 merge and write    merges these runs and writes the file
 HBase's writer     writes the same cells, which are in memory in the file's order; a warm JVM

The cells have rows of 16 bytes, two columns, and values of 100 bytes, in an order like that of many clients' puts. Files go to a
folder of temporary files. Speeds are in MB of cells, as a file without compression and encoding has them.
"""

from __future__ import annotations

import os
import statistics
import struct
import tempfile
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from operator import attrgetter
from pathlib import Path

import numpy as np

from bench.wal_read import Run, Timer
from embedded.store_files import StoreFiles
from walferry.base.kernels.types import Bytes
from walferry.base.protos import hbase_pb2 as pb
from walferry.hbase.hfiles.blocks import Compression
from walferry.hbase.hfiles.encodings import Encoding
from walferry.hbase.hfiles.merge import merge_runs
from walferry.hbase.hfiles.metadata import Origin
from walferry.hbase.hfiles.settings import FileSettings
from walferry.hbase.hfiles.stores import Stores, TargetTable
from walferry.hbase.hfiles.writer import write_file
from walferry.hbase.wal.scan import scan_entries
from walferry.hbase.wal.wal_batches import WalBatch
from walferry.replication.filters.entry_filter import filter_batch
from walferry.replication.filters.rules import FilterRules
from walferry.shipping.bulkload.runs import Edits, sorted_runs

MEGABYTES = int(os.environ.get("WALFERRY_BENCH_HFILE_MB", "128"))
ROUNDS = int(os.environ.get("WALFERRY_BENCH_HFILE_ROUNDS", "5"))
WARM_UP = 3
SETTINGS = {
    "plain": FileSettings(),
    "FAST_DIFF": FileSettings(encoding=Encoding.FAST_DIFF),
    "SNAPPY": FileSettings(compression=Compression.SNAPPY),
    "GZ": FileSettings(compression=Compression.GZ),
}
FAMILY = b"f"
ROW_BYTES, VALUE_BYTES = 16, 100
WAL_BATCH_BYTES = 8 << 20
RULES = FilterRules(uuid.UUID(int=1), uuid.UUID(int=2))
TABLES = {b"bench": TargetTable((FAMILY,), (b"",))}
ORIGIN = Origin(1_700_000_000_000, "bench")


def wal_cell(qualifier: bytes) -> bytes:
    """A cell of a WAL with zeros for its row and its value."""
    key = struct.pack(">H", ROW_BYTES) + bytes(ROW_BYTES) + bytes([len(FAMILY)]) + FAMILY + qualifier
    key += struct.pack(">qB", ORIGIN.created_ms, 4)
    return struct.pack(">iii", 8 + len(key) + VALUE_BYTES, len(key), VALUE_BYTES) + key + bytes(VALUE_BYTES)


@dataclass(frozen=True)
class MemoryRun:
    """A sorted run in memory."""

    data: memoryview

    @property
    def size(self) -> int:
        return len(self.data)

    def read_at(self, offset: int, length: int) -> memoryview:
        return self.data[offset : offset + length]


def make_batch(entries: int, seed: int) -> WalBatch:
    """A batch of puts of two columns, in random order, with values that are like text."""
    rng = np.random.default_rng(seed)
    key = pb.WALKey(encoded_region_name=b"0" * 32, table_name=b"bench", log_sequence_number=seed, write_time=1)
    key.scopes.add(family=FAMILY, scope_type=pb.REPLICATION_SCOPE_GLOBAL)
    key.following_kv_count = 2
    encoded, cells = key.SerializeToString(), [wal_cell(b"a"), wal_cell(b"b")]
    assert len(encoded) < 128
    template = np.frombuffer(bytes([len(encoded)]) + encoded + b"".join(cells), np.uint8)
    rows = np.repeat(template[None], entries, axis=0)
    digits = np.frombuffer(b"0123456789abcdef", np.uint8)[rng.integers(0, 16, (entries, ROW_BYTES))]
    for start in (1 + len(encoded), 1 + len(encoded) + len(cells[0])):
        rows[:, start + 14 : start + 14 + ROW_BYTES] = digits
        value = start + len(cells[0]) - VALUE_BYTES
        rows[:, value : value + VALUE_BYTES] = rng.integers(97, 113, (entries, VALUE_BYTES), np.uint8)
    buf = rows.reshape(-1)
    return WalBatch(buf, 0, scan_entries(buf, 0, len(buf)).index)


def make_edits() -> list[Edits]:
    per_batch = WAL_BATCH_BYTES // (2 * len(wal_cell(b"a")))
    edits = []
    for seed in range(1, 1 + max(1, MEGABYTES * 1_000_000 // WAL_BATCH_BYTES)):
        batch = make_batch(per_batch, seed)
        kept = filter_batch(batch, RULES, "bench")
        edits.append(Edits(batch, kept, np.flatnonzero(kept.cells), "bench"))
    return edits


def sort(edits: Sequence[Edits]) -> tuple[Run, list[Bytes]]:
    timer = Timer()
    stores = Stores(TABLES)
    runs = list(chain.from_iterable(sorted_runs(edits, stores, np.ones(len(stores.list), np.bool_))))
    return timer.stop(None, sum(run.cells for run in runs)), [run.data for run in runs]


def merge_and_write(runs: Sequence[Bytes], path: Path, settings: FileSettings) -> Run:
    timer = Timer()
    with path.open("wb", buffering=0) as file:
        written = write_file(file.write, merge_runs([MemoryRun(run.data) for run in runs]), settings, ORIGIN)
    assert written is not None
    return timer.stop(None, written.cells)


def hbase_writes(hbase: StoreFiles, cells: bytes, path: Path, settings: FileSettings) -> Run:
    took = hbase.write(
        path,
        cells,
        {
            "block": str(settings.block_bytes), "compression": settings.compression.name, "encoding": settings.encoding.name,
            "bloom": settings.bloom.name, "prefix": "0", "checksum": settings.checksum.name, "created": str(ORIGIN.created_ms),
            "task": ORIGIN.task,
        },
    )  # fmt: skip
    return Run(took.seconds, took.cpu_seconds, None, 0)


def show(name: str, runs: Sequence[Run], megabytes: float) -> None:
    wall, cpu = [megabytes / run.seconds for run in runs], [megabytes / run.cpu_seconds for run in runs]
    rounds = " ".join(f"{speed:6.0f}" for speed in wall)
    figures = f"median {statistics.median(wall):6.0f}  best {max(wall):6.0f}  per CPU-second {statistics.median(cpu):6.0f}"
    print(f"  {name:15} {rounds}   {figures}")


def measure(name: str, ways: Mapping[str, Callable[[], Run]], megabytes: float) -> None:
    """Run both ways in turns, and show their speeds and the ratio of these."""
    found: dict[str, list[Run]] = {way: [] for way in ways}
    for _ in range(ROUNDS):
        for way, run in ways.items():
            found[way].append(run())
    print(f"\n{name}; MB/s, round by round")
    for way, runs in found.items():
        show(way, runs, megabytes)
    theirs, own = found.values()
    for what, seconds in (("", attrgetter("seconds")), (" in CPU time", attrgetter("cpu_seconds"))):
        ratio = statistics.median(seconds(t) / seconds(o) for t, o in zip(theirs, own, strict=True))
        print(f"  merge and write / HBase's writer, median of the rounds{what}: {ratio:.2f}")


def main() -> None:
    edits = make_edits()
    with tempfile.TemporaryDirectory(prefix="walferry-bench-") as root, StoreFiles(Path(root) / "jvm", heap="4g") as hbase:
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # ours has one core; the JVM has been started and may use all
        folder = Path(root) / "region" / FAMILY.decode()
        folder.mkdir(parents=True)
        ours, theirs = folder / "0123456789abcdef", folder / "fedcba9876543210"
        sort(edits[:1])  # compiles the kernels, or loads them
        sorts, runs = zip(*(sort(edits) for _ in range(ROUNDS)), strict=True)
        cells = b"".join(chunk.tobytes() for chunk in merge_runs([MemoryRun(run.data) for run in runs[0]]))
        megabytes = len(cells) / 1e6
        print(f"{megabytes:.0f} MB of cells, {sorts[0].cells:,} of them, in {len(runs[0])} runs")
        show("sort", sorts, megabytes)
        for name, settings in SETTINGS.items():
            merge_and_write(runs[0][:1], ours, settings)
            for _ in range(WARM_UP):
                hbase_writes(hbase, cells, theirs, settings)
            ways = {
                "HBase's writer": partial(hbase_writes, hbase, cells, theirs, settings),
                "merge and write": partial(merge_and_write, runs[0], ours, settings),
            }
            measure(name, ways, megabytes)


if __name__ == "__main__":
    main()
