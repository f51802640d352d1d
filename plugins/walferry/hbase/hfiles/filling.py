"""Fills an HFile's data blocks with cells, and counts them for the rest of the file, in one compiled pass.

A block ends before the first cell at which it has reached its size, except between cells with equal keys. A cell's keys go into
the bloom filters before its block may end. So a chunk that is full when a block ends may contain the next block's first key.
"""

from __future__ import annotations

import enum
from typing import Final

from walferry.base.kernels.compiled import inlined, unmanaged
from walferry.base.kernels.read import compare_bytes
from walferry.base.kernels.types import Bytes, OutBytes, OutInts
from walferry.hbase.hfiles.bloom import Bloom, add_key, column_key, is_new_key
from walferry.hbase.hfiles.cells import (
    LENGTHS,
    TAGS_LENGTH,
    checked_end,
    compare_rows,
    compare_within_row,
    family_of,
    key_len_of,
    row_of,
    tags_of,
    timestamp_of,
    type_of,
    value_len_of,
)
from walferry.hbase.hfiles.encodings import MOST_ADDED, ROW_OFFSET, Encoding, put_cell
from walferry.hbase.wal.cells import CellType

NONE: Final = -1
LAST: Final = -2  # the previous cell lies in the array `last`
LATEST: Final = (1 << 63) - 1


class Fill(enum.IntEnum):
    """The elements of the state of a file that is being written."""

    POS = 0  # of the next cell of the chunk
    OUT = 1  # its place in the block
    RAW = 2  # bytes that the block's cells have without encoding
    ENCODED = 3  # bytes that they have with encoding
    READY = 4  # 1 once the next cell has been checked and has its keys in the filters
    BEFORE = 5  # the cell before: its position, LAST, or NONE
    SAME_KEY = 6  # 1 if the cell before has the next cell's key
    SAME_ROW = 7  # 1 if the cell before has the next cell's row
    ROW_DELETED = 8  # 1 if the row of the cell before is in the filter of deleted families
    KEYS = 9  # in the current chunk of the filter
    DELETED_KEYS = 10  # keys in the current chunk of the filter of deleted families
    CELLS = 11
    KEY_BYTES = 12
    VALUE_BYTES = 13
    LARGEST = 14  # bytes of the largest cell
    LARGEST_AT = 15  # its position in the chunk; NONE if it lies in an earlier chunk
    MAX_TAGS = 16
    MIN_TIME = 17
    MAX_TIME = 18
    FIRST_PUT = 19  # the lowest timestamp of a put
    FAMILIES_DELETED = 20


class FillStop(enum.IntEnum):
    """The reasons why `fill_block` stops before the next cell."""

    CHUNK_ENDS = 0
    BLOCK_FULL = 1
    NO_ROOM = 2  # the block's buffer is too small for the cell
    FILTER_FULL = 3
    DELETES_FULL = 4
    NOT_A_CELL = 5
    NOT_SORTED = 6
    OTHER_FAMILY = 7


Layout = tuple[int, int, int, int, int, int, int, int]
"""Block size, encoding, kind of bloom filter, length of its prefix, hashes and keys of its chunks and of the deletes' chunks."""


@inlined
def _is_family_deletion(kind: int) -> bool:
    """Return whether a cell's type deletes a family, or one version of all of its columns."""
    return kind in (CellType.DELETE_FAMILY, CellType.DELETE_FAMILY_VERSION)


@inlined
def _order(chunk: Bytes, pos: int, before: Bytes, at: int, state: OutInts) -> int:
    """Compare a cell with the previous one, and note the result. Returns a FillStop: CHUNK_ENDS if all is well."""
    family, family_len = family_of(chunk, pos)
    other, other_len = family_of(before, at)
    if compare_bytes(chunk, family, family_len, before, other, other_len) != 0:
        return int(FillStop.OTHER_FAMILY.value)
    rows = compare_rows(before, at, chunk, pos)
    keys = rows if rows != 0 else compare_within_row(before, at, chunk, pos)
    if rows != 0:
        state[Fill.ROW_DELETED] = 0
    state[Fill.SAME_ROW], state[Fill.SAME_KEY] = rows == 0, keys == 0
    return int(FillStop.NOT_SORTED.value) if keys > 0 else int(FillStop.CHUNK_ENDS.value)


@inlined
def _filter(
    chunk: Bytes, pos: int, before: Bytes, at: int, has_before: bool, layout: Layout, bits: OutBytes, deletes: OutBytes,
    scratch: OutBytes, state: OutInts,
) -> int:  # fmt: skip
    """Put a cell's keys into the filters. Returns a FillStop: CHUNK_ENDS if all is well."""
    _, _, bloom, prefix_len, hashes, max_keys, delete_hashes, max_deletes = layout
    is_new = bloom != Bloom.NONE and (not has_before or is_new_key(bloom, prefix_len, chunk, pos, before, at))
    is_deletion = max_deletes > 0 and state[Fill.ROW_DELETED] == 0 and _is_family_deletion(type_of(chunk, pos))
    if is_new and (state[Fill.KEYS] == max_keys or bits.size == 0):
        return int(FillStop.FILTER_FULL.value)
    if is_deletion and (state[Fill.DELETED_KEYS] == max_deletes or deletes.size == 0):
        return int(FillStop.DELETES_FULL.value)
    row, row_len = row_of(chunk, pos)
    if is_new:
        if bloom == Bloom.ROWCOL:
            add_key(bits, hashes, scratch, 0, column_key(chunk, pos, scratch))
        else:
            add_key(bits, hashes, chunk, row, min(row_len, prefix_len) if bloom == Bloom.ROWPREFIX_FIXED_LENGTH else row_len)
        state[Fill.KEYS] += 1
    if is_deletion:
        add_key(deletes, delete_hashes, chunk, row, row_len)
        state[Fill.DELETED_KEYS] += 1
        state[Fill.ROW_DELETED] = 1
    return int(FillStop.CHUNK_ENDS.value)


@inlined
def _note(chunk: Bytes, pos: int, state: OutInts) -> None:
    """Count a cell for the file information."""
    key_len, val_len, kind, time = key_len_of(chunk, pos), value_len_of(chunk, pos), type_of(chunk, pos), timestamp_of(chunk, pos)
    _, tags_len = tags_of(chunk, pos)
    size = 4 + LENGTHS + key_len + val_len + (TAGS_LENGTH + tags_len if tags_len > 0 else 0)
    if size > state[Fill.LARGEST]:
        state[Fill.LARGEST], state[Fill.LARGEST_AT] = size, pos
    state[Fill.CELLS] += 1
    state[Fill.KEY_BYTES] += key_len
    state[Fill.VALUE_BYTES] += val_len
    state[Fill.MAX_TAGS] = max(state[Fill.MAX_TAGS], tags_len)
    lowest = 0 if kind in (CellType.DELETE_COLUMN, CellType.DELETE_FAMILY) else time  # these delete timestamps from 0 on
    state[Fill.MIN_TIME] = min(state[Fill.MIN_TIME], lowest)
    state[Fill.MAX_TIME] = max(state[Fill.MAX_TIME], time)
    if kind == CellType.PUT:
        state[Fill.FIRST_PUT] = min(state[Fill.FIRST_PUT], time)
    if _is_family_deletion(kind):
        state[Fill.FAMILIES_DELETED] += 1


@unmanaged
def fill_block(
    chunk: Bytes, last: Bytes, layout: Layout, bits: OutBytes, deletes: OutBytes, scratch: OutBytes, out: OutBytes, state: OutInts
) -> int:
    """Write the chunk's cells from POS on to the block `out`. Returns a FillStop. `last` is the previous chunk's last cell.

    Once the caller has handled the FillStop, the next call goes on with the same cell.
    """
    block_size, encoding = layout[0], layout[1]
    pos = state[Fill.POS]
    while pos < chunk.size:
        end = checked_end(chunk, pos, chunk.size)
        if end < 0:
            return int(FillStop.NOT_A_CELL.value)
        has_before = state[Fill.BEFORE] != NONE
        before = last if state[Fill.BEFORE] < 0 else chunk
        at = max(state[Fill.BEFORE], 0)
        if state[Fill.READY] == 0:
            stop = int(FillStop.CHUNK_ENDS.value)
            if has_before:
                stop = _order(chunk, pos, before, at, state)
            if stop == FillStop.CHUNK_ENDS:
                stop = _filter(chunk, pos, before, at, has_before, layout, bits, deletes, scratch, state)
            if stop != FillStop.CHUNK_ENDS:
                return stop
            state[Fill.READY] = 1
        if state[Fill.SAME_KEY] == 0 and (state[Fill.RAW] >= block_size or state[Fill.ENCODED] >= block_size):
            return int(FillStop.BLOCK_FULL.value)
        to = state[Fill.OUT]
        if to + end - pos + MOST_ADDED > out.size:
            return int(FillStop.NO_ROOM.value)
        is_first = state[Fill.RAW] == 0
        state[Fill.OUT] = put_cell(encoding, chunk, pos, is_first, before, at, out, to)
        state[Fill.RAW] += end - pos
        state[Fill.ENCODED] += state[Fill.OUT] - to
        if encoding == Encoding.ROW_INDEX_V1 and (is_first or state[Fill.SAME_ROW] == 0):
            state[Fill.ENCODED] += ROW_OFFSET
        _note(chunk, pos, state)
        state[Fill.BEFORE], state[Fill.READY] = pos, 0
        pos = end
        state[Fill.POS] = pos
    return int(FillStop.CHUNK_ENDS.value)
