"""Reads the cells of Phoenix's IndexedWALEditCodec, which all WALs of a cluster with secondary indexes name.

    cell   = cell of cells.py | index                                          in a WAL that is not compressed
           | 0x00 cell of expand_cell.py | 0xff index                          in a compressed one
    index  = int32 -1, vint n, table's name of n bytes, vint m, MutationProto of m bytes
    vint   = int8 from -112 on, the number itself | int8 -113 - k, k bytes of the number, big-endian           Hadoop's

An index is a mutation of an index table, kept so that a recovery can write it again. Phoenix writes it with the row that it
belongs to up to 4.14.2 and 5.0, and later with phoenix.index.region.observer.enabled = false. By default later versions write
none. HBase's reader gives an index as a cell of the family METAFAMILY, which is never replicated. Here it becomes the shortest
cell of that family: it is shorter than any index that Phoenix writes, so a buffer has room for its entries without indexes.

Source: Phoenix's IndexedWALEditCodec, KeyValueCodec, IndexedKeyValue (5.2), the same since 4.0; Hadoop's WritableUtils.
"""

from __future__ import annotations

import enum
from typing import Final

import numpy as np

from walferry.base.kernels.compiled import inlined, unmanaged
from walferry.base.kernels.read import INCOMPLETE, read_int32, read_uint8
from walferry.base.kernels.types import Bytes, OutBytes, OutInts, OutIntTable
from walferry.base.kernels.write import copy_bytes, put_int
from walferry.hbase.wal.cells import CELL_LENGTHS, KEY_TAIL, META_FAMILY, MIN_CELL, MIN_KEY, CellType, put_lengths
from walferry.hbase.wal.check import check_cell
from walferry.hbase.wal.keys import KEY_ROWS, KeyRow, read_entry_key
from walferry.hbase.wal.problems import MAX_ENTRY_BYTES, Fault, Problem
from walferry.hbase.wal.scan import scan_entries, widened
from walferry.hbase.wal.wal_batches import FilePart, WalBatch

CELL_FOLLOWS: Final = 0x00
INDEX_FOLLOWS: Final = 0xFF
INDEX: Final = -1  # instead of a cell's length
_FAMILY: Final = np.frombuffer(META_FAMILY, np.uint8)
_FAMILY_BYTES: Final = len(META_FAMILY)
_PUT: Final[int] = CellType.PUT.value
PLACEHOLDER_BYTES: Final = MIN_CELL + _FAMILY_BYTES
_LARGEST_SINGLE: Final = 0x7F  # a vint of one byte that is not negative
_FIRST_LONG, _LAST_LONG = 0x8F, 0x8C  # -113 and -116: one to four bytes follow


class IndexedState(enum.IntEnum):
    """The elements of the state of `copy_without_indexes`."""

    ENTRIES = 0
    POS = 1
    OUT = 2
    PROBLEM = 3
    AT = 4
    NEED = 5


def plain_entries(buf: Bytes, base: int) -> FilePart:
    """Turn the whole entries in `buf`, which begins with an entry and lies at offset `base` of the file, into plain ones."""
    out, state = np.empty(len(buf), np.uint8), np.zeros(len(IndexedState), np.int64)
    starts = np.empty((1, 256 + len(buf) // 256), np.int64)
    scratch = np.empty((KEY_ROWS, 1), np.int64)
    while copy_without_indexes(buf, out, starts, scratch, state):
        starts = widened(starts)
    count, consumed, end, problem, at, need = (int(value) for value in state)
    start = starts[0, :count]
    index = scan_entries(out, 0, end).index
    fault = Fault(base + at, Problem(problem)) if problem else None
    next_start = np.append(start[1:], consumed) if count else start
    return FilePart(WalBatch(out, base, index, start + base, next_start + base), base + consumed, fault, base + need)


def begins_with_index(buf: Bytes, at: int) -> bool:
    """Return whether an index, and no cell, begins at `at`."""
    return buf[at : at + 4].tobytes() == INDEX.to_bytes(4, signed=True)


@inlined
def _read_vint(buf: Bytes, pos: int, end: int) -> tuple[int, int]:
    """Return a length and the position after it: INCOMPLETE, or 0 if the vint is negative or longer than four bytes."""
    if pos >= end:
        return 0, INCOMPLETE
    first = read_uint8(buf, pos)
    if first <= _LARGEST_SINGLE:
        return first, pos + 1
    if first > _FIRST_LONG or first < _LAST_LONG:
        return 0, 0
    after = pos + 2 + _FIRST_LONG - first
    if after > end:
        return 0, INCOMPLETE
    value = 0
    for i in range(pos + 1, after):
        value = value << 8 | read_uint8(buf, i)
    return value, after


@inlined
def index_end(buf: Bytes, pos: int, end: int) -> tuple[int, int]:
    """Return (position after the index at `pos`, 0).

    If the last number is a Problem, the first is its position. If it is INCOMPLETE, the first is the smallest end of the range
    with which reading can go on.
    """
    if end - pos < 4:
        return pos + 4, INCOMPLETE
    if read_int32(buf, pos) != INDEX:
        return pos, Problem.BAD_PHOENIX_INDEX
    at = pos + 4
    for _ in range(2):
        length, start = _read_vint(buf, at, end)
        if start == INCOMPLETE:
            return end + 1, INCOMPLETE
        if start == 0 or length > MAX_ENTRY_BYTES:
            return at, Problem.BAD_PHOENIX_INDEX
        at = start + length
        if at > end:
            return at, INCOMPLETE
    if at - pos < PLACEHOLDER_BYTES:
        return pos, Problem.BAD_PHOENIX_INDEX
    return at, Problem.NONE


@inlined
def put_placeholder(out: OutBytes, at: int) -> int:
    """Write the cell that stands for an index to `out[at:]`. Returns the position after it."""
    at = put_lengths(out, at, MIN_KEY + _FAMILY_BYTES, 0, 0)
    at = put_int(out, put_int(out, at, 0, 2), _FAMILY_BYTES, 1)
    at = copy_bytes(out, at, _FAMILY, 0, _FAMILY_BYTES)
    return put_int(out, put_int(out, at, 0, KEY_TAIL - 1), _PUT, 1)


@inlined
def _copy_cells(buf: Bytes, start: int, end: int, count: int, out: OutBytes, at: int) -> tuple[int, int, int]:
    """Check `count` cells from `start` on, and copy them to `out[at:]`. Returns (position, 0, end in `out`).

    If the second number is a Problem or INCOMPLETE, the first is as from `check_cell`.
    """
    pos, limit = start, start + MAX_ENTRY_BYTES
    for left in range(count, 0, -1):
        if left * MIN_CELL > limit - pos:
            return pos, Problem.BAD_CELL_COUNT if left == count else Problem.ENTRY_TOO_LONG, at
        is_index = end - pos >= CELL_LENGTHS and read_int32(buf, pos) == INDEX
        after, status = index_end(buf, pos, end) if is_index else check_cell(buf, pos, end)
        if status == INCOMPLETE and after > limit:
            return pos, Problem.ENTRY_TOO_LONG, at
        if status != Problem.NONE:
            return after, status, at
        at = put_placeholder(out, at) if is_index else copy_bytes(out, at, buf, pos, after - pos)
        pos = after
    return pos, Problem.NONE, at


@unmanaged
def copy_without_indexes(buf: Bytes, out: OutBytes, starts: OutIntTable, scratch: OutIntTable, state: OutInts) -> bool:
    """Copy entries from `state[IndexedState.POS]` on. Returns True if `starts` is full, and a wider table is needed to go on."""
    count, pos, at, end = state[IndexedState.ENTRIES], state[IndexedState.POS], state[IndexedState.OUT], buf.size
    stop, status = pos, 0
    while pos < end and count < starts.shape[1]:
        stop, cells, status = read_entry_key(buf, pos, end, scratch, 0)
        if status != Problem.NONE:
            break
        begin = copy_bytes(out, at, buf, pos, cells - pos)
        stop, status, after = _copy_cells(buf, cells, end, scratch[KeyRow.CELL_COUNT, 0], out, begin)
        if status != Problem.NONE:
            break
        starts[0, count] = pos
        count, pos, at = count + 1, stop, after
    state[IndexedState.ENTRIES], state[IndexedState.POS], state[IndexedState.OUT] = count, pos, at
    state[IndexedState.PROBLEM] = status if status > 0 else 0
    state[IndexedState.AT] = stop
    state[IndexedState.NEED] = stop if status == INCOMPLETE else pos
    return bool(status == Problem.NONE and pos < end)
