"""Writes an HFile's bloom filters: of its rows, prefixes of rows or columns of rows, and of the rows with deleted families.

    chunk  = bits, the lowest bit of each byte first
    meta   = int32 3, int64 bytes, int32 hashes, int32 hashType, int64 keys, int64 maxKeys, int32 chunks, vint len, comparator,
             { int64 offset, int32 diskBytes, vint keyLen, key }{chunks}
    key    = the row | its prefix | of ROWCOL: a cell's key with row and qualifier, no family, timestamp 2^63 - 1, type 255

A chunk has 128 KB, and takes keys as long as false answers stay below one in a hundred. The last chunk is folded in half as often
as its keys allow. The hash is MurmurHash 2.0 (type 1), once with seed 0 and once with the first hash as its seed; the bits are
first + i * second.

Source: HBase's CompoundBloomFilterWriter, BloomFilterChunk, BloomFilterUtil, BloomFilterFactory, MurmurHash, RowColBloomHashKey.
"""

from __future__ import annotations

import enum
import math
import struct
from typing import Final

import numpy as np

from walferry.base.kernels.compiled import inlined
from walferry.base.kernels.read import compare_bytes, read_little_endian, read_uint8
from walferry.base.kernels.types import Bytes, OutBytes
from walferry.base.kernels.write import copy_bytes, put_int
from walferry.hbase.hfiles.blocks import BlockKind, BlockWriter, Placed
from walferry.hbase.hfiles.cells import qualifier_of, row_of
from walferry.hbase.hfiles.index import IndexEntry, encode_root, encode_vint

CHUNK_BYTES: Final = 128 << 10  # io.storefile.bloom.block.size
ERROR_RATE: Final = np.float32(0.01)  # io.storefile.bloom.error.rate
MURMUR: Final = 1
VERSION: Final = 3
LATEST: Final = (1 << 63) - 1
MAXIMUM: Final = 255
_ROWCOL_COMPARATOR: Final = b"org.apache.hadoop.hbase.CellComparatorImpl"
_LN2_SQUARED: Final = math.log(2) * math.log(2)
_META = struct.Struct(">iqiiqqi")
_MASK: Final = 0xFFFFFFFF
_MULTIPLIER: Final = 0x5BD1E995
COLUMN_KEY_BYTES: Final = 12  # bytes of a column's key without its row and qualifier


class Bloom(enum.IntEnum):
    """The parts of cells that a family's filters contain: HBase's BloomType."""

    NONE = 0
    ROW = 1
    ROWCOL = 2
    ROWPREFIX_FIXED_LENGTH = 3


def shape_of(bloom: Bloom) -> tuple[int, int]:
    """Return the number of hashes of a key, and of keys in a chunk, that keep false answers below the error rate."""
    rate = ERROR_RATE
    if bloom is Bloom.ROWCOL:  # readers ask it for the row and for the column
        rate = np.float32(1 - math.sqrt(np.float32(1) - rate))
    bits, log = CHUNK_BYTES * 8, math.log(float(rate))
    hashes = math.ceil(math.log(2) * (bits // int(bits * (_LN2_SQUARED / -log))))
    return hashes, int(-bits * 1.0 / hashes * math.log(1 - math.exp(log / hashes)))


class BloomWriter:
    """One filter of a file. The kernel that fills blocks sets the bits of the current chunk and counts its keys."""

    def __init__(self, bloom: Bloom) -> None:
        self.bloom = bloom
        self.hashes, self.max_keys = shape_of(bloom)
        self.bits: Bytes = np.zeros(0, np.uint8)
        self._first_key: bytes | None = None  # of the current chunk
        self._full: list[tuple[bytes, Bytes]] = []
        self._chunks: list[IndexEntry] = []
        self.keys = self._most_keys = self._bytes = 0  # of all chunks but the current one

    def begin_chunk(self, first_key: bytes) -> None:
        """Begin the next chunk."""
        self.bits = np.zeros(CHUNK_BYTES, np.uint8)
        self._first_key = first_key

    def end_chunk(self, keys: int) -> None:
        """End the current chunk, which contains `keys` keys, if there is one."""
        if self._first_key is None:
            return
        bits, max_keys = self.bits, self.max_keys
        while len(bits) % 2 == 0 and max_keys > 2 * keys:
            bits = bits[: len(bits) // 2] | bits[len(bits) // 2 :]
            max_keys //= 2
        self._full.append((self._first_key, bits))
        self.keys += keys
        self._most_keys += max_keys
        self._bytes += len(bits)
        self._first_key, self.bits = None, np.zeros(0, np.uint8)

    def write_chunk(self, out: BlockWriter) -> Placed | None:
        """Write the first ended chunk that is not written yet, if there is one."""
        if not self._full:
            return None
        first_key, bits = self._full.pop(0)
        placed = out.put(BlockKind.BLOOM_CHUNK, bits.tobytes())
        self._chunks.append(IndexEntry(first_key, placed))
        return placed

    def meta(self) -> bytes:
        """Return the filter's metadata, once all of its chunks are written."""
        comparator = _ROWCOL_COMPARATOR if self.bloom is Bloom.ROWCOL else b""
        head = _META.pack(VERSION, self._bytes, self.hashes, MURMUR, self.keys, self._most_keys, len(self._chunks))
        return head + encode_vint(len(comparator)) + comparator + encode_root(self._chunks)


@inlined
def _murmur(buf: Bytes, start: int, length: int, seed: int) -> int:
    """Return HBase's MurmurHash 2.0 of `buf[start:start + length]`, as a number from 0 on. It takes the last bytes as signed."""
    value = (seed ^ length) & _MASK
    words = length >> 2
    for i in range(words):
        word = read_little_endian(buf, start + 4 * i, 4) * _MULTIPLIER & _MASK
        word = (word ^ word >> 24) * _MULTIPLIER & _MASK
        value = value * _MULTIPLIER & _MASK ^ word
    rest, left = start + 4 * words, length & 3
    if left != 0:
        for i in range(left - 1, -1, -1):
            signed = (read_uint8(buf, rest + i) ^ 0x80) - 0x80
            value ^= signed << 8 * i & _MASK
        value = value * _MULTIPLIER & _MASK
    value = (value ^ value >> 13) * _MULTIPLIER & _MASK
    return int(value ^ value >> 15)


@inlined
def add_key(bits: OutBytes, hashes: int, buf: Bytes, start: int, length: int) -> None:
    """Set the bits of the key `buf[start:start + length]`."""
    first = _murmur(buf, start, length, 0)
    second = _murmur(buf, start, length, first)
    for i in range(hashes):
        signed = ((first + i * second & _MASK) ^ 0x80000000) - 0x80000000
        bit = abs(signed) % (8 * bits.size)
        bits[np.uint64(bit >> 3)] |= np.uint8(1 << (bit & 7))


@inlined
def is_new_key(bloom: int, prefix_len: int, buf: Bytes, pos: int, before: Bytes, before_pos: int) -> bool:
    """Return whether the cell at `pos` of `buf` has another key in the filter than the cell before."""
    start, length = row_of(buf, pos)
    other, other_len = row_of(before, before_pos)
    if bloom == Bloom.ROWPREFIX_FIXED_LENGTH:
        length, other_len = min(length, prefix_len), min(other_len, prefix_len)
    if compare_bytes(buf, start, length, before, other, other_len) != 0:
        return True
    if bloom != Bloom.ROWCOL:
        return False
    start, length = qualifier_of(buf, pos)
    other, other_len = qualifier_of(before, before_pos)
    return compare_bytes(buf, start, length, before, other, other_len) != 0


@inlined
def column_key(buf: Bytes, pos: int, out: OutBytes) -> int:
    """Write the ROWCOL key of the cell at `pos` to `out`. Returns its length."""
    row, row_len = row_of(buf, pos)
    qualifier, qualifier_len = qualifier_of(buf, pos)
    at = copy_bytes(out, put_int(out, 0, row_len, 2), buf, row, row_len)
    at = copy_bytes(out, put_int(out, at, 0, 1), buf, qualifier, qualifier_len)
    return put_int(out, put_int(out, at, LATEST, 8), MAXIMUM, 1)
