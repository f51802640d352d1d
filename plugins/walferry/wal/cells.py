"""The cells of indexed entries: where their parts lie, and the copying of parts into contiguous columns.

    cell = int32 kvLen, int32 keyLen, int32 valLen, key, value [, uint16 tagsLen, tags]
    key  = int16 rowLen, row, int8 famLen, family, qualifier, int64 timestamp, int8 type

Entries come from `scan_entries`, which has checked every length; nothing is checked again here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from walferry.wal._compiled import inlined, unmanaged
from walferry.wal.scan import CELL_LENGTHS, Bytes, EntryIndex, Ints, read_int32, read_uint16

# Rows of the table that the kernel fills, one column a cell.
ENTRY, ROW_START, ROW_LEN, FAMILY_START, FAMILY_LEN, QUALIFIER_START, QUALIFIER_LEN = range(7)
TIMESTAMP, TYPE, VALUE_START, VALUE_LEN, TAGS_START, TAGS_LEN, FIELDS = range(7, 14)


@dataclass(frozen=True)
class Parts:
    """One byte string of each cell: `buf[start[i]:start[i] + length[i]]`."""

    start: Ints
    length: Ints


@dataclass(frozen=True)
class CellIndex:
    """Arrays with one element a cell, in file order."""

    entry: Ints  # which of the entries
    row: Parts
    family: Parts
    qualifier: Parts
    timestamp: Ints
    type: Ints  # HBase's code
    value: Parts
    tags: Parts  # without the uint16 that says how many bytes they have

    def __len__(self) -> int:
        return len(self.entry)


def index_cells(buf: Bytes, entries: EntryIndex, count: int) -> CellIndex:
    """The cells of the first `count` entries that `scan_entries` found in `buf`."""
    table = np.empty((FIELDS, int(entries.cell_count[:count].sum())), dtype=np.int64)
    cells_into(buf, entries.cells_start[:count], entries.cell_count[:count], table)
    return CellIndex(
        entry=table[ENTRY],
        row=Parts(table[ROW_START], table[ROW_LEN]),
        family=Parts(table[FAMILY_START], table[FAMILY_LEN]),
        qualifier=Parts(table[QUALIFIER_START], table[QUALIFIER_LEN]),
        timestamp=table[TIMESTAMP],
        type=table[TYPE],
        value=Parts(table[VALUE_START], table[VALUE_LEN]),
        tags=Parts(table[TAGS_START], table[TAGS_LEN]),
    )


def gather(buf: Bytes, parts: Parts) -> tuple[NDArray[np.int32], Bytes]:
    """Copies of the parts one after the other, and the offset of each with the end as last element, as Arrow has them.

    Raises OverflowError if the parts have 2 GiB or more.
    """
    total = int(parts.length.sum())
    if total > np.iinfo(np.int32).max:
        raise OverflowError(f"{total} bytes do not fit into one Arrow array of 32-bit offsets")
    offsets = np.empty(len(parts.start) + 1, dtype=np.int32)
    data = np.empty(total, dtype=np.uint8)
    gather_into(buf, parts.start, parts.length, offsets, data)
    return offsets, data


@inlined
def read_int64(buf: Bytes, pos: int) -> int:
    """The big-endian int64 at `pos`; the caller has checked that it is there."""
    return read_int32(buf, pos) << 32 | read_int32(buf, pos + 4) & 0xFFFFFFFF


@unmanaged
def cells_into(buf: Bytes, cells_start: Ints, cell_count: Ints, table: Ints) -> None:
    cell = 0
    for entry in range(cells_start.size):
        pos = cells_start[entry]
        for _ in range(cell_count[entry]):
            key = pos + CELL_LENGTHS
            value = key + read_int32(buf, pos + 4)
            value_end = value + read_int32(buf, pos + 8)
            pos += 4 + read_int32(buf, pos)
            row_len = read_uint16(buf, key)
            family = key + 3 + row_len
            family_len = np.int64(buf[np.uint64(family - 1)])
            table[ENTRY, cell] = entry
            table[ROW_START, cell] = key + 2
            table[ROW_LEN, cell] = row_len
            table[FAMILY_START, cell] = family
            table[FAMILY_LEN, cell] = family_len
            table[QUALIFIER_START, cell] = family + family_len
            table[QUALIFIER_LEN, cell] = value - 9 - family - family_len
            table[TIMESTAMP, cell] = read_int64(buf, value - 9)
            table[TYPE, cell] = buf[np.uint64(value - 1)]
            table[VALUE_START, cell] = value
            table[VALUE_LEN, cell] = value_end - value
            table[TAGS_START, cell] = min(value_end + 2, pos)
            table[TAGS_LEN, cell] = max(pos - value_end - 2, 0)
            cell += 1


@unmanaged
def gather_into(buf: Bytes, start: Ints, length: Ints, offsets: NDArray[np.int32], data: Bytes) -> None:
    at = np.uint64(0)
    for i in range(start.size):
        offsets[i] = at
        pos, end = np.uint64(start[i]), np.uint64(start[i] + length[i])
        while pos < end:
            data[at] = buf[pos]
            at += np.uint64(1)
            pos += np.uint64(1)
    offsets[start.size] = at
