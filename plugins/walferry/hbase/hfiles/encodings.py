"""Encodes cells within data blocks: each cell omits the bytes that it shares with the previous cell.

    encoded block = int16 encoding, int32 rawLen, data           rawLen is the length that the block would have without encoding
    ROW_INDEX_V1  = int16 encoding, cell*, int32 rows, { int32 offset }{rows}, int32 length of all cells
    PREFIX data   = { vint keyLen - common, vint valLen, vint common, rest of the key, value, tags }*
    DIFF data     = int8 famLen, family, { int8 flags, lengths, rest of row and qualifier, time, [type], value, tags }*
    FAST_DIFF     = { int8 flags, lengths, rest of row and qualifier, rest of the time, [type], [value], tags }*
    lengths       = [ vint keyLen ], [ vint valLen ], vint common
    tags          = vint tagsLen, tags

`common` counts the first bytes that the two keys share, without timestamp and type except for PREFIX. Both keys have the same
family, so it counts as common if the rows are equal; DIFF and FAST_DIFF omit it in any case. The first cell of a block has
nothing in common, and FAST_DIFF writes its whole key. Parts that a flag marks as equal are omitted.

    DIFF flags       1 same keyLen, 2 same valLen, 4 same type, 8 the time is the difference to the one before,
                     16 × (bytes of it - 1), 128 the difference is negative   time: little-endian, in as few bytes as it needs
    FAST_DIFF flags  1 × (common first bytes of the time, at most 7), 8 same keyLen, 16 same valLen, 32 same type, 64 same value

ROW_INDEX_V1 omits nothing, and lists where each row begins, counted from the first cell.

`vint` is protobuf's varint. Source: HBase's PrefixKeyDeltaEncoder, DiffKeyDeltaEncoder, FastDiffDeltaEncoder,
BufferedDataBlockEncoder, RowIndexEncoderV1, PrivateCellUtil.findCommonPrefixInFlatKey (branch-2.6).
"""

from __future__ import annotations

import enum
import struct
from typing import Final

import numpy as np

from walferry.base.kernels.compiled import inlined, unmanaged
from walferry.base.kernels.read import common_bytes, compare_bytes
from walferry.base.kernels.types import Bytes, Ints, OutBytes, OutInts
from walferry.base.kernels.write import copy_bytes, put_int, put_varint
from walferry.hbase.hfiles.cells import (
    LENGTHS,
    MIN_CELL,
    cell_end,
    compare_rows,
    family_of,
    key_len_of,
    qualifier_of,
    row_of,
    tags_of,
    timestamp_of,
    type_of,
    value_len_of,
    value_start,
)
from walferry.hbase.wal.cells import KEY_TAIL

MOST_ADDED: Final = 32  # the most bytes by which a cell can grow
ROW_OFFSET: Final = 4  # bytes of a row's offset
ROW_LENGTH: Final = 2
TIME_BYTES: Final = 8


class Encoding(enum.IntEnum):
    """The encodings that blocks are written with, and their codes: HBase's DataBlockEncoding."""

    NONE = 0
    PREFIX = 2
    DIFF = 3
    FAST_DIFF = 4
    ROW_INDEX_V1 = 7


class DiffFlag(enum.IntEnum):
    """The flags of DIFF."""

    SAME_KEY_LEN = 1
    SAME_VALUE_LEN = 2
    SAME_TYPE = 4
    DIFFERENCE = 8
    TIME_BYTES = 16  # the weight of their number less one
    NEGATIVE = 128


class FastFlag(enum.IntEnum):
    """The flags of FAST_DIFF other than the number of common bytes of the time."""

    SAME_KEY_LEN = 8
    SAME_VALUE_LEN = 16
    SAME_TYPE = 32
    SAME_VALUE = 64


@inlined
def _common_key(buf: Bytes, pos: int, before: Bytes, at: int, whole: bool) -> int:
    """Return how many first bytes the keys of two cells of one family share; with timestamp and type if `whole`."""
    row, row_len = row_of(buf, pos)
    other, other_len = row_of(before, at)
    if row_len != other_len:
        return 1 if row_len >> 8 == other_len >> 8 else 0
    common = common_bytes(buf, row, before, other, row_len)
    if common != row_len:
        return ROW_LENGTH + common
    start, length = qualifier_of(buf, pos)
    other_start, other_length = qualifier_of(before, at)
    same = common_bytes(buf, start, before, other_start, min(length, other_length))
    if whole and same == max(length, other_length):
        same += common_bytes(buf, start + length, before, other_start + other_length, KEY_TAIL)
    return start + same - pos - LENGTHS


@inlined
def _put_row_and_qualifier(buf: Bytes, pos: int, common: int, out: OutBytes, to: int) -> int:
    """Write the rest of a cell's key after its first `common` bytes, without family, timestamp and type."""
    key = pos + LENGTHS
    row, row_len = row_of(buf, pos)
    start, length = qualifier_of(buf, pos)
    if common < ROW_LENGTH + row_len:
        to = copy_bytes(out, to, buf, key + common, row + row_len - key - common)
        return copy_bytes(out, to, buf, start, length)
    return copy_bytes(out, to, buf, key + common, start + length - key - common)


@inlined
def _bytes_needed(number: int) -> int:
    """Return how many bytes a non-negative number needs, at least one."""
    count = 1
    while number > 255:
        number >>= 8
        count += 1
    return count


@inlined
def _put_prefix(buf: Bytes, pos: int, common: int, out: OutBytes, to: int) -> int:
    """Write a cell without its tags as PREFIX does."""
    key_len, val_len = key_len_of(buf, pos), value_len_of(buf, pos)
    to = put_varint(out, to, key_len - common)
    to = put_varint(out, to, val_len)
    to = put_varint(out, to, common)
    return copy_bytes(out, to, buf, pos + LENGTHS + common, key_len - common + val_len)


@inlined
def _put_diff(buf: Bytes, pos: int, is_first: bool, before: Bytes, at: int, out: OutBytes, to: int) -> int:
    """Write a cell without its tags as DIFF does."""
    time, key_len, val_len = timestamp_of(buf, pos), key_len_of(buf, pos), value_len_of(buf, pos)
    flags, width, common = 0, _bytes_needed(time), 0
    if is_first:
        family, family_len = family_of(buf, pos)
        to = copy_bytes(out, to, buf, family - 1, 1 + family_len)
    else:
        common = _common_key(buf, pos, before, at, False)
        flags |= DiffFlag.SAME_KEY_LEN if key_len == key_len_of(before, at) else 0
        flags |= DiffFlag.SAME_VALUE_LEN if val_len == value_len_of(before, at) else 0
        flags |= DiffFlag.SAME_TYPE if type_of(buf, pos) == type_of(before, at) else 0
        difference = timestamp_of(before, at) - time
        narrow = _bytes_needed(abs(difference))
        if narrow < width:
            flags |= DiffFlag.DIFFERENCE | (DiffFlag.NEGATIVE if difference < 0 else 0)
            width, time = narrow, abs(difference)
    flags |= (width - 1) * DiffFlag.TIME_BYTES
    to = put_int(out, to, flags, 1)
    to = to if flags & DiffFlag.SAME_KEY_LEN else put_varint(out, to, key_len)
    to = to if flags & DiffFlag.SAME_VALUE_LEN else put_varint(out, to, val_len)
    to = _put_row_and_qualifier(buf, pos, common, out, put_varint(out, to, common))
    for i in range(width):
        to = put_int(out, to, time >> 8 * i & 0xFF, 1)
    to = to if flags & DiffFlag.SAME_TYPE else put_int(out, to, type_of(buf, pos), 1)
    return copy_bytes(out, to, buf, value_start(buf, pos), val_len)


@inlined
def _put_fast_diff(buf: Bytes, pos: int, is_first: bool, before: Bytes, at: int, out: OutBytes, to: int) -> int:
    """Write a cell without its tags as FAST_DIFF does."""
    key_len, val_len = key_len_of(buf, pos), value_len_of(buf, pos)
    if is_first:
        to = put_varint(out, put_varint(out, put_int(out, to, 0, 1), key_len), val_len)
        return copy_bytes(out, put_varint(out, to, 0), buf, pos + LENGTHS, key_len + val_len)
    value, other = value_start(buf, pos), value_start(before, at)
    common = _common_key(buf, pos, before, at, False)
    flags = common_bytes(buf, value - KEY_TAIL, before, other - KEY_TAIL, TIME_BYTES - 1)
    time = value - KEY_TAIL + flags
    flags |= FastFlag.SAME_KEY_LEN if key_len == key_len_of(before, at) else 0
    flags |= FastFlag.SAME_TYPE if type_of(buf, pos) == type_of(before, at) else 0
    if val_len == value_len_of(before, at):
        flags |= FastFlag.SAME_VALUE_LEN
        flags |= FastFlag.SAME_VALUE if compare_bytes(buf, value, val_len, before, other, val_len) == 0 else 0
    to = put_int(out, to, flags, 1)
    to = to if flags & FastFlag.SAME_KEY_LEN else put_varint(out, to, key_len)
    to = to if flags & FastFlag.SAME_VALUE_LEN else put_varint(out, to, val_len)
    to = _put_row_and_qualifier(buf, pos, common, out, put_varint(out, to, common))
    to = copy_bytes(out, to, buf, time, value - 1 - time)
    to = to if flags & FastFlag.SAME_TYPE else put_int(out, to, type_of(buf, pos), 1)
    return to if flags & FastFlag.SAME_VALUE else copy_bytes(out, to, buf, value, val_len)


@inlined
def put_cell(encoding: int, buf: Bytes, pos: int, is_first: bool, before: Bytes, at: int, out: OutBytes, to: int) -> int:
    """Write the cell at `pos` to a block. Returns the position after it.

    If the cell is not the block's first (`is_first`), the previous cell lies at `before[at:]`.
    """
    if encoding in (Encoding.NONE, Encoding.ROW_INDEX_V1):
        return copy_bytes(out, to, buf, pos, cell_end(buf, pos) - pos)
    if encoding == Encoding.PREFIX:
        to = _put_prefix(buf, pos, 0 if is_first else _common_key(buf, pos, before, at, True), out, to)
    elif encoding == Encoding.DIFF:
        to = _put_diff(buf, pos, is_first, before, at, out, to)
    else:
        to = _put_fast_diff(buf, pos, is_first, before, at, out, to)
    tags, tags_len = tags_of(buf, pos)
    return copy_bytes(out, put_varint(out, to, tags_len), buf, tags, tags_len)


def block_head(encoding: Encoding, raw_bytes: int) -> bytes:
    """Return the bytes before a block's cells, which have `raw_bytes` without encoding."""
    if encoding is Encoding.NONE:
        return b""
    return struct.pack(">h", encoding) + (b"" if encoding is Encoding.ROW_INDEX_V1 else struct.pack(">i", raw_bytes))


def block_tail(encoding: Encoding, cells: Bytes) -> bytes:
    """Return the bytes after a block's cells."""
    if encoding is not Encoding.ROW_INDEX_V1:
        return b""
    offsets: Ints = np.empty(len(cells) // MIN_CELL + 1, np.int64)
    rows = _row_offsets(cells, offsets)
    return struct.pack(f">{rows + 2}i", rows, *offsets[:rows].tolist(), len(cells))


@unmanaged
def _row_offsets(cells: Bytes, offsets: OutInts) -> int:
    """Write to `offsets` where each row of the cells begins. Returns the number of rows."""
    rows, pos, before = 0, 0, 0
    while pos < cells.size:
        if rows == 0 or compare_rows(cells, pos, cells, before) != 0:
            offsets[rows] = pos
            rows += 1
        before, pos = pos, cell_end(cells, pos)
    return rows
