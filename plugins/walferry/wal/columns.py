"""The cells of indexed entries as columns, in Arrow's layout.

    cell = int32 kvLen, int32 keyLen, int32 valLen, key, value [, uint16 tagsLen, tags]
    key  = int16 rowLen, row, int8 famLen, family, qualifier, int64 timestamp, int8 type

A column of bytes is the cells' bytes one after the other, and int32 offsets into them, one more than there are cells.
Entries come from `scan_entries`, which has checked every length; nothing is checked again here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from walferry.kernels.compiled import inlined, unmanaged
from walferry.kernels.read import Bytes, Ints, read_int32, read_uint8, read_uint16
from walferry.wal.scan import CELL_LENGTHS, EntryIndex

REGION, TABLE, ROW, FAMILY, QUALIFIER, TYPE, VALUE, TAGS, BYTES_COLUMNS = range(9)
ENTRY, SEQUENCE_ID, WRITE_TIME, TIMESTAMP, INT_COLUMNS = range(5)

TYPE_NAMES = {
    0: "Minimum",
    4: "Put",
    8: "Delete",
    10: "DeleteFamilyVersion",
    12: "DeleteColumn",
    14: "DeleteFamily",
    255: "Maximum",
}
FIXED_BYTES = 4 * (BYTES_COLUMNS + 1) + 8 * (INT_COLUMNS + 1)  # of a row: offsets, cluster ids' offset too, and integers
CLUSTER_ID_BYTES = 40  # 36 of text, 4 of offset

_NAMES = np.frombuffer("".join(TYPE_NAMES.values()).encode(), dtype=np.uint8)
_NAME_LEN = np.array([len(TYPE_NAMES.get(code, "")) for code in range(256)], dtype=np.int64)
_NAME_START = np.cumsum(_NAME_LEN) - _NAME_LEN
_ALIGNMENT = 64  # what Arrow recommends for buffers


@dataclass(frozen=True)
class Columns:
    """Some cells of a window, in file order. Columns of bytes and of integers go by the constants above."""

    rows: int
    offsets: NDArray[np.int32]  # [column of bytes, row], with one row more than there are cells
    data: Bytes  # all columns of bytes
    starts: Ints  # of each column in `data`
    sizes: Ints  # of each column in `data`
    ints: Ints  # [column of integers, row]

    def bytes_of(self, column: int) -> Bytes:
        return self.data[self.starts[column] : self.starts[column] + self.sizes[column]]


def cell_columns(buf: Bytes, entries: EntryIndex, count: int, limit: int) -> Iterator[Columns]:
    """The cells of the first `count` entries in `buf`, in batches of `limit` bytes at most, or of one cell."""
    cells = (entries.cells_start[:count], entries.cell_count[:count], entries.cells_end[:count])
    keys = (entries.entry_start, entries.sequence_id, entries.write_time, entries.cluster_id_count)
    names = (entries.region_start, entries.region_len, entries.table_start, entries.table_len)
    cursor = np.zeros(3, dtype=np.int64)
    sizes = np.empty(BYTES_COLUMNS, dtype=np.int64)
    while rows := measure(buf, cells, keys, names, cursor, limit, sizes):
        aligned = (sizes + _ALIGNMENT - 1) // _ALIGNMENT * _ALIGNMENT
        starts = np.cumsum(aligned) - aligned
        offsets = np.empty((BYTES_COLUMNS, rows + 1), dtype=np.int32)
        data = np.empty(int(aligned.sum()), dtype=np.uint8)
        ints = np.empty((INT_COLUMNS, rows), dtype=np.int64)
        fill(buf, cells, keys, names, cursor, rows, (_NAME_START, _NAME_LEN), _NAMES, starts, offsets, data, ints)
        yield Columns(rows, offsets, data, starts, sizes.copy(), ints)


@inlined
def read_int64(buf: Bytes, pos: int) -> int:
    """The big-endian int64 at `pos`; the caller has checked that it is there."""
    return read_int32(buf, pos) << 32 | read_int32(buf, pos + 4) & 0xFFFFFFFF


@unmanaged
def measure(
    buf: Bytes, cells: tuple[Ints, ...], keys: tuple[Ints, ...], names: tuple[Ints, ...], cursor: Ints, limit: int, sizes: Ints
) -> int:
    """How many cells from `cursor` on fit into `limit` bytes, one at least if there is one; their bytes go to `sizes`."""
    cells_start, cell_count, _ = cells
    _, region_len, _, table_len = names
    sizes[:] = 0
    rows, total = 0, 0
    for entry in range(cursor[0], cells_start.size):
        first = cursor[1] if entry == cursor[0] else 0
        pos = cursor[2] if first > 0 else cells_start[entry]
        shared = region_len[entry] + table_len[entry] + FIXED_BYTES + CLUSTER_ID_BYTES * keys[3][entry]
        for _ in range(first, cell_count[entry]):
            kv_len, key_len, val_len = read_int32(buf, pos), read_int32(buf, pos + 4), read_int32(buf, pos + 8)
            key = pos + CELL_LENGTHS
            row_len = read_uint16(buf, key)
            family_len = read_uint8(buf, key + 2 + row_len)
            name_len = _NAME_LEN[read_uint8(buf, key + key_len - 1)]
            tags_len = max(kv_len - 10 - key_len - val_len, 0)
            size = shared + key_len - 12 + val_len + tags_len + name_len
            if rows > 0 and total + size > limit:
                return rows
            rows += 1
            total += size
            sizes[REGION] += region_len[entry]
            sizes[TABLE] += table_len[entry]
            sizes[ROW] += row_len
            sizes[FAMILY] += family_len
            sizes[QUALIFIER] += key_len - 12 - row_len - family_len
            sizes[TYPE] += name_len
            sizes[VALUE] += val_len
            sizes[TAGS] += tags_len
            pos += 4 + kv_len
    return rows


@inlined
def put(
    buf: Bytes, start: int, length: int, column: int, row: int, starts: Ints, offsets: NDArray[np.int32], data: Bytes
) -> None:
    """Append `buf[start:start + length]` to a column of bytes."""
    at = offsets[column, row]
    offsets[column, row + 1] = at + length
    out, pos, end = np.uint64(starts[column] + at), np.uint64(start), np.uint64(start + length)
    while pos < end:
        data[out] = buf[pos]
        out += np.uint64(1)
        pos += np.uint64(1)


@unmanaged
def fill(
    buf: Bytes, cells: tuple[Ints, ...], keys: tuple[Ints, ...], names: tuple[Ints, ...], cursor: Ints, rows: int,
    types: tuple[Ints, Ints], type_names: Bytes, starts: Ints, offsets: NDArray[np.int32], data: Bytes, ints: Ints,
) -> None:  # fmt: skip
    """Write `rows` cells from `cursor` on to the columns, and move `cursor` (entry, cell in it, its position) after them."""
    cells_start, cell_count, _ = cells
    _, sequence_id, write_time, _ = keys
    region_start, region_len, table_start, table_len = names
    offsets[:, 0] = 0
    entry, cell = cursor[0], cursor[1]
    pos = cursor[2] if cell > 0 else cells_start[entry]
    for row in range(rows):
        while cell == cell_count[entry]:
            entry, cell = entry + 1, 0
            pos = cells_start[entry]
        key = pos + CELL_LENGTHS
        value = key + read_int32(buf, pos + 4)
        tags = value + read_int32(buf, pos + 8)
        end = pos + 4 + read_int32(buf, pos)
        row_len = read_uint16(buf, key)
        family = key + 3 + row_len
        family_len = read_uint8(buf, family - 1)
        qualifier = family + family_len
        code = read_uint8(buf, value - 1)
        put(buf, region_start[entry], region_len[entry], REGION, row, starts, offsets, data)
        put(buf, table_start[entry], table_len[entry], TABLE, row, starts, offsets, data)
        put(buf, key + 2, row_len, ROW, row, starts, offsets, data)
        put(buf, family, family_len, FAMILY, row, starts, offsets, data)
        put(buf, qualifier, value - 9 - qualifier, QUALIFIER, row, starts, offsets, data)
        put(type_names, types[0][code], types[1][code], TYPE, row, starts, offsets, data)
        put(buf, value, tags - value, VALUE, row, starts, offsets, data)
        put(buf, tags + 2, max(end - tags - 2, 0), TAGS, row, starts, offsets, data)
        ints[ENTRY, row] = entry
        ints[SEQUENCE_ID, row] = sequence_id[entry]
        ints[WRITE_TIME, row] = write_time[entry]
        ints[TIMESTAMP, row] = read_int64(buf, value - 9)
        pos, cell = end, cell + 1
    cursor[0], cursor[1], cursor[2] = entry, cell, pos
