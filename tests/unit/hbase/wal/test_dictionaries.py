"""A compressed file's dictionaries equal HBase's writer's, also full ones, and take little more than their contents."""

from __future__ import annotations

import random
import tracemalloc

import numpy as np
import pytest

from tests.unit.hbase.wal.compressed_samples import SAMPLE, SAMPLES, plain, read
from tests.unit.hbase.wal.compressing import Encoder, compress
from tests.unit.hbase.wal.encoder import PUT, Cell, encode_tags, entry
from tests.unit.hbase.wal.memory_file import MemoryFile
from tests.unit.hbase.wal.small_buffers import small_buffers
from walferry.hbase.wal.errors import WalCorruptError
from walferry.hbase.wal.reader import read_wal_batches


def test_an_index_without_an_entry_is_reported_with_its_offset() -> None:
    data, offsets = SAMPLES["no codec"]
    at = data.index(b"\x00\x00", offsets[1] + 30)  # the row's
    broken = data[:at] + b"\x12\x34" + data[at + 2 :]
    found = read(broken)
    assert isinstance(found.error, WalCorruptError)
    assert "names an entry that its dictionary does not have" in str(found.error)
    assert f"begins at byte {offsets[1]}" in str(found.error)
    assert found.entries == plain(SAMPLE[:1])


@pytest.mark.parametrize("arena", [100, 2000, 1 << 20])
def test_an_entry_that_takes_the_place_of_one_of_another_length_is_read(arena: int) -> None:
    choose = random.Random(arena)
    qualifiers = [choose.randbytes(choose.choice([1, 5, 40, 200])) + b"%d" % i for i in range(300)]  # of which 127 are kept
    many = [
        entry(*(Cell(b"row", b"f", choose.choice(qualifiers[n // 3 : n // 3 + 150]), 1, PUT, b"") for _ in range(4)))
        for n in range(450)
    ]
    data, _ = compress(many, Encoder(tags=True, codec=None))
    with small_buffers(arena):
        found = read(data)
    assert (found.error, found.entries) == (None, plain(many))


@pytest.mark.long
def test_dictionaries_take_a_quarter_more_than_their_contents() -> None:
    filler = random.Random(1).randbytes(1 << 20)
    sizes = [600, 1800, 1200]  # rows of different lengths replace each other
    rows = (b"%d" % i + filler[i : i + sizes[i % 3]] for i in range(36_000))
    data, _ = compress((entry(Cell(row, b"f", b"q", 1, PUT, b"")) for row in rows), Encoder(tags=True, codec=None))
    live = 32_767 * 1200
    tracemalloc.start()
    try:
        with small_buffers(1 << 20, 1 << 20):
            batches = read_wal_batches(MemoryFile(data), "wal", 0, wal_batch_bytes=1 << 20, partial_tail="error")
            count = sum(len(batch.index) for batch in batches)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert count == 36_000
    arena = live * 5 // 4
    copied = arena if np.lib.NumpyVersion(np.__version__) >= "2.5.0" else 0  # its resize() holds both for a moment
    assert live < peak < arena + copied + (14 << 20), f"{peak >> 20} MB for {live >> 20} MB"


@pytest.mark.slow
@pytest.mark.parametrize("wal_batch_bytes", [100_000, 8 << 20])
def test_dictionaries_that_are_full_reuse_the_index_that_was_touched_longest_ago(wal_batch_bytes: int) -> None:
    rng = random.Random(wal_batch_bytes)
    rows = [b"row%d" % i for i in range(50_000)]
    entries_ = []
    for i in range(4000):
        # Mostly new rows, tags and qualifiers, and some that were evicted long ago or used a moment ago.
        chosen = [rng.choice(rows[max(0, i * 12 - 40_000) : i * 12 + 12] or rows) for _ in range(25)]
        cells = [
            Cell(row, b"f%d" % rng.randrange(140), b"q%d" % rng.randrange(300), 1, PUT, row, tags)
            for row in chosen
            for tags in [encode_tags([(1, row), (2, b"t" + row)])]
        ]
        entries_.append(entry(*cells, region=b"region%d" % rng.randrange(40_000), table=b"t%d" % (i % 3)))
    data, offsets = compress(entries_, Encoder(tags=True, codec=None))
    found = read(data, wal_batch_bytes=wal_batch_bytes)
    assert found.error is None
    assert found.entries == plain(entries_)
    assert read(data, offsets[3000]).entries == plain(entries_[3000:])
