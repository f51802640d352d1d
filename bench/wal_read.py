"""Compares our WAL reader with HBase's own, on the same file in the page cache, one thread each, in turns.

    PYTHONPATH=plugins python -m bench.wal_read          WALFERRY_BENCH_WAL_MB (256), WALFERRY_BENCH_WAL_ROUNDS (7)

 HBase's reader   iterates entries and cells and drops them; a warm JVM
 scan             finds all entries and walks their cells, over the mapped file
 read and scan    the same through `read_wal_batches`, as shipping does: the file is copied into batches
 decode           to Arrow record batches, one row a cell, everything copied into columns

The files are written by HBase's own writer: 100-byte values, 8 regions, and either two cells an entry (single puts of two
columns) or 400 (batches). The scan is to reach 5 GB/s, and decoding to be faster than HBase's reader.

Then the same of compressed files, with a tag a cell and values that are like text, in bytes of the file: there `read and scan`
gives entries as they are shipped. And of encrypted files, without tags, which HBase's own reader could not read.
"""

from __future__ import annotations

import mmap
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from embedded.hbase import write_site
from embedded.jars import codec_classpath, hbase_classpath
from embedded.java import find_java, jvm_options
from walferry.hbase.crypto.provider import KeyProvider
from walferry.hbase.files.systems import open_wal
from walferry.hbase.wal.arrow import read_batches
from walferry.hbase.wal.header import TAIL_BYTES, parse_header, trailer_start
from walferry.hbase.wal.reader import read_wal_batches
from walferry.hbase.wal.scan import scan_entries

MEGABYTES = int(os.environ.get("WALFERRY_BENCH_WAL_MB", "256"))
ROUNDS = int(os.environ.get("WALFERRY_BENCH_WAL_ROUNDS", "7"))
WARM_UP = 4  # reads by which a JVM has compiled what matters
WAL_BATCH = 8 << 20
SHAPES = {"2 cells an entry": 2, "400 cells an entry": 400}
CODECS = {
    f"hbase.io.compress.{name}.codec": f"org.apache.hadoop.hbase.io.compress.{codec}"
    for name, codec in (("lz4", "aircompressor.Lz4Codec"), ("zstd", "zstd.ZstdCodec"))
}
_WAL = "hbase.regionserver.wal"
_DICTIONARIES = {f"{_WAL}.enablecompression": "true", f"{_WAL}.tags.enablecompression": "true"}
COMPRESSIONS = {
    "dictionaries without tags": {**_DICTIONARIES, f"{_WAL}.tags.enablecompression": "false"},
    "dictionaries and tags": _DICTIONARIES,
    **{
        f"dictionaries, tags and {codec.upper()} values": {
            **_DICTIONARIES, f"{_WAL}.value.enablecompression": "true", f"{_WAL}.value.compression.type": codec,
        }
        for codec in ("gz", "snappy", "lz4", "zstd")
    },
}  # fmt: skip
ENCRYPTION = {f"{_WAL}.encryption": "true"}


@dataclass(frozen=True)
class Run:
    """One pass over the file, by one thread."""

    seconds: float
    cpu_seconds: float
    entries: int | None  # None if only cells are handed out
    cells: int


class HBaseReader:
    """The JVM behind WalReadBench.java; `keys` is the URL of the key provider for encrypted files."""

    def __init__(self, keys: str) -> None:
        self._keys = keys

    def __enter__(self) -> Self:
        # HBase takes the codecs' classes from the configuration on the class path only.
        self._conf = tempfile.TemporaryDirectory(prefix="walferry-bench-conf-")
        write_site(Path(self._conf.name) / "hbase-site.xml", CODECS)
        jars = os.pathsep.join(map(str, [self._conf.name, *hbase_classpath(), *codec_classpath()]))
        command = [find_java(), *jvm_options(), "-Xmx1g", "-cp", jars]
        command += [f"-Dwalferry.bench.keys={self._keys}"]
        command += ["-Dorg.slf4j.simpleLogger.defaultLogLevel=error", Path(__file__).with_name("WalReadBench.java")]
        self._jvm = subprocess.Popen(list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        assert self._jvm.stdin is not None
        self._jvm.stdin.close()
        self._jvm.wait(timeout=60)
        self._conf.cleanup()

    def write(self, path: Path, size: int, cells_an_entry: int, settings: Mapping[str, str]) -> None:
        words = [f"{name}={value}" for name, value in settings.items()]
        self._ask(" ".join(["write", str(path), str(size), str(cells_an_entry), *words]))

    def read(self, path: Path) -> Run:
        nanoseconds, cpu_nanoseconds, entries, cells = map(int, self._ask(f"read {path}").split())
        return Run(nanoseconds / 1e9, cpu_nanoseconds / 1e9, entries, cells)

    def _ask(self, line: str) -> str:
        assert self._jvm.stdin is not None
        assert self._jvm.stdout is not None
        self._jvm.stdin.write(line + "\n")
        self._jvm.stdin.flush()
        answer = self._jvm.stdout.readline()
        if not answer:
            raise RuntimeError(f"HBase's reader ended with code {self._jvm.wait(timeout=60)}; its error is above")
        return answer


class Timer:
    """Wall-clock and CPU seconds of the calling thread since it was made."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.thread_time()

    def stop(self, entries: int | None, cells: int) -> Run:
        return Run(time.perf_counter() - self._wall, time.thread_time() - self._cpu, entries, cells)


def scan(path: Path) -> Run:
    """Scan the mapped file, batch by batch. The mapping itself does not count."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_POPULATE
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, flags=flags, prot=mmap.PROT_READ) as mapped:
        buf = np.frombuffer(mapped, dtype=np.uint8)
        pos = parse_header(bytes(mapped[:1000]), str(path)).first_entry
        end = trailer_start(mapped[-TAIL_BYTES:], len(mapped))
        assert end is not None
        entries = cells = 0
        timer = Timer()
        while pos < end:
            found = scan_entries(buf, pos, min(end, pos + WAL_BATCH))
            entries += len(found.index)
            cells += int(found.index.cell_count.sum())
            pos = found.consumed
        run = timer.stop(entries, cells)
        del buf, found  # or the file could not be unmapped
        return run


def read_and_scan(path: Path, keys: KeyProvider | None = None) -> Run:
    entries = cells = 0
    timer = Timer()
    with open_wal(f"file://{path}") as file:
        for wal_batch in read_wal_batches(file, str(path), 0, wal_batch_bytes=WAL_BATCH, partial_tail="error", unwrap_key=keys):
            entries += len(wal_batch.index)
            cells += int(wal_batch.index.cell_count.sum())
    return timer.stop(entries, cells)


def decode(path: Path, keys: KeyProvider | None = None) -> Run:
    cells = 0
    timer = Timer()
    with open_wal(f"file://{path}") as file:
        for batch in read_batches(file, str(path), unwrap_key=keys):
            cells += batch.num_rows
    return timer.stop(None, cells)


def measure(hbase: HBaseReader, path: Path, shape: str, ours: Mapping[str, Callable[[Path], Run]], judged: str) -> None:
    """Run HBase's reader and `ours` in turns; the verdict is of the way `judged`."""
    size = path.stat().st_size / 1e6
    for _ in range(WARM_UP):
        expected = hbase.read(path)
    print(f"\n{shape}: {size:.0f} MB, {expected.entries:,} entries, {expected.cells:,} cells; MB/s, round by round")
    ways: dict[str, Callable[[Path], Run]] = {"HBase's reader": hbase.read, **ours}
    for way in ways.values():
        way(path)  # ours are compiled, or loaded, at their first call
    runs: dict[str, list[Run]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, way in ways.items():
            run = way(path)
            if run.cells != expected.cells or run.entries not in (None, expected.entries):
                raise RuntimeError(f"{name} found {run.entries} entries and {run.cells} cells")
            runs[name].append(run)
    for name, found in runs.items():
        wall, cpu = [size / run.seconds for run in found], [size / run.cpu_seconds for run in found]
        rounds = " ".join(f"{speed:6.0f}" for speed in wall)
        figures = f"median {statistics.median(wall):6.0f}  best {max(wall):6.0f}  per CPU-second {statistics.median(cpu):6.0f}"
        print(f"  {name:15} {rounds}   {figures}")
    pairs = list(zip(runs["HBase's reader"], runs[judged], strict=True))
    wall_ratio = statistics.median(theirs.seconds / own.seconds for theirs, own in pairs)
    cpu_ratio = statistics.median(theirs.cpu_seconds / own.cpu_seconds for theirs, own in pairs)
    print(f"  {judged} / HBase's reader, median of the rounds: {wall_ratio:.2f} (in CPU time {cpu_ratio:.2f})")


def make_keys(folder: Path) -> str:
    """A key store with a key, in `folder`; the URL of the key provider."""
    command = [find_java().with_name("keytool"), "-genseckey", "-keystore", folder / "keys", "-storetype", "JCEKS"]
    command += ["-keyalg", "AES", "-keysize", "128", "-alias", "hbase"]
    command += ["-storepass", "of the benchmark", "-keypass", "of the benchmark"]
    subprocess.run(list(map(str, command)), check=True, capture_output=True)
    (folder / "passwords").write_text("hbase=of the benchmark\n")
    return f"jceks://{folder}/keys?passwordFile={folder}/passwords"


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="walferry-bench-") as folder, HBaseReader(url := make_keys(Path(folder))) as hbase:
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # ours has one core; the JVM has been started and may use all
        path = Path(folder) / "bench%2C16020%2C1.1"
        for shape, cells_an_entry in SHAPES.items():
            hbase.write(path, MEGABYTES * 1_000_000, cells_an_entry, {})
            measure(hbase, path, shape, {"scan": scan, "read and scan": read_and_scan, "decode": decode}, "decode")
            path.unlink()
        for name, settings in COMPRESSIONS.items():
            hbase.write(path, MEGABYTES * 1_000_000 // 2, 20, settings)
            measure(hbase, path, name, {"read and scan": read_and_scan, "decode": decode}, "read and scan")
            path.unlink()
        keys = KeyProvider(url)
        ours = {"read and scan": partial(read_and_scan, keys=keys), "decode": partial(decode, keys=keys)}
        for shape, cells_an_entry in SHAPES.items():
            hbase.write(path, MEGABYTES * 1_000_000 // 2, cells_an_entry, ENCRYPTION)
            measure(hbase, path, f"encrypted, {shape}", ours, "read and scan")
            path.unlink()


if __name__ == "__main__":
    main()
