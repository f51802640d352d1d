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

from walferry.kernels.compiled import inlined, unmanaged
from walferry.kernels.read import INCOMPLETE, OVERLONG, Bytes, Ints, read_uint16, read_varint, skip_field
from walferry.kernels.write import copy_bytes, put_varint, varint_len
from walferry.wal.codecs.dictionaries import (
    FAMILY,
    FIRST,
    LENGTH,
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
from walferry.wal.scan import (
    BAD_CELL_COUNT,
    BAD_CELL_KEY,
    BAD_CELL_LENGTHS,
    BAD_KEY_FIELD,
    BAD_KEY_LENGTH,
    BAD_TAGS,
    CELL_LENGTHS,
    ENTRY_TOO_LONG,
    MAX_ENTRY_BYTES,
    MAX_FAMILY,
    MAX_KEY_BYTES,
    MAX_ROW,
    MAX_TAGS,
    MIN_KEY,
)

# What stops a pass, besides what is wrong (positive, as of scan.py).
NEED_INPUT: Final = -1  # up to NEED
NEED_OUT: Final = -2  # NEED bytes of it
NEED_ARENA: Final = -3  # NEED bytes of it
NEED_TABLES: Final = -4  # a wider one for the entries or values
BAD_INDEX: Final = 32
BAD_VALUE_LENGTH: Final = 33

# Elements of the state. Positions are in the buffer, but for ENTRY_START.
POS, OUT, CELLS_LEFT, ENTRY_START, ENTRY_OUT, ENTRIES, VALUES, AT, NEED, STATE = range(10)
AT_ENTRY: Final = -1  # of CELLS_LEFT: before a key
TOO_LONG: Final = -4  # beside NO_ENTRY

# Rows of the tables of whole entries and of compressed values.
FILE_START, FILE_END, OUT_START = range(3)
SOURCE, SOURCE_LEN, TARGET, TARGET_LEN = range(4)

KEY_FRAME: Final = 5  # bytes that a key's own length takes
FIELD_FRAME: Final = 8  # bytes more that the lengths of a field, and of the message that it is in, may take once expanded
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
    """How many bytes the field `buf[pos:end]`, which is whole, stands for; NO_ENTRY for an index without an entry."""
    if buf[np.uint64(pos)] == 0xFF:
        length, _ = read_varint(buf, pos + 1, end)
        return length
    index = read_uint16(buf, pos)
    return nodes[lists[FIRST, d] + index, LENGTH] if index < lists[SIZE, d] else NO_ENTRY


@inlined
def _read_field(buf: Bytes, pos: int, end: int) -> tuple[int, int, int]:
    """(tag, start of the value, or of its bytes if it has a length, end) of the protobuf field at `pos`; end < 0 if broken."""
    tag, value = read_varint(buf, pos, end)
    if value < 0:
        return tag, value, value
    if tag & 7 != 2:
        return tag, value, skip_field(buf, value, end, tag & 7)
    length, start = read_varint(buf, value, end)
    return tag, start, start + length if start > 0 and 0 <= length <= end - start else INCOMPLETE


@inlined
def _find_field(buf: Bytes, pos: int, end: int, number: int) -> tuple[int, int, int]:
    """(start, start of its bytes, end) of the one field `number`, of bytes, of the message `buf[pos:end]`.

    All are `end` if the message has none; the first is negative if the message is malformed, or has more than one.
    """
    found, first, last = end, end, end
    while pos < end:
        tag, start, after = _read_field(buf, pos, end)
        if after < 0:
            return -1, 0, 0
        if tag >> 3 == number and tag & 7 == 2:
            if found < end:
                return -1, 0, 0
            found, first, last = pos, start, after
        pos = after
    return found, first, last


@inlined
def _key_room(lists: Ints, nodes: Ints, buf: Bytes, pos: int, end: int) -> int:
    """How long the WALKey `buf[pos:end]` is at most, once expanded; negative: what is wrong with it.

    An index stands for the entry that its dictionary has now, or, as fields change the dictionaries too, for one that an earlier
    field of the same key brings along. 4 M indices for 16 MB each: all that a key can hold is far from an int64's limit.
    """
    room, longest, seen = end - pos, 0, 0
    while pos < end:
        tag, start, after = _read_field(buf, pos, end)
        if after < 0 or tag < 8:
            return -BAD_KEY_FIELD
        field = tag >> 3
        if field in (1, 2, 6, 12):
            if tag & 7 != 2:
                return -BAD_KEY_FIELD
            if field == 6 or field == 12:
                found, first, last = _find_field(buf, start, after, 1 if field == 6 else 2)
            else:
                found, first, last = (-1 if seen & field else pos), start, after
                seen |= field
            if found < 0 or (found < after and field_end(buf, first, last) != last):
                return -BAD_KEY_FIELD
            if found < after:
                length = _field_length(lists, nodes, REGION if field == 1 else FAMILY if field == 6 else TABLE, buf, first, last)
                if buf[np.uint64(first)] == 0xFF:
                    longest = max(longest, length)
                else:
                    room += FIELD_FRAME + max(longest, length)
        pos = after
    return room


@inlined
def _put_bytes(
    lists: Ints, nodes: Ints, arena: Bytes, used: Ints, d: int, buf: Bytes, pos: int, end: int, out: Bytes, at: int
) -> int:
    """What the field `buf[pos:end]` stands for: its length and itself. Returns the end of it, or NO_ENTRY."""
    length = _field_length(lists, nodes, d, buf, pos, end)
    if length < 0:
        return NO_ENTRY
    at = put_varint(out, at, length)
    read_field(lists, nodes, arena, used, d, buf, pos, end, out, at, length)
    return at + length


@inlined
def _put_message(
    lists: Ints, nodes: Ints, arena: Bytes, used: Ints, d: int, number: int, buf: Bytes, pos: int, end: int, out: Bytes, at: int
) -> int:
    """The message `buf[pos:end]` with its field `number` expanded: its length and itself. Returns the end of it, or NO_ENTRY."""
    found, first, last = _find_field(buf, pos, end, number)
    if found == end:
        return copy_bytes(out, put_varint(out, at, end - pos), buf, pos, end - pos)
    full = _field_length(lists, nodes, d, buf, first, last)
    if full < 0:
        return NO_ENTRY
    at = put_varint(out, at, end - pos - (last - found) + 1 + varint_len(full) + full)
    at = put_varint(out, copy_bytes(out, at, buf, pos, found - pos), number << 3 | 2)
    at = _put_bytes(lists, nodes, arena, used, d, buf, first, last, out, at)
    return copy_bytes(out, at, buf, last, end - last)


@inlined
def _field_room(lists: Ints, nodes: Ints, buf: Bytes, field: int, pos: int, start: int, after: int) -> int:
    """How long the field number `field` of a WALKey, `buf[pos:after]`, is at most with the dictionaries as they are now."""
    found, first, last = pos, start, after
    if field == 6 or field == 12:
        found, first, last = _find_field(buf, start, after, 1 if field == 6 else 2)
    if field not in (1, 2, 6, 12) or found == after:
        return after - pos
    d = REGION if field == 1 else FAMILY if field == 6 else TABLE
    return after - pos + max(_field_length(lists, nodes, d, buf, first, last), 0)


@inlined
def _expand_key(
    lists: Ints, nodes: Ints, arena: Bytes, used: Ints, buf: Bytes, pos: int, end: int, out: Bytes, at: int, bounded: bool
) -> tuple[int, int]:
    """(end of the WALKey that was put to `out[at:]`, its cells), or (NO_ENTRY, 0). `_key_room` has found it well-formed.

    If it is `bounded`, out may only have room for MAX_KEY_BYTES and a frame, and (TOO_LONG, 0) is what a longer one gives.
    """
    cells, limit = 0, at + MAX_KEY_BYTES
    while pos < end:
        tag, start, after = _read_field(buf, pos, end)
        field = tag >> 3
        if bounded and at + _field_room(lists, nodes, buf, field, pos, start, after) > limit:
            return TOO_LONG, 0
        if field in (1, 2, 6, 12):
            at = put_varint(out, at, tag)
            if field == 6:
                at = _put_message(lists, nodes, arena, used, FAMILY, 1, buf, start, after, out, at)
            elif field == 12:
                at = _put_message(lists, nodes, arena, used, TABLE, 2, buf, start, after, out, at)
            else:
                at = _put_bytes(lists, nodes, arena, used, REGION if field == 1 else TABLE, buf, start, after, out, at)
            if at < 0:
                return NO_ENTRY, 0
        else:
            if field == 7 and tag & 7 == 0:
                count, _ = read_varint(buf, start, end)
                cells = count & 0xFFFFFFFF
            at = copy_bytes(out, at, buf, pos, after - pos)
        pos = after
    return at, cells


@inlined
def _walk_cell(buf: Bytes, pos: int, end: int, at_end: bool, tags_compressed: bool, most_from_a_byte: int) -> tuple[
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
    if most_from_a_byte:
        if value >= end:
            return NEED_INPUT, value + 1, 0, 0, 0, 0, 0
        stored, value = read_varint(buf, value, end)
        if value < 0 or not 0 <= stored <= MAX_ENTRY_BYTES:
            return (NEED_INPUT, end + 1, 0, 0, 0, 0, 0) if value == INCOMPLETE else (BAD_CELL_LENGTHS, 0, 0, 0, 0, 0, 0)
        if val_len > stored * most_from_a_byte:
            return BAD_VALUE_LENGTH, 0, 0, 0, 0, 0, 0
    tags = value + stored
    # How long compressed tags are is known only when they are read: no longer than twice as long.
    need = tags + (0 if tags_compressed and at_end else 2 * tags_len if tags_compressed else tags_len)
    if need > end:
        return NEED_INPUT, need, 0, 0, 0, 0, 0
    return 0, key_len, val_len, tags_len, row, value, stored


@inlined
def _check_key(lists: Ints, nodes: Ints, buf: Bytes, row: int, end: int, key_len: int) -> int:
    """0 if row, family and qualifier, whose fields from `row` on are whole, are what `key_len` says; else what is wrong.

    Room is made for no other key: it is as long as the fields and the dictionaries have it, whatever its cell claims.
    """
    length, pos = MIN_KEY, row
    for d in (ROW, FAMILY, QUALIFIER):
        part = _field_length(lists, nodes, d, buf, pos, end)
        if part < 0:
            return BAD_INDEX
        if part > (MAX_ROW if d == ROW else MAX_FAMILY if d == FAMILY else key_len):
            return BAD_CELL_KEY
        length += part
        pos = field_end(buf, pos, end)
    return 0 if length == key_len else BAD_CELL_KEY


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
    buf: Bytes, end: int, at_end: bool, base: int, tags_compressed: bool, most_from_a_byte: int,
    lists: Ints, nodes: Ints, arena: Bytes, used: Ints, out: Bytes, entries: Ints, values: Ints, state: Ints,
) -> int:  # fmt: skip
    """Expand from `state[POS]` on. `base` is the buffer's offset in the file, `at_end` says that nothing follows it there.

    `most_from_a_byte` is how many bytes of a value one that is stored of it can become, or 0 if values are not compressed.
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
            room = KEY_FRAME + _key_room(lists, nodes, buf, key, key + key_len)
            if room < KEY_FRAME:
                state[AT] = key
                return KEY_FRAME - room
            bounded = room > MAX_KEY_BYTES
            room = min(room, KEY_FRAME + MAX_KEY_BYTES + FIELD_FRAME)
            if used[0] + key_len > arena.size:
                state[NEED] = key_len
                return NEED_ARENA
            if at + room > out.size:
                state[NEED] = room
                return NEED_OUT
            # The length comes first and is known last: a varint of five bytes, whatever it is.
            stop, cells = _expand_key(lists, nodes, arena, used, buf, key, key + key_len, out, at + KEY_FRAME, bounded)
            if stop < 0:
                state[AT] = key
                return BAD_INDEX if stop == NO_ENTRY else BAD_KEY_LENGTH
            length = stop - at - KEY_FRAME
            for i in range(KEY_FRAME):
                out[np.uint64(at + i)] = (length >> (7 * i) & 127) | (128 if i < KEY_FRAME - 1 else 0)
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
                buf, pos, end, at_end, tags_compressed, most_from_a_byte
            )
            if status != 0:
                state[NEED] = key_len  # the end that is needed, if it is that
                return status
            room = CELL_LENGTHS + key_len + val_len + 2 + tags_len
            if at + room - state[ENTRY_OUT] > MAX_ENTRY_BYTES + MAX_KEY_BYTES:
                return ENTRY_TOO_LONG
            need_arena = used[0] + key_len + 2 * tags_len > arena.size
            if need_arena or at + room > out.size:
                status = _check_key(lists, nodes, buf, row, end, key_len)
                if status != 0:
                    state[AT] = state[NEED] = row
                    return status
                state[NEED] = key_len + 2 * tags_len if need_arena else room
                return NEED_ARENA if need_arena else NEED_OUT
            if state[VALUES] == values.shape[1]:
                return NEED_TABLES
            after, target, status = _expand_cell(
                lists, nodes, arena, used, buf, row, key_len, val_len, tags_len, value, stored, end, tags_compressed, out, at
            )
            if status != 0:
                state[AT] = state[NEED] = after
                return status
            if not most_from_a_byte:
                copy_bytes(out, target, buf, value, val_len)
            elif stored > 0 or val_len > 0:
                v = state[VALUES]
                values[SOURCE, v], values[SOURCE_LEN, v] = value, stored
                values[TARGET, v], values[TARGET_LEN, v] = target, val_len
                state[VALUES] = v + 1
            state[POS], state[OUT] = after, at + room - (0 if tags_len else 2)
            state[CELLS_LEFT] -= 1
