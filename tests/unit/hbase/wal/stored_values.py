"""Values as the codecs store them, and their decompression within a buffer that must stay as it is."""

from __future__ import annotations

import gzip

import numpy as np
import zstandard
from hypothesis import strategies as st

from tests.unit.hbase.wal.compressing import ZSTD, Encoder
from walferry.hbase.wal.codecs.values import decompress_values

PLAIN_FRAME = zstandard.ZstdCompressor()
FRAME_WITHOUT_SIZE = zstandard.ZstdCompressor(write_content_size=False)
GAP = 3  # bytes between values in the output, which belong to cells

short = st.binary(max_size=40)
long = st.integers(1, 3000).map(lambda n: b"repeated " * n)
values = st.lists(st.one_of(short, long), max_size=12)


def hadoop_blocks(value: bytes, codec: int, chunk: int) -> bytes:
    data = Encoder(tags=False, codec=codec, chunk=chunk).value(value)
    return data[next(i for i in range(10) if data[i] < 0x80) + 1 :]  # without its length


def compressed(value: bytes, how: str) -> bytes:
    match how:
        case "gzip":
            return gzip.compress(value, mtime=0)
        case "frame":
            return PLAIN_FRAME.compress(value)
        case "frame without its size":
            return FRAME_WITHOUT_SIZE.compress(value)
        case "blocks":
            return hadoop_blocks(value, ZSTD, 1 << 18)
        case "many blocks":
            return hadoop_blocks(value, ZSTD, 100)
        case _:
            raise ValueError(how)


def stored_as(value: bytes, codec: int, how: str) -> bytes:
    if how == "none":
        return value
    if "blocks" in how:
        return hadoop_blocks(value, codec, 100 if how == "many blocks" else 1 << 18)
    return compressed(value, how)


def decompress(codec: int, stored: list[bytes], lengths: list[int]) -> list[bytes]:
    """Decompress, and check that all other bytes of the output stay unchanged. Returns the values."""
    buf = np.frombuffer(b"".join(stored), np.uint8)
    sources = np.cumsum([0, *map(len, stored)])
    targets = GAP + np.cumsum([0, *(length + GAP for length in lengths)])
    out = np.full(targets[-1], 0xAA, np.uint8)
    table = np.array([sources[:-1], np.diff(sources), targets[:-1], lengths], np.int64)
    try:
        decompress_values(codec, buf, out, table)
    finally:
        found = [out[at : at + length].tobytes() for at, length in zip(targets, lengths, strict=False)]
        for at, length in zip(targets, lengths, strict=False):
            out[at : at + length] = 0xAA
        assert (out == 0xAA).all()
        written[:] = found
    return found


written: list[bytes] = []  # by the last call of `decompress`, even if it ended with an error
