"""A compressed file's entries are expanded cell by cell, and everything before a wrong byte is right."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.hbase.wal.compressed_samples import SAMPLE, SAMPLES, SOME_QUICKLY, plain, read
from tests.unit.hbase.wal.compressing import SNAPPY, Encoder, compress
from tests.unit.hbase.wal.encoder import PUT, Cell, entry
from tests.unit.hbase.wal.small_buffers import small_buffers
from walferry.hbase.wal.errors import WalOverrunError


@pytest.mark.long
@pytest.mark.parametrize("codec", SOME_QUICKLY)
@pytest.mark.parametrize(
    ("wal_batch_bytes", "buffer", "wrong_bytes"),
    [
        (64, 300, ("flip",)),
        pytest.param(64, 300, (0, 1, 0x7F, 0x80, 0xFF), marks=pytest.mark.slow),
        pytest.param(1 << 20, 1 << 20, (0, 1, 0x7F, 0x80, 0xFF, "flip"), marks=pytest.mark.slow),
    ],
)
def test_everything_before_a_wrong_byte_is_right(
    codec: str, wal_batch_bytes: int, buffer: int, wrong_bytes: tuple[Any, ...]
) -> None:
    data, offsets = SAMPLES[codec]
    errors = 0
    for at in range(offsets[0], offsets[-1]):
        for wrong in wrong_bytes:
            broken = bytearray(data)
            broken[at] = data[at] ^ 1 if wrong == "flip" else wrong
            with small_buffers(buffer, buffer):
                found = read(bytes(broken), wal_batch_bytes=wal_batch_bytes)
            before = sum(end <= at for end in offsets[1:])
            assert found.entries[:before] == plain(SAMPLE[:before]), (at, wrong)
            errors += found.error is not None
    assert errors > 100


def test_a_cell_count_that_lies_is_an_error() -> None:
    lying = entry(Cell(b"r", b"f", b"q", 1, PUT, b"v"))
    lying.key.following_kv_count = 3
    data, offsets = compress([*SAMPLE, lying], Encoder(tags=True, codec=None))
    found = read(data)
    assert isinstance(found.error, WalOverrunError)
    assert found.error.offset == offsets[-2]
    assert found.entries == plain(SAMPLE)


@pytest.mark.slow
def test_a_cell_of_a_hundred_megabytes_is_read() -> None:
    big = entry(Cell(b"row", b"f", b"q", 1, PUT, bytes(100 << 20)))
    data, _ = compress([*SAMPLE, big, *SAMPLE], Encoder(tags=True, codec=SNAPPY))
    assert len(data) < 10 << 20
    found = read(data)
    assert found.error is None
    assert found.entries == plain([*SAMPLE, big, *SAMPLE])
