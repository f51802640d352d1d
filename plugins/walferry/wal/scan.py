"""Entries of an uncompressed WAL, found in a buffer by one compiled pass.

    entry  = varint(key length) WALKey cell{following_kv_count}
    WALKey = protobuf: 1 encoded_region_name, 2 table_name, 3 log_sequence_number, 4 write_time,
             5 cluster_id (old), 7 following_kv_count, 8 cluster_ids, …
             which begins with fields 1 to 4, in this order
    cell   = int32 kvLen, int32 keyLen, int32 valLen, key, value [, uint16 tagsLen, tags]     kvLen counts what follows it
    key    = int16 rowLen, row, int8 famLen, family, qualifier, int64 timestamp, int8 type    keyLen bytes

Integers of cells are big-endian, varints are protobuf's. Nothing says how long an entry is, so its cells have to be walked.
Source: HBase's ProtobufWALStreamReader, WAL.proto, KeyValueUtil.checkKeyValueBytes (branch-2.6).

Kernels get a buffer and a range, check every length against the range's end before using it, and never read outside of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from walferry.kernels.compiled import inlined, unmanaged
from walferry.kernels.read import (
    INCOMPLETE,
    OVERLONG,
    Bytes,
    Ints,
    hash_bytes,
    read_int32,
    read_uint8,
    read_uint16,
    read_varint,
    skip_field,
)

MAX_ENTRY_BYTES: Final = 256 << 20  # hbase.ipc.max.request.size: what a client can send at once
MAX_KEY_BYTES: Final = 16 << 20
CELL_LENGTHS: Final = 12  # kvLen, keyLen, valLen
MIN_KEY: Final = 12  # rowLen, famLen, timestamp, type
MIN_CELL: Final = CELL_LENGTHS + MIN_KEY
MAX_ROW: Final = 0x7FFF
MAX_FAMILY: Final = 127
MAX_TAGS: Final = 0x7FFF
MIN_TAG: Final = 3  # its length, and its type, which the length counts
# Minimum, Put, Delete, DeleteFamilyVersion, DeleteColumn, DeleteFamily; and Maximum, which is above all. HBase searches with the
# first and the last, but takes them in a client's put too; its sink puts such cells.
VALID_TYPES: Final = 1 << 0 | 1 << 4 | 1 << 8 | 1 << 10 | 1 << 12 | 1 << 14
MAXIMUM_TYPE: Final = 255

REQUIRED: Final = 4  # fields 1 to this one of the WALKey

# What can be wrong. 0 is nothing.
BAD_KEY_LENGTH: Final = 1
BAD_KEY_FIELD: Final = 2
MISSING_KEY_FIELD: Final = 3
BAD_CELL_COUNT: Final = 4
BAD_CELL_LENGTHS: Final = 5
BAD_CELL_KEY: Final = 6
BAD_CELL_TYPE: Final = 7
BAD_TAGS: Final = 8
ENTRY_TOO_LONG: Final = 9
BAD_TIMESTAMP: Final = 10
PROBLEMS: Final = {
    BAD_KEY_LENGTH: f"the length of a WALKey is not between 1 and {MAX_KEY_BYTES}",
    BAD_KEY_FIELD: "a field of the WALKey is malformed or leaves the WALKey",
    MISSING_KEY_FIELD: "the WALKey does not begin with its region, table, sequence number and write time",
    BAD_CELL_COUNT: f"the number of cells that the WALKey announces does not fit into {MAX_ENTRY_BYTES} bytes",
    BAD_CELL_LENGTHS: "the lengths of a cell, its key and its value contradict each other",
    BAD_CELL_KEY: "row and family are longer than the cell's key",
    BAD_CELL_TYPE: "the cell's type is none of HBase's",
    BAD_TAGS: "the lengths of the cell's tags contradict each other or the cell's length",
    ENTRY_TOO_LONG: f"the entry has more than {MAX_ENTRY_BYTES} bytes",
    BAD_TIMESTAMP: "the cell's timestamp is negative",
}

# Rows of the table that the kernel fills, one column an entry.
ENTRY_START, KEY_START, CELLS_START, CELL_COUNT, SEQUENCE_ID, WRITE_TIME = range(6)
REGION_START, REGION_LEN, TABLE_START, TABLE_LEN, REGION_HASH, CLUSTER_IDS, FIELDS = range(6, 13)

# Elements of the kernel's state.
STATE_COUNT, STATE_POS, STATE_PROBLEM, STATE_AT, STATE_NEED = range(5)


@dataclass(frozen=True)
class EntryIndex:
    """Where entries lie in a buffer: arrays with one element an entry, in file order. Offsets count from the buffer's start.

    An entry is `buf[entry_start:cells_end]`: its key's length, the key `buf[key_start:key_end]`, and its cells
    `buf[cells_start:cells_end]`, where `cells_start == key_end` and `cells_end` is the next entry's start.
    """

    entry_start: Ints
    key_start: Ints
    key_end: Ints
    cells_start: Ints
    cells_end: Ints
    cell_count: Ints
    sequence_id: Ints
    write_time: Ints  # milliseconds since the epoch
    region_start: Ints  # the encoded region name
    region_len: Ints
    table_start: Ints
    table_len: Ints
    region_hash: NDArray[np.uint64]  # of the encoded region name
    cluster_id_count: Ints  # fields 5 and 8 of the WALKey, which are not looked into

    def __len__(self) -> int:
        return len(self.entry_start)


@dataclass(frozen=True)
class Problem:
    """What is wrong with an entry, and the offset in the buffer of what is wrong."""

    code: int
    offset: int

    @property
    def reason(self) -> str:
        return PROBLEMS[self.code]


@dataclass(frozen=True)
class Scan:
    """What was found in a range of a buffer: whole entries up to `consumed`, where an unfinished or broken entry begins."""

    index: EntryIndex
    consumed: int
    problem: Problem | None
    need: int  # end of the range at which one can learn more of an unfinished entry; `consumed` if there is none


def scan_entries(buf: Bytes, start: int, end: int) -> Scan:
    """Index the entries that lie wholly in `buf[start:end]`, where `start` is the start of an entry.

    Stops before an entry that leaves the range, and before one that cannot be a WAL's (`problem`). Raises ValueError for a
    range outside the buffer.
    """
    if not 0 <= start <= end <= len(buf):
        raise ValueError(f"bytes {start} to {end} are not within a buffer of {len(buf)} bytes")
    view = buf.view()
    view.flags.writeable = False  # read-only and writable arrays are two types to numba: compile for one
    state = np.array([0, start, 0, start, start], dtype=np.int64)
    table = np.empty((FIELDS, 256 + (end - start) // 256), dtype=np.int64)
    while scan_into(view, end, table, state):
        wider = np.empty((FIELDS, 2 * table.shape[1]), dtype=np.int64)
        wider[:, : table.shape[1]] = table
        table = wider
    count, consumed, code, at, need = (int(x) for x in state)
    return Scan(_entry_index(table[:, :count], consumed), consumed, Problem(code, at) if code else None, need)


def _entry_index(table: Ints, end: int) -> EntryIndex:
    return EntryIndex(
        entry_start=table[ENTRY_START],
        key_start=table[KEY_START],
        key_end=table[CELLS_START],
        cells_start=table[CELLS_START],
        cells_end=np.append(table[ENTRY_START, 1:], end) if table.shape[1] else table[ENTRY_START],
        cell_count=table[CELL_COUNT],
        sequence_id=table[SEQUENCE_ID],
        write_time=table[WRITE_TIME],
        region_start=table[REGION_START],
        region_len=table[REGION_LEN],
        table_start=table[TABLE_START],
        table_len=table[TABLE_LEN],
        region_hash=table[REGION_HASH].view(np.uint64),
        cluster_id_count=table[CLUSTER_IDS],
    )


@inlined
def parse_key(buf: Bytes, start: int, end: int, table: Ints, entry: int) -> int:
    """Write the fields of the WALKey `buf[start:end]` to column `entry` of `table`. Returns what is wrong, or 0.

    Every release of HBase writes the required fields first, in the order of their numbers. Other bytes that happen to be a
    message seldom begin so.
    """
    seen = 0
    expected = 1
    pos = start
    table[CELL_COUNT, entry] = 0
    table[CLUSTER_IDS, entry] = 0
    while pos < end:
        tag, pos = read_varint(buf, pos, end)
        if pos < 0 or tag < 8:
            return BAD_KEY_FIELD
        field, wire_type = tag >> 3, tag & 7
        if expected <= REQUIRED:
            if field != expected:
                return MISSING_KEY_FIELD
            expected += 1
        if field in (1, 2) and wire_type == 2:
            length, pos = read_varint(buf, pos, end)
            if pos < 0 or length < 0 or length > end - pos:
                return BAD_KEY_FIELD
            row = REGION_START if field == 1 else TABLE_START
            table[row, entry] = pos
            table[row + 1, entry] = length
            pos += length
            seen |= field
        elif field in (3, 4, 7) and wire_type == 0:
            value, pos = read_varint(buf, pos, end)
            if field == 7:
                table[CELL_COUNT, entry] = value & 0xFFFFFFFF
            else:
                table[SEQUENCE_ID if field == 3 else WRITE_TIME, entry] = value
                seen |= 4 if field == 3 else 8
        else:
            if field <= REQUIRED and seen != 15:
                return BAD_KEY_FIELD
            table[CLUSTER_IDS, entry] += field in (5, 8)
            pos = skip_field(buf, pos, end, wire_type)
        if pos < 0:
            return BAD_KEY_FIELD
    return 0 if seen == 15 else MISSING_KEY_FIELD


@inlined
def tags_fit(buf: Bytes, pos: int, end: int) -> bool:
    """Whether `buf[pos:end]` is a series of whole tags."""
    while end - pos >= MIN_TAG:
        length = read_uint16(buf, pos)
        if length < 1 or length > end - pos - 2:
            return False
        pos += 2 + length
    return pos == end


@inlined
def walk_cell(buf: Bytes, pos: int, end: int) -> tuple[int, int]:
    """(position after the cell at `pos`, 0), or (offset, what is wrong there), or (least end of range needed, INCOMPLETE).

    Whatever HBase's own reader refuses (KeyValueUtil.checkKeyValueBytes) is wrong: a sink checks nothing, and once such a cell is
    in a slave's WAL, its RegionServers can neither replicate nor recover it.
    """
    if end - pos < CELL_LENGTHS:
        return pos + MIN_CELL, INCOMPLETE
    kv_len, key_len, val_len = read_int32(buf, pos), read_int32(buf, pos + 4), read_int32(buf, pos + 8)
    tags_part = kv_len - 8 - key_len - val_len  # 0, or 2 + tagsLen
    if key_len < MIN_KEY or val_len < 0 or kv_len > MAX_ENTRY_BYTES or tags_part < 0 or tags_part > 2 + MAX_TAGS:
        return pos, BAD_CELL_LENGTHS
    after = pos + 4 + kv_len
    tags = after - tags_part
    if tags_part > 0 and (tags_part < 2 or (tags <= end - 2 and read_uint16(buf, tags) != tags_part - 2)):
        return pos, BAD_TAGS
    if after > end:
        return after, INCOMPLETE
    key = pos + CELL_LENGTHS
    row_len = read_uint16(buf, key)
    if row_len > key_len - MIN_KEY or row_len > MAX_ROW:
        return key, BAD_CELL_KEY
    fam_len = read_uint8(buf, key + 2 + row_len)
    if fam_len > MAX_FAMILY or fam_len > key_len - MIN_KEY - row_len:
        return key + 2 + row_len, BAD_CELL_KEY
    cell_type = read_uint8(buf, key + key_len - 1)
    if cell_type != MAXIMUM_TYPE and (cell_type > 14 or not VALID_TYPES >> cell_type & 1):
        return key + key_len - 1, BAD_CELL_TYPE
    if read_uint8(buf, key + key_len - 9) > 0x7F:
        return key + key_len - 9, BAD_TIMESTAMP
    if tags_part > 2 and not tags_fit(buf, tags + 2, after):
        return tags, BAD_TAGS
    return after, 0


@inlined
def read_entry_key(buf: Bytes, pos: int, end: int, table: Ints, row: int) -> tuple[int, int, int]:
    """Parse the WALKey of the entry at `pos` to `table[:, row]`; (start of the key, of the cells, status).

    If the status is not 0, the first is where the problem is, or what is needed when it is INCOMPLETE.
    """
    key_len, key = read_varint(buf, pos, end)
    if key == INCOMPLETE:
        return end + 1, 0, INCOMPLETE
    if key == OVERLONG or key_len <= 0 or key_len > MAX_KEY_BYTES:
        return pos, 0, BAD_KEY_LENGTH
    cells = key + key_len
    if cells > end:
        return cells, 0, INCOMPLETE
    return key, cells, parse_key(buf, key, cells, table, row)


@inlined
def walk_cells(buf: Bytes, start: int, end: int, count: int, limit: int) -> tuple[int, int]:
    """As `walk_cell`, for `count` cells from `start` on, none of which may end after `limit`."""
    pos = start
    for left in range(count, 0, -1):
        if left * MIN_CELL > limit - pos:
            return pos, BAD_CELL_COUNT if left == count else ENTRY_TOO_LONG
        after, status = walk_cell(buf, pos, end)
        if status == INCOMPLETE and after > limit:
            return pos, ENTRY_TOO_LONG
        if status != 0:
            return after, status
        pos = after
    return pos, 0


@unmanaged
def scan_into(buf: Bytes, end: int, table: Ints, state: Ints) -> bool:
    """Index entries from `state[STATE_POS]` on. Returns True if `table` is full and should be continued in a wider one."""
    count, pos = state[STATE_COUNT], state[STATE_POS]
    at, status = pos, 0
    while pos < end and count < table.shape[1]:
        key, cells, status = read_entry_key(buf, pos, end, table, count)
        if status != 0:
            at = key
            break
        at, status = walk_cells(buf, cells, end, table[CELL_COUNT, count], cells + MAX_ENTRY_BYTES)
        if status != 0:
            break
        table[ENTRY_START, count] = pos
        table[KEY_START, count] = key
        table[CELLS_START, count] = cells
        table[REGION_HASH, count] = hash_bytes(buf, table[REGION_START, count], table[REGION_LEN, count])
        count += 1
        pos = at
    state[STATE_COUNT] = count
    state[STATE_POS] = pos
    state[STATE_PROBLEM] = status if status > 0 else 0
    state[STATE_AT] = at
    state[STATE_NEED] = at if status == INCOMPLETE else pos
    return bool(status == 0 and pos < end)
