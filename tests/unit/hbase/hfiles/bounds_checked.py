"""Puts broken batches and runs through sorting, cutting, merging and writing. To be run with NUMBA_BOUNDSCHECK=1.

Ends with IndexError if a kernel reaches outside of its buffer, and with any other error that is not of what it was given.
"""

import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tests.unit.hbase.hfiles.edits import global_entry, runs_of
from tests.unit.hbase.hfiles.models import random_cells, stored
from tests.unit.hbase.hfiles.test_merge import encoded
from tests.unit.hbase.wal.encoder import encode_entry
from tests.unit.hbase.wal.memory_file import MemoryFile
from tests.unit.replication.filters.test_entry_filter import RULES
from walferry.hbase.hfiles import merge
from walferry.hbase.hfiles.blocks import Checksum, Compression
from walferry.hbase.hfiles.bloom import Bloom
from walferry.hbase.hfiles.cutting import cut
from walferry.hbase.hfiles.encodings import Encoding
from walferry.hbase.hfiles.errors import BadCells, BrokenRun, NoSuchStore, OrderUnknown
from walferry.hbase.hfiles.merge import merge_runs
from walferry.hbase.hfiles.metadata import Origin
from walferry.hbase.hfiles.settings import FileSettings
from walferry.hbase.hfiles.stores import TargetTable
from walferry.hbase.hfiles.writer import write_file
from walferry.hbase.wal.errors import WalCorruptError
from walferry.hbase.wal.scan import scan_entries
from walferry.hbase.wal.wal_batches import WalBatch
from walferry.replication.filters.entry_filter import filter_batch
from walferry.shipping.bulkload.runs import Edits

TABLES = {b"t": TargetTable((b"f", b"fam", b"gg"), (b"", b"row-8", b"row-80000000"))}
CELLS = random_cells(3, 24, value=20)
WAL_BATCH = b"".join(
    encode_entry(global_entry([replace(cell, family=b"f") for cell in CELLS[i : i + 4]], i)) for i in range(0, 24, 4)
)


def spoilt(rng: random.Random, data: bytes) -> bytes:
    """The data with up to three bytes changed, and perhaps cut off."""
    broken = bytearray(data)
    for _ in range(rng.randint(0, 3)):
        broken[rng.randrange(len(broken))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
    return bytes(broken if rng.random() < 0.8 else broken[: rng.randint(1, len(broken))])


def sort(data: bytes) -> list[bytes] | None:
    """The runs of a batch, or None if it cannot be sorted."""
    buf = np.frombuffer(data, np.uint8)
    batch = WalBatch(buf, 0, scan_entries(buf, 0, len(buf)).index)
    try:
        kept = filter_batch(batch, RULES, "wal")
        entries = np.flatnonzero(kept.cells)
        edits = [Edits(batch, kept, some, "wal") for some in np.array_split(entries, 2)]
        return [run.data.tobytes() for run in runs_of(edits, TABLES, memory_bytes=1)]
    except (NoSuchStore, WalCorruptError):
        return None


def write(rng: random.Random, runs: Sequence[bytes]) -> bool:
    """Tell whether a file was written of some runs."""
    settings = FileSettings(
        rng.choice([1, 200, 5000]), rng.choice(list(Compression)), rng.choice(list(Encoding)), rng.choice(list(Bloom)),
        rng.randint(1, 9), rng.choice(list(Checksum)),
    )  # fmt: skip
    merge.MIN_PART_BYTES = merge.MAX_PART_BYTES = rng.choice([1, 60, 1000])
    cells = merge_runs([MemoryFile(memoryview(run)) for run in runs], chunk_bytes=rng.choice([1, 100, 5000]))
    out = bytearray()
    try:
        return write_file(out.extend, cells, settings, Origin(1, "task")) is not None
    except (BrokenRun, BadCells, OrderUnknown):
        return False


def write_directly(rng: random.Random, cells: bytes) -> bool:
    """Tell whether a file was written of cells that no merge has looked at."""
    settings = FileSettings(100, encoding=rng.choice(list(Encoding)), bloom=rng.choice(list(Bloom)), prefix_len=3)
    try:
        return write_file(lambda data: None, [np.frombuffer(cells, np.uint8)], settings, Origin(1, "task")) is not None
    except BadCells:
        return False


def cut_at_a_row(rng: random.Random, run: bytes) -> bool:
    """Tell whether a run was cut at a row."""
    try:
        cut(
            MemoryFile(memoryview(run)),
            rng.choice([b"", b"row-8", b"z", rng.randbytes(4)]),
            chunk_bytes=rng.choice([1, 100, 5000]),
        )
    except BrokenRun:
        return False
    return True


def main() -> None:
    rng = random.Random(1)
    sorted_batches = sum(sort(spoilt(rng, WAL_BATCH)) is not None for _ in range(2_000))
    assert 200 < sorted_batches < 1_990, sorted_batches
    sound = [encoded([(cell, rng.randrange(3), rng.randrange(3)) for cell in CELLS[i::2]]) for i in (0, 1, 0)]
    written = sum(write(rng, [spoilt(rng, sound[0]), *sound[1:]]) for _ in range(3_000))
    assert 300 < written < 2_900, written
    flat = b"".join(map(stored, CELLS))
    written = sum(write_directly(rng, spoilt(rng, flat)) for _ in range(3_000))
    assert 300 < written < 2_900, written
    whole = sum(cut_at_a_row(rng, spoilt(rng, sound[1])) for _ in range(3_000))
    assert 300 < whole < 2_900, whole
    print("within bounds")


if __name__ == "__main__":
    main()
