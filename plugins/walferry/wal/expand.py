"""Entries of a compressed WAL, turned into those of an uncompressed one by one compiled pass.

    entry  = varint(key length) WALKey cell{following_kv_count}
    WALKey = as in an uncompressed WAL, but a `field` instead of region, table, each scope's family, each attribute's value
    cell   = varint keyLen, varint valLen, varint tagsLen, row, family, qualifier: field each,
             int64 timestamp, int8 type, value [, tags]
    value  = valLen bytes | varint length, compressed bytes                with value compression
    tags   = tagsLen bytes | field{as many as make tagsLen bytes}          with tag compression
    field  = see dictionaries.py

keyLen, valLen and tagsLen are those of the uncompressed cell. Compressed values are left out: the pass says where they are and
where they belong. Source: HBase's WALCellCodec.CompressedKvDecoder, WALKeyImpl.readFieldsFromPb, TagCompressionContext.

Reading changes the dictionaries, so the pass never reads anything twice: it stops before a key or a cell that is not whole, or
for which out, arena or tables have no room, and goes on there when it is called again.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from walferry.wal._compiled import inlined, unmanaged
from walferry.wal.dictionaries import (
    FAMILY,
    FIRST,
    LENGTH,
    LONGEST,
    NO_ENTRY,
    QUALIFIER,
    REGION,
    ROW,
    SIZE,
    TABLE,
    TAG,
    field_end,
    read_field,
)
from walferry.wal.output import copy_bytes, put_varint, varint_len
from walferry.wal.scan import (
    BAD_CELL_COUNT,
    BAD_CELL_KEY,
    BAD_CELL_LENGTHS,
    BAD_KEY_FIELD,
    BAD_KEY_LENGTH,
    BAD_TAGS,
    CELL_LENGTHS,
    ENTRY_TOO_LONG,
    INCOMPLETE,
    MAX_ENTRY_BYTES,
    MAX_FAMILY,
    MAX_KEY_BYTES,
    MAX_ROW,
    MAX_TAGS,
    MIN_KEY,
    OVERLONG,
    Bytes,
    Ints,
    read_uint16,
    read_varint,
    skip_field,
)

# What stops a pass, besides what is wrong (positive, as of scan.py).
NEED_INPUT: Final = -1  # up to NEED
NEED_OUT: Final = -2  # NEED bytes of it
NEED_ARENA: Final = -3  # NEED bytes of it
NEED_TABLES: Final = -4  # a wider one for the entries or values
BAD_INDEX: Final = 32

# Elements of the state. Positions are in the buffer, but for ENTRY_START.
POS, OUT, CELLS_LEFT, ENTRY_START, ENTRY_OUT, ENTRIES, VALUES, AT, NEED, STATE = range(10)
AT_ENTRY: Final = -1  # of CELLS_LEFT: before a key

# Rows of the tables of whole entries and of compressed values.
FILE_START, FILE_END, OUT_START = range(3)
SOURCE, SOURCE_LEN, TARGET, TARGET_LEN = range(4)

KEY_FRAME: Final = 16  # bytes that a key's own length may take
MIN_COMPRESSED_CELL: Final = 18  # three lengths, three indices, timestamp, type


@inlined
def _put_uint16(out: Bytes, at: int, value: int) -> int:
    out[np.uint64(at)] = value >> 8
    out[np.uint64(at + 1)] = value & 0xFF
    return at + 2


@inlined
def _put_int32(out: Bytes, at: int, value: int) -> int:
    for i in range(4):
        out[np.uint64(at + i)] = value >> (24 - 8 * i) & 0xFF
    return at + 4


@inlined
def _field_length(lists: Ints, nodes: Ints, d: int, buf: Bytes, pos: int, end: int) -> int:
    """The length of the bytes that the field `buf[pos:end]` stands for; NO_ENTRY for an index without an entry, or -1."""
    if pos >= end or field_end(buf, pos, end) != end:
        return -1
    if buf[np.uint64(pos)] == 0xFF:
        length, _ = read_varint(buf, pos + 1, end)
        return length
    index = read_uint16(buf, pos)
    return nodes[LENGTH, lists[FIRST, d] + index] if index < lists[SIZE, d] else NO_ENTRY


@inlined
def _put_message(
    lists: Ints, nodes: Ints, arena: Bytes, used: Ints, d: int, number: int, buf: Bytes, pos: int, end: int, out: Bytes, at: int
) -> int:
    """The message `buf[pos:end]` with its field `number`, of bytes, expanded: its length and itself. Negative: what is wrong."""
    length, p = end - pos, pos
    while p < end:
        tag, value = read_varint(buf, p, end)
        after = skip_field(buf, value, end, tag & 7) if value > 0 else -1
        if after < 0:
            return -BAD_KEY_FIELD
        if tag >> 3 == number and tag & 7 == 2:
            _, start = read_varint(buf, value, end)
            full = _field_length(lists, nodes, d, buf, start, after)
            if full < 0:
                return -BAD_INDEX if full == NO_ENTRY else -BAD_KEY_FIELD
            length += 1 + varint_len(full) + full - (after - p)
        p = after
    at, p = put_varint(out, at, length), pos
    while p < end:
        tag, value = read_varint(buf, p, end)
        after = skip_field(buf, value, end, tag & 7)
        if tag >> 3 == number and tag & 7 == 2:
            _, start = read_varint(buf, value, end)
            at = put_varint(out, at, tag)
            at = _put_bytes(lists, nodes, arena, used, d, buf, start, after, out, at)
        else:
            at = copy_bytes(out, at, buf, p, after - p)
        p = after
    return at


@inlined
def _put_bytes(
    lists: Ints, nodes: Ints, arena: Bytes, used: Ints, d: int, buf: Bytes, pos: int, end: int, out: Bytes, at: int
) -> int:
    """What the field `buf[pos:end]` stands for: its length and itself. Negative: what is wrong."""
    length = _field_length(lists, nodes, d, buf, pos, end)
    if length < 0:
        return -BAD_INDEX if length == NO_ENTRY else -BAD_KEY_FIELD
    at = put_varint(out, at, length)
    read_field(lists, nodes, arena, used, d, buf, pos, end, out, at, length)
    return at + length


@inlined
def _expand_key(
    lists: Ints, nodes: Ints, arena: Bytes, used: Ints, buf: Bytes, pos: int, end: int, out: Bytes, at: int
) -> tuple[int, int]:
    """(end of the WALKey that was put to `out[at:]`, its cells), or (what is wrong, negative, 0)."""
    cells = 0
    while pos < end:
        tag, value = read_varint(buf, pos, end)
        if value < 0 or tag < 8:
            return -BAD_KEY_FIELD, 0
        after = skip_field(buf, value, end, tag & 7)
        if after < 0:
            return -BAD_KEY_FIELD, 0
        field = tag >> 3
        if field in (1, 2, 6, 12):
            if tag & 7 != 2:
                return -BAD_KEY_FIELD, 0
            _, start = read_varint(buf, value, end)
            at = put_varint(out, at, tag)
            if field == 6:
                at = _put_message(lists, nodes, arena, used, FAMILY, 1, buf, start, after, out, at)
            elif field == 12:
                at = _put_message(lists, nodes, arena, used, TABLE, 2, buf, start, after, out, at)
            else:
                at = _put_bytes(lists, nodes, arena, used, REGION if field == 1 else TABLE, buf, start, after, out, at)
            if at < 0:
                return at, 0
        else:
            if field == 7 and tag & 7 == 0:
                count, _ = read_varint(buf, value, end)
                cells = count & 0xFFFFFFFF
            at = copy_bytes(out, at, buf, pos, after - pos)
        pos = after
    return at, cells


@inlined
def _walk_cell(buf: Bytes, pos: int, end: int, at_end: bool, tags_compressed: bool, values_compressed: bool) -> tuple[
    int, int, int, int, int, int, int
]:  # fmt: skip
    """(0, keyLen, valLen, tagsLen, start of row, start of value's bytes, their number) of a cell that is wholly there.

    Else the first is what is wrong, or NEED_INPUT with the end that is needed as second.
    """
    key_len, p = read_varint(buf, pos, end)
    val_len, p = read_varint(buf, p, end) if p > 0 else (0, p)
    tags_len, p = read_varint(buf, p, end) if p > 0 else (0, p)
    if p < 0:
        return (NEED_INPUT, end + 1, 0, 0, 0, 0, 0) if p == INCOMPLETE else (BAD_CELL_LENGTHS, 0, 0, 0, 0, 0, 0)
    if not MIN_KEY <= key_len <= MAX_ENTRY_BYTES or not 0 <= val_len <= MAX_ENTRY_BYTES or not 0 <= tags_len <= MAX_TAGS:
        return BAD_CELL_LENGTHS, 0, 0, 0, 0, 0, 0
    row = p
    for _ in range(3):
        if p > 0:
            p = field_end(buf, p, end)
    if p < 0:
        return (NEED_INPUT, end + 1, 0, 0, 0, 0, 0) if p == INCOMPLETE else (BAD_CELL_KEY, 0, 0, 0, 0, 0, 0)
    value, stored = p + 9, val_len
    if values_compressed:
        if value >= end:
            return NEED_INPUT, value + 1, 0, 0, 0, 0, 0
        stored, value = read_varint(buf, value, end)
        if value < 0 or not 0 <= stored <= MAX_ENTRY_BYTES:
            return (NEED_INPUT, end + 1, 0, 0, 0, 0, 0) if value == INCOMPLETE else (BAD_CELL_LENGTHS, 0, 0, 0, 0, 0, 0)
    tags = value + stored
    # How long compressed tags are is known only when they are read: no longer than twice as long.
    need = tags + (0 if tags_compressed and at_end else 2 * tags_len if tags_compressed else tags_len)
    if need > end:
        return NEED_INPUT, need, 0, 0, 0, 0, 0
    return 0, key_len, val_len, tags_len, row, value, stored


@inlined
def _expand_cell(
    lists: Ints, nodes: Ints, arena: Bytes, used: Ints, buf: Bytes, pos: int, key_len: int, val_len: int, tags_len: int,
    value: int, stored: int, end: int, tags_compressed: bool, out: Bytes, at: int,
) -> tuple[int, int, int]:  # fmt: skip
    """(position after the cell, where its value belongs in out, 0), or (where, 0, what is wrong) or, NEED_INPUT as the last."""
    tags_part = 2 + tags_len if tags_len else 0
    at = _put_int32(out, at, 8 + key_len + val_len + tags_part)
    at = _put_int32(out, at, key_len)
    at = _put_int32(out, at, val_len)
    left = key_len - MIN_KEY
    after, row_len = read_field(lists, nodes, arena, used, ROW, buf, pos, end, out, at + 2, min(left, MAX_ROW))
    if after < 0 or row_len > min(left, MAX_ROW):
        return pos, 0, BAD_INDEX if after < 0 else BAD_CELL_KEY
    _put_uint16(out, at, row_len)
    at += 2 + row_len
    left -= row_len
    pos = after
    after, length = read_field(lists, nodes, arena, used, FAMILY, buf, pos, end, out, at + 1, min(left, MAX_FAMILY))
    if after < 0 or length > min(left, MAX_FAMILY):
        return pos, 0, BAD_INDEX if after < 0 else BAD_CELL_KEY
    out[np.uint64(at)] = length
    at += 1 + length
    left -= length
    pos = after
    after, length = read_field(lists, nodes, arena, used, QUALIFIER, buf, pos, end, out, at, left)
    if after < 0 or length != left:
        return pos, 0, BAD_INDEX if after < 0 else BAD_CELL_KEY
    at = copy_bytes(out, at + length, buf, after, 9)
    pos, target = value + stored, at
    at += val_len
    if not tags_len:
        return pos, target, 0
    at = _put_uint16(out, at, tags_len)
    if not tags_compressed:
        copy_bytes(out, at, buf, pos, tags_len)
        return pos + tags_len, target, 0
    stop = at + tags_len
    while at < stop:
        whole = field_end(buf, pos, end)
        if whole < 0:
            return end + 1, 0, NEED_INPUT if whole == INCOMPLETE else BAD_TAGS
        after, length = read_field(lists, nodes, arena, used, TAG, buf, pos, end, out, at + 2, stop - at - 2)
        if after < 0 or length > stop - at - 2:
            return pos, 0, BAD_INDEX if after < 0 else BAD_TAGS
        _put_uint16(out, at, length)
        at += 2 + length
        pos = after
    return pos, target, 0


@unmanaged
def expand_into(
    buf: Bytes, end: int, at_end: bool, base: int, tags_compressed: bool, values_compressed: bool,
    lists: Ints, nodes: Ints, arena: Bytes, used: Ints, out: Bytes, entries: Ints, values: Ints, state: Ints,
) -> int:  # fmt: skip
    """Expand from `state[POS]` on. `base` is the buffer's offset in the file, `at_end` says that nothing follows it there.

    Returns why it stopped: one of the NEEDs, or what is wrong at `state[AT]`.
    """
    while True:
        pos, at = state[POS], state[OUT]
        state[AT] = state[NEED] = pos
        if state[CELLS_LEFT] == AT_ENTRY:
            if pos >= end:
                return NEED_INPUT
            if state[ENTRIES] == entries.shape[1]:
                return NEED_TABLES
            state[ENTRY_START], state[ENTRY_OUT] = base + pos, at
            key_len, key = read_varint(buf, pos, end)
            if key == OVERLONG or (key > 0 and not 0 < key_len <= MAX_KEY_BYTES):
                return BAD_KEY_LENGTH
            if key == INCOMPLETE or key + key_len > end:
                state[NEED] = end + 1 if key == INCOMPLETE else key + key_len
                return NEED_INPUT
            longest = max(lists[LONGEST, REGION], lists[LONGEST, TABLE], lists[LONGEST, FAMILY])
            room = KEY_FRAME + 4 * key_len + key_len // 2 * longest
            if room > MAX_ENTRY_BYTES:
                return ENTRY_TOO_LONG
            if used[0] + key_len > arena.size:
                state[NEED] = key_len
                return NEED_ARENA
            if at + room > out.size:
                state[NEED] = room
                return NEED_OUT
            # The length comes first and is known last: a varint of five bytes, whatever it is.
            stop, cells = _expand_key(lists, nodes, arena, used, buf, key, key + key_len, out, at + 5)
            if stop < 0:
                state[AT] = key
                return -stop
            length = stop - at - 5
            for i in range(5):
                out[np.uint64(at + i)] = (length >> (7 * i) & 127) | (128 if i < 4 else 0)
            if cells * MIN_COMPRESSED_CELL > MAX_ENTRY_BYTES:
                return BAD_CELL_COUNT
            state[POS], state[OUT], state[CELLS_LEFT] = key + key_len, stop, cells
        elif state[CELLS_LEFT] == 0:
            entry = state[ENTRIES]
            entries[FILE_START, entry] = state[ENTRY_START]
            entries[FILE_END, entry] = base + pos
            entries[OUT_START, entry] = state[ENTRY_OUT]
            state[ENTRIES] = entry + 1
            state[CELLS_LEFT] = AT_ENTRY
        else:
            status, key_len, val_len, tags_len, row, value, stored = _walk_cell(
                buf, pos, end, at_end, tags_compressed, values_compressed
            )
            if status != 0:
                state[NEED] = key_len  # the end that is needed, if it is that
                return status
            room = CELL_LENGTHS + key_len + val_len + 2 + tags_len
            if at + room - state[ENTRY_OUT] > MAX_ENTRY_BYTES + MAX_KEY_BYTES:
                return ENTRY_TOO_LONG
            if used[0] + key_len + 2 * tags_len > arena.size:
                state[NEED] = key_len + 2 * tags_len
                return NEED_ARENA
            if at + room > out.size:
                state[NEED] = room
                return NEED_OUT
            if state[VALUES] == values.shape[1]:
                return NEED_TABLES
            after, target, status = _expand_cell(
                lists, nodes, arena, used, buf, row, key_len, val_len, tags_len, value, stored, end, tags_compressed, out, at
            )
            if status != 0:
                state[AT] = state[NEED] = after
                return status
            if not values_compressed:
                copy_bytes(out, target, buf, value, val_len)
            elif val_len > 0:
                v = state[VALUES]
                values[SOURCE, v], values[SOURCE_LEN, v] = value, stored
                values[TARGET, v], values[TARGET_LEN, v] = target, val_len
                state[VALUES] = v + 1
            state[POS], state[OUT] = after, at + room - (0 if tags_len else 2)
            state[CELLS_LEFT] -= 1
