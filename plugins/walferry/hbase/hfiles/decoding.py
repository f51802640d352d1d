"""Finds and decodes the cells in an HFile's data blocks, whatever the encoding.

    block = { int32 keyLen, int32 valLen, key, value, [ uint16 tagsLen, tags ], [ vlong sequence id ] }*      not encoded
    encoded blocks                                                                                            see encodings.py

The file's information says whether cells have tags and sequence ids; both also follow the cells of encoded blocks, the tags with
a varint as their length. `vlong` is Hadoop's: one byte from -112 on, or else a byte that tells of 1 to 8 bytes after it.

A decoded cell is int32 keyLen, int32 valLen, key, value, and, if the file has tags, uint16 tagsLen, tags: sequence ids are left
out.

Source: HBase's NoneEncoder, HFileReaderImpl, the decoders of the encoders that encodings.py names (branch-2.6).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from walferry.base.kernels.compiled import inlined, unmanaged
from walferry.base.kernels.read import INCOMPLETE, read_int32, read_uint8, read_uint16, read_varint
from walferry.base.kernels.types import Bytes, Ints, OutBytes, OutInts
from walferry.base.kernels.write import copy_bytes, put_int
from walferry.hbase.hfiles.blocks import BlockKind
from walferry.hbase.hfiles.cells import LENGTHS, TAGS_LENGTH, key_len_of, timestamp_of, type_of, value_len_of, value_start
from walferry.hbase.hfiles.encodings import ROW_LENGTH, TIME_BYTES, DiffFlag, Encoding, FastFlag
from walferry.hbase.hfiles.opened import MAX_BLOCK_BYTES, Block
from walferry.hbase.wal.cells import KEY_TAIL, MAX_ROW, MAX_TAGS, MIN_KEY

NOT_A_CELL: Final = -1  # a block's bytes are no cells
NO_ROOM: Final = -2
_ENCODING_ID = struct.Struct(">h")
_RAW_LENGTH = struct.Struct(">i")
_LENGTHS = struct.Struct(">ii")
_TAGS_LENGTH = struct.Struct(">H")
_NO_BYTES: Final = np.empty(0, np.uint8)
_NO_STARTS: Final = np.empty(0, np.int64)


class Follows(NamedTuple):
    """What follows each cell of a file."""

    tags: bool = False
    sequence_id: bool = False


@dataclass(frozen=True, slots=True)
class Cells:
    """Cells: where each begins in `data`. They are in the order of their keys if they are of one file."""

    data: Bytes
    starts: Ints

    def __len__(self) -> int:
        return len(self.starts)

    def since(self, index: int) -> Cells:
        """Return the cells from `index` on, without copying them."""
        if index == len(self):
            return Cells(_NO_BYTES, _NO_STARTS)
        first = int(self.starts[index])
        return Cells(self.data[first:], self.starts[index:] - first)

    def row(self, index: int) -> bytes:
        """Return a cell's row."""
        start = int(self.starts[index]) + LENGTHS
        length = int.from_bytes(self.data[start : start + ROW_LENGTH].tobytes())
        return self.data[start + ROW_LENGTH : start + ROW_LENGTH + length].tobytes()


def joined(parts: Sequence[Cells]) -> Cells:
    """Return the cells of several parts of a file, in one buffer."""
    ends = np.cumsum([0, *(len(part.data) for part in parts)])
    starts = [part.starts + end for part, end in zip(parts, ends, strict=False)]
    return Cells(np.concatenate([_NO_BYTES, *(part.data for part in parts)]), np.concatenate([_NO_STARTS, *starts]))


def cells_of(block: Block, follows: Follows) -> Cells:
    """Return the cells of a data block. Raises ValueError if its bytes are no cells, or of an encoding that is not known."""
    buf: Bytes = np.frombuffer(block.data, np.uint8)
    if block.magic == BlockKind.DATA.value:
        return _plain(buf, 0, len(buf), follows)
    if len(buf) < _ENCODING_ID.size + _RAW_LENGTH.size:
        raise ValueError("an encoded block is too short")
    encoding = Encoding(_ENCODING_ID.unpack_from(buf.data)[0])
    if encoding is Encoding.ROW_INDEX_V1:
        (length,) = _RAW_LENGTH.unpack_from(buf.data, len(buf) - _RAW_LENGTH.size)
        if not 0 <= length <= len(buf) - _ENCODING_ID.size:
            raise ValueError("an encoded block is broken")
        return _plain(buf, _ENCODING_ID.size, _ENCODING_ID.size + length, follows)
    (length,) = _RAW_LENGTH.unpack_from(buf.data, _ENCODING_ID.size)
    if not 0 <= length <= MAX_BLOCK_BYTES:
        raise ValueError(f"an encoded block has {length:,} bytes")
    out: Bytes = np.empty(length, np.uint8)  # memory that no cell is written to is never touched
    starts: Ints = np.empty(length // (LENGTHS + MIN_KEY) + 1, np.int64)
    count = decode_block(buf, _ENCODING_ID.size + _RAW_LENGTH.size, int(encoding), *follows, out, starts)
    if count < 0:
        raise ValueError(f"a block in the encoding {encoding.name} is broken")
    used = int(starts[count - 1]) + _cell_bytes(out, int(starts[count - 1]), tags=follows.tags) if count else 0
    return Cells(out[:used], starts[:count])


def _cell_bytes(data: Bytes, start: int, *, tags: bool) -> int:
    key_len, val_len = _LENGTHS.unpack_from(data.data, start)
    end = int(LENGTHS + key_len + val_len)
    return end + TAGS_LENGTH + int(_TAGS_LENGTH.unpack_from(data.data, start + end)[0]) if tags else end


def _plain(buf: Bytes, begin: int, end: int, follows: Follows) -> Cells:
    starts: Ints = np.empty((end - begin) // (LENGTHS + MIN_KEY) + 1, np.int64)
    count = find_cells(buf, begin, end, *follows, starts)
    if count < 0:
        raise ValueError("a block's bytes are no cells")
    return Cells(buf, starts[:count])


@inlined
def _is_key(buf: Bytes, key: int, key_len: int) -> bool:
    """Return whether the lengths in the key of `key_len` bytes fit."""
    row_len = int(np.int64(read_uint16(buf, key)))
    return (
        row_len <= MAX_ROW
        and row_len <= key_len - MIN_KEY
        and read_uint8(buf, key + ROW_LENGTH + row_len) <= key_len - MIN_KEY - row_len
    )


@inlined
def _after_vlong(buf: Bytes, pos: int, end: int) -> int:
    """Return the position after a vlong; NOT_A_CELL if there is none."""
    if pos >= end:
        return NOT_A_CELL
    first = read_uint8(buf, pos)
    if first < 0x80 or first >= 0x90:  # as a signed byte, from -112 on
        return pos + 1
    width = 0x88 - first if first < 0x88 else 0x90 - first
    return pos + 1 + width if pos + 1 + width <= end else NOT_A_CELL


@unmanaged
def find_cells(buf: Bytes, begin: int, end: int, tags: bool, sequence_ids: bool, starts: OutInts) -> int:
    """Write to `starts` where the cells in `buf[begin:end]` begin. Returns their number; NOT_A_CELL if the bytes are no cells."""
    pos, count = begin, 0
    while pos < end:
        if end - pos < LENGTHS + MIN_KEY:
            return NOT_A_CELL
        key_len, val_len = read_int32(buf, pos), read_int32(buf, pos + 4)
        if (
            key_len < MIN_KEY
            or val_len < 0
            or key_len + val_len > end - pos - LENGTHS
            or not _is_key(buf, pos + LENGTHS, key_len)
        ):
            return NOT_A_CELL
        starts[count] = pos
        count += 1
        pos += LENGTHS + key_len + val_len
        if tags:
            if pos + 2 > end:
                return NOT_A_CELL
            pos += 2 + int(np.int64(read_uint16(buf, pos)))
            if pos > end:
                return NOT_A_CELL
        if sequence_ids:
            pos = _after_vlong(buf, pos, end)
            if pos < 0:
                return NOT_A_CELL
    return count


@unmanaged
def decode_block(buf: Bytes, begin: int, encoding: int, tags: bool, sequence_ids: bool, out: OutBytes, starts: OutInts) -> int:
    """Decode the cells from `begin` on to `out`, and write to `starts` where they begin there.

    Returns their number; NOT_A_CELL if the bytes are no cells, and NO_ROOM if there are more of them than `out` has room for.
    """
    pos, end, to, count, before = begin, buf.size, 0, 0, -1
    family = family_len = 0
    if encoding == Encoding.DIFF:
        if pos >= end:
            return NOT_A_CELL
        family_len, family = read_uint8(buf, pos), pos + 1
        pos = family + family_len
        if pos > end:
            return NOT_A_CELL
    while pos < end:
        if count >= starts.size:
            return NO_ROOM
        if encoding == Encoding.PREFIX:
            pos, after = _prefix(buf, pos, end, before, out, to)
        elif encoding == Encoding.DIFF:
            pos, after = _diff(buf, pos, end, before, family, family_len, out, to)
        else:
            pos, after = _fast_diff(buf, pos, end, before, out, to)
        if pos < 0:
            return pos
        starts[count] = to
        count += 1
        before, to = to, after
        if tags:
            tags_len, pos = read_varint(buf, pos, end)
            if pos < 0 or not 0 <= tags_len <= min(end - pos, MAX_TAGS):
                return NOT_A_CELL
            if TAGS_LENGTH + tags_len > out.size - to:
                return NO_ROOM
            to = copy_bytes(out, put_int(out, to, tags_len, TAGS_LENGTH), buf, pos, tags_len)
            pos += tags_len
        if sequence_ids:
            pos = _after_vlong(buf, pos, end)
            if pos < 0:
                return NOT_A_CELL
    return count


@inlined
def _length(buf: Bytes, pos: int, end: int) -> tuple[int, int]:
    """Return (length, position after it) of the varint at `pos`. The position is negative if there is no sound length."""
    value, after = read_varint(buf, pos, end)
    return (value, after) if after >= 0 and 0 <= value <= MAX_BLOCK_BYTES else (0, INCOMPLETE)


@inlined
def _begin_cell(out: OutBytes, to: int, key_len: int, val_len: int, before: int, common: int) -> int:
    """Write a cell's lengths, and the `common` bytes of its key. Returns the position after them; NOT_A_CELL, NO_ROOM."""
    if key_len < MIN_KEY or common > key_len or (common > 0 and (before < 0 or common > key_len_of(out, before))):
        return NOT_A_CELL
    if key_len + val_len > out.size - to - LENGTHS:
        return NO_ROOM
    to = put_int(out, put_int(out, to, key_len, 4), val_len, 4)
    return copy_bytes(out, to, out, before + LENGTHS, common) if common else to


@inlined
def _prefix(buf: Bytes, pos: int, end: int, before: int, out: OutBytes, to: int) -> tuple[int, int]:
    """Decode a cell of PREFIX. Returns the position after it in `buf`, or what is wrong, and in `out`."""
    rest, pos = _length(buf, pos, end)
    if pos < 0:
        return NOT_A_CELL, 0
    val_len, pos = _length(buf, pos, end)
    if pos < 0:
        return NOT_A_CELL, 0
    common, pos = _length(buf, pos, end)
    if pos < 0 or rest + val_len > end - pos:
        return NOT_A_CELL, 0
    at = _begin_cell(out, to, rest + common, val_len, before, common)
    if at < 0:
        return at, 0
    at = copy_bytes(out, at, buf, pos, rest + val_len)
    return (pos + rest + val_len, at) if _is_key(out, to + LENGTHS, rest + common) else (NOT_A_CELL, 0)


@inlined
def _row_and_qualifier(
    buf: Bytes, pos: int, end: int, before: int, common: int, family: int, family_len: int, out: OutBytes, to: int
) -> int:
    """Write the rest of the row, the family and the rest of the qualifier of the cell at `out[to:]`, whose first `common` bytes
    are written. The family lies at `buf[family:]`, with `family_len` bytes, if there is no cell `before`.

    Returns the position in `buf` after them; NOT_A_CELL.
    """
    key, key_len = to + LENGTHS, key_len_of(out, to)
    at = key + common
    if common < ROW_LENGTH:
        missing = ROW_LENGTH - common
        if missing > end - pos:
            return NOT_A_CELL
        at = copy_bytes(out, at, buf, pos, missing)
        pos += missing
    row_end = key + ROW_LENGTH + int(np.int64(read_uint16(out, key)))
    if row_end - key > key_len - (MIN_KEY - ROW_LENGTH):
        return NOT_A_CELL
    if common < row_end - key:
        if row_end - at > end - pos:
            return NOT_A_CELL
        pos += row_end - at
        at = copy_bytes(out, at, buf, pos - (row_end - at), row_end - at)
        if before < 0:
            if family_len > key_len - MIN_KEY - (row_end - key - ROW_LENGTH):
                return NOT_A_CELL
            at = copy_bytes(out, put_int(out, at, family_len, 1), buf, family, family_len)
        else:
            other = before + LENGTHS + ROW_LENGTH + int(np.int64(read_uint16(out, before + LENGTHS)))
            length = read_uint8(out, other)
            if length > key_len - MIN_KEY - (row_end - key - ROW_LENGTH):
                return NOT_A_CELL
            at = copy_bytes(out, at, out, other, 1 + length)
    rest = key + key_len - KEY_TAIL - at
    if rest < 0 or rest > end - pos:
        return NOT_A_CELL
    copy_bytes(out, at, buf, pos, rest)
    return pos + rest


@inlined
def _lengths(
    buf: Bytes, pos: int, end: int, same_key: bool, same_value: bool, out: OutBytes, before: int
) -> tuple[int, int, int, int]:
    """Return (keyLen, valLen, common, position after them) of a cell of DIFF or FAST_DIFF. Lengths that are the same as those of
    the cell `before` are not there. The position is negative if there are no sound lengths.
    """
    key_len = val_len = 0
    if same_key:
        key_len = key_len_of(out, before)
    else:
        key_len, pos = _length(buf, pos, end)
        if pos < 0:
            return 0, 0, 0, pos
    if same_value:
        val_len = value_len_of(out, before)
    else:
        val_len, pos = _length(buf, pos, end)
        if pos < 0:
            return 0, 0, 0, pos
    common, pos = _length(buf, pos, end)
    if pos >= 0 and common > key_len - KEY_TAIL:
        return 0, 0, 0, NOT_A_CELL
    return key_len, val_len, common, pos


@inlined
def _diff(buf: Bytes, pos: int, end: int, before: int, family: int, family_len: int, out: OutBytes, to: int) -> tuple[int, int]:
    """Decode a cell of DIFF. Returns as `_prefix` does."""
    if pos >= end:
        return NOT_A_CELL, 0
    flags = read_uint8(buf, pos)
    pos += 1
    if before < 0 and flags & (DiffFlag.SAME_KEY_LEN | DiffFlag.SAME_VALUE_LEN | DiffFlag.SAME_TYPE | DiffFlag.DIFFERENCE):
        return NOT_A_CELL, 0
    same_key, same_value = flags & DiffFlag.SAME_KEY_LEN != 0, flags & DiffFlag.SAME_VALUE_LEN != 0
    key_len, val_len, common, pos = _lengths(buf, pos, end, same_key, same_value, out, before)
    if pos < 0:
        return NOT_A_CELL, 0
    at = _begin_cell(out, to, key_len, val_len, before, common)
    if at < 0:
        return at, 0
    pos = _row_and_qualifier(buf, pos, end, before, common, family, family_len, out, to)
    width = (flags // DiffFlag.TIME_BYTES & 7) + 1
    if pos < 0 or width > end - pos:
        return NOT_A_CELL, 0
    time = 0
    for i in range(width):
        time |= read_uint8(buf, pos + i) << 8 * i
    pos += width
    if flags & DiffFlag.DIFFERENCE:
        time = timestamp_of(out, before) - (-time if flags & DiffFlag.NEGATIVE else time)
    kind = 0
    if flags & DiffFlag.SAME_TYPE:
        kind = type_of(out, before)
    else:
        if pos >= end:
            return NOT_A_CELL, 0
        kind = read_uint8(buf, pos)
        pos += 1
    if val_len > end - pos:
        return NOT_A_CELL, 0
    at = value_start(out, to)
    put_int(out, put_int(out, at - KEY_TAIL, time, TIME_BYTES), kind, 1)
    at = copy_bytes(out, at, buf, pos, val_len)
    return (pos + val_len, at) if _is_key(out, to + LENGTHS, key_len) else (NOT_A_CELL, 0)


@inlined
def _fast_diff(buf: Bytes, pos: int, end: int, before: int, out: OutBytes, to: int) -> tuple[int, int]:
    """Decode a cell of FAST_DIFF. Returns as `_prefix` does."""
    if pos >= end:
        return NOT_A_CELL, 0
    flags = read_uint8(buf, pos)
    pos += 1
    if before < 0 and flags:
        return NOT_A_CELL, 0
    same_key, same_value = flags & FastFlag.SAME_KEY_LEN != 0, flags & FastFlag.SAME_VALUE_LEN != 0
    key_len, val_len, common, pos = _lengths(buf, pos, end, same_key, same_value, out, before)
    if pos < 0:
        return NOT_A_CELL, 0
    at = _begin_cell(out, to, key_len, val_len, before, common)
    if at < 0:
        return at, 0
    if before < 0:
        if common or key_len + val_len > end - pos:
            return NOT_A_CELL, 0
        at = copy_bytes(out, at, buf, pos, key_len + val_len)
        return (pos + key_len + val_len, at) if _is_key(out, to + LENGTHS, key_len) else (NOT_A_CELL, 0)
    pos = _row_and_qualifier(buf, pos, end, before, common, 0, 0, out, to)
    same = flags & (TIME_BYTES - 1)
    rest = TIME_BYTES - same + (0 if flags & FastFlag.SAME_TYPE else 1)
    if pos < 0 or rest > end - pos:
        return NOT_A_CELL, 0
    value, other = value_start(out, to), value_start(out, before)
    at = copy_bytes(out, value - KEY_TAIL, out, other - KEY_TAIL, same)
    at = copy_bytes(out, at, buf, pos, TIME_BYTES - same)
    put_int(out, at, type_of(out, before) if flags & FastFlag.SAME_TYPE else read_uint8(buf, pos + TIME_BYTES - same), 1)
    pos += rest
    if flags & FastFlag.SAME_VALUE:
        if not flags & FastFlag.SAME_VALUE_LEN:
            return NOT_A_CELL, 0
        at = copy_bytes(out, value, out, other, val_len)
    else:
        if val_len > end - pos:
            return NOT_A_CELL, 0
        at = copy_bytes(out, value, buf, pos, val_len)
        pos += val_len
    return (pos, at) if _is_key(out, to + LENGTHS, key_len) else (NOT_A_CELL, 0)
