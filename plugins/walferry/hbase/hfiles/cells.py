"""Reads and compares cells in an HFile's data blocks and in sorted runs, in the order of HBase's CellComparator.

    cell = int32 keyLen, int32 valLen, key, value, uint16 tagsLen, tags        key and tags as in a WAL, see hbase/wal/cells.py
    run  = { cell, int64 sequence id, int64 write time }*                      of the edit that the cell is of; the time in ms

Integers are big-endian. All cells of a file or a run have one family, so they are sorted by row, qualifier, timestamp (the latest
first) and type (the highest code first). Rows and qualifiers are in the order of their unsigned bytes.

`checked_end` checks a cell's lengths. The other kernels rely on that check and do not repeat it.

Source: HBase's NoneEncoder, KeyValueUtil, CellComparatorImpl (branch-2.6).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from walferry.base.kernels.compiled import inlined
from walferry.base.kernels.read import INCOMPLETE, compare_bytes, read_int32, read_int64, read_uint8, read_uint16
from walferry.base.kernels.types import Bytes
from walferry.hbase.wal.cells import KEY_TAIL, MAX_ROW, MAX_TAGS, MIN_KEY, MIN_TAG
from walferry.hbase.wal.problems import MAX_ENTRY_BYTES

LENGTHS: Final = 8  # bytes of keyLen and valLen
TAGS_LENGTH: Final = 2
MIN_CELL: Final = LENGTHS + MIN_KEY + TAGS_LENGTH
SEQUENCE_ID: Final = 8
WRITE_TIME: Final = 8
EDIT: Final = SEQUENCE_ID + WRITE_TIME  # bytes that follow a cell in a run
MAX_CELL: Final = MAX_ENTRY_BYTES + LENGTHS  # a cell of a WAL with the length of its tags, even if it has none
BROKEN: Final = -2  # distinct from INCOMPLETE


@inlined
def checked_end(buf: Bytes, pos: int, end: int) -> int:
    """Return the position after the cell at `pos`.

    The result is INCOMPLETE if the cell leaves the range, and BROKEN if its lengths contradict each other.
    """
    if end - pos < MIN_CELL:
        return INCOMPLETE
    key_len, val_len = read_int32(buf, pos), read_int32(buf, pos + 4)
    if key_len < MIN_KEY or val_len < 0 or key_len + val_len > MAX_CELL:
        return BROKEN
    row_len = read_uint16(buf, pos + LENGTHS)
    if row_len > MAX_ROW or row_len > key_len - MIN_KEY:
        return BROKEN
    tags = pos + LENGTHS + key_len + val_len
    if tags + TAGS_LENGTH > end:
        return INCOMPLETE
    if read_uint8(buf, pos + LENGTHS + 2 + row_len) > key_len - MIN_KEY - row_len:
        return BROKEN
    tags_len = read_uint16(buf, tags)
    if tags_len > MAX_TAGS:
        return BROKEN
    after = tags + TAGS_LENGTH + tags_len
    return after if after <= end else INCOMPLETE


@inlined
def _uint16(buf: Bytes, pos: int) -> int:
    """Return the uint16 at `pos` as an int64: numba compares a uint16 with an int64 as floats."""
    return int(np.int64(read_uint16(buf, pos)))


@inlined
def key_len_of(buf: Bytes, pos: int) -> int:
    """Return the length of the key of the cell at `pos`."""
    return read_int32(buf, pos)


@inlined
def row_of(buf: Bytes, pos: int) -> tuple[int, int]:
    """Return (start, length) of the row of the cell at `pos`."""
    return pos + LENGTHS + 2, _uint16(buf, pos + LENGTHS)


@inlined
def family_of(buf: Bytes, pos: int) -> tuple[int, int]:
    """Return (start, length) of the family of the cell at `pos`."""
    row, row_len = row_of(buf, pos)
    return row + row_len + 1, read_uint8(buf, row + row_len)


@inlined
def qualifier_of(buf: Bytes, pos: int) -> tuple[int, int]:
    """Return (start, length) of the qualifier of the cell at `pos`."""
    family, family_len = family_of(buf, pos)
    start = family + family_len
    return start, value_start(buf, pos) - KEY_TAIL - start


@inlined
def timestamp_of(buf: Bytes, pos: int) -> int:
    """Return the timestamp of the cell at `pos`."""
    return read_int64(buf, value_start(buf, pos) - KEY_TAIL)


@inlined
def type_of(buf: Bytes, pos: int) -> int:
    """Return the code of the type of the cell at `pos`."""
    return read_uint8(buf, value_start(buf, pos) - 1)


@inlined
def value_start(buf: Bytes, pos: int) -> int:
    """Return where the value of the cell at `pos` begins, which is where its key ends."""
    return pos + LENGTHS + read_int32(buf, pos)


@inlined
def value_len_of(buf: Bytes, pos: int) -> int:
    """Return the length of the value of the cell at `pos`."""
    return read_int32(buf, pos + 4)


@inlined
def tags_of(buf: Bytes, pos: int) -> tuple[int, int]:
    """Return (start, length) of the tags of the cell at `pos`."""
    length_at = value_start(buf, pos) + value_len_of(buf, pos)
    return length_at + TAGS_LENGTH, _uint16(buf, length_at)


@inlined
def cell_end(buf: Bytes, pos: int) -> int:
    """Return the position after the cell at `pos`."""
    tags, length = tags_of(buf, pos)
    return tags + length


@inlined
def edit_of(buf: Bytes, after: int) -> tuple[int, int]:
    """Return (sequence id, write time) of the edit of a run's cell that ends at `after`."""
    return read_int64(buf, after), read_int64(buf, after + SEQUENCE_ID)


@inlined
def has_tag(buf: Bytes, pos: int, kind: int) -> bool:
    """Return whether the cell at `pos` has a tag of type `kind`."""
    tag, length = tags_of(buf, pos)
    end = tag + length
    while tag + MIN_TAG <= end:
        if read_uint8(buf, tag + 2) == kind:
            return True
        tag += 2 + read_uint16(buf, tag)
    return False


@inlined
def has_same_content(a: Bytes, i: int, b: Bytes, j: int) -> bool:
    """Return whether two cells have the same value and tags."""
    if value_len_of(a, i) != value_len_of(b, j):
        return False
    x, y = value_start(a, i), value_start(b, j)
    return compare_bytes(a, x, cell_end(a, i) - x, b, y, cell_end(b, j) - y) == 0


@inlined
def compare_rows(a: Bytes, i: int, b: Bytes, j: int) -> int:
    """Compare the rows of two cells as `compare_bytes` does."""
    a_row, a_len = row_of(a, i)
    b_row, b_len = row_of(b, j)
    return compare_bytes(a, a_row, a_len, b, b_row, b_len)


@inlined
def compare_within_row(a: Bytes, i: int, b: Bytes, j: int) -> int:
    """Compare the keys of two cells of one row and family."""
    a_start, a_len = qualifier_of(a, i)
    b_start, b_len = qualifier_of(b, j)
    difference = compare_bytes(a, a_start, a_len, b, b_start, b_len)
    if difference != 0:
        return difference
    a_time, b_time = timestamp_of(a, i), timestamp_of(b, j)
    if a_time != b_time:
        return 1 if a_time < b_time else -1
    return type_of(b, j) - type_of(a, i)


@inlined
def compare_keys(a: Bytes, i: int, b: Bytes, j: int) -> int:
    """Compare the keys of two cells of one family: 0 if they are equal."""
    difference = compare_rows(a, i, b, j)
    return difference if difference != 0 else compare_within_row(a, i, b, j)
