"""Finds the entries of an uncompressed WAL in a buffer in one compiled pass.

    entry = varint(key length) WALKey cell{following_kv_count}          see keys.py and cells.py; varints are protobuf's

The format does not store an entry's length, so the scan walks the cells. Source: HBase's ProtobufWALStreamReader (branch-2.6).

Kernels get a buffer and a range. They check every length against the range's end before they use it, and never read outside the
range.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from walferry.base.kernels.compiled import unmanaged
from walferry.base.kernels.read import INCOMPLETE, hash_bytes
from walferry.base.kernels.types import Bytes, Ints, OutInts, OutIntTable
from walferry.hbase.wal.check import check_cells
from walferry.hbase.wal.keys import KEY_ROWS, KeyRow, read_entry_key
from walferry.hbase.wal.problems import MAX_ENTRY_BYTES, Fault, Problem


class ScanState(enum.IntEnum):
    """The elements of the state in which `scan_into` stops and goes on."""

    COUNT = 0
    POS = 1
    PROBLEM = 2
    AT = 3
    NEED = 4


@dataclass(frozen=True)
class EntryIndex:
    """The places of entries in a buffer: arrays with one element for each entry, in file order.

    Offsets count from the buffer's start. An entry is `buf[entry_start:cells_end]`: its key's length, the key
    `buf[key_start:key_end]`, and its cells `buf[cells_start:cells_end]`, where `cells_start == key_end` and `cells_end` is the
    next entry's start.
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
    cluster_id_count: Ints  # the WALKey's fields 5 and 8, whose contents the scan does not check

    def __len__(self) -> int:
        return len(self.entry_start)

    def chosen(self, which: slice | Ints | NDArray[np.bool_]) -> EntryIndex:
        """Return the index of these entries alone."""
        return EntryIndex(*(getattr(self, each.name)[which] for each in fields(self)))


@dataclass(frozen=True)
class EntryScan:
    """The entries in a range of a buffer: whole ones up to `consumed`, where an unfinished or broken entry begins."""

    index: EntryIndex
    consumed: int
    fault: Fault | None  # with its offset in the buffer
    need: int  # end of the range that would show more of an unfinished entry; `consumed` without one


def scan_entries(buf: Bytes, start: int, end: int) -> EntryScan:
    """Index the entries that lie wholly in `buf[start:end]`, where `start` is the start of an entry.

    The scan stops before an entry that leaves the range, and before bytes that cannot be a WAL entry (`fault`). Raises ValueError
    if the range leaves the buffer.
    """
    if not 0 <= start <= end <= len(buf):
        raise ValueError(f"bytes {start} to {end} are not within a buffer of {len(buf)} bytes")
    view = read_only(buf)
    state = np.array([0, start, 0, start, start], dtype=np.int64)
    table = np.empty((KEY_ROWS, 256 + (end - start) // 256), dtype=np.int64)
    while scan_into(view, end, table, state):
        table = widened(table)
    count, consumed, code, at, need = (int(x) for x in state)
    return EntryScan(_entry_index(table[:, :count], consumed), consumed, Fault(at, Problem(code)) if code else None, need)


def read_only(buf: Bytes) -> Bytes:
    """Return a read-only view of `buf`.

    Read-only and writable arrays are two types to numba, so kernels are compiled only for read-only ones.
    """
    view = buf.view()
    view.flags.writeable = False
    return view


def widened(table: Ints) -> Ints:
    """Return a table with twice as many columns. Its first half is a copy of `table`."""
    wider = np.empty((table.shape[0], 2 * table.shape[1]), dtype=np.int64)
    wider[:, : table.shape[1]] = table
    return wider


def _entry_index(table: Ints, end: int) -> EntryIndex:
    """Return the index of the entries in a table, whose rows have the names of the index's arrays."""
    starts, cells_start = table[KeyRow.ENTRY_START], table[KeyRow.CELLS_START]
    columns = {row.name.lower(): table[row] for row in KeyRow if row is not KeyRow.REGION_HASH}
    cells_end = np.append(starts[1:], end) if len(starts) else starts
    return EntryIndex(**columns, key_end=cells_start, cells_end=cells_end, region_hash=table[KeyRow.REGION_HASH].view(np.uint64))


@unmanaged
def scan_into(buf: Bytes, end: int, table: OutIntTable, state: OutInts) -> bool:
    """Index entries from `state[ScanState.POS]` on. Returns True if `table` is full and the scan must go on in a wider one."""
    count, pos = state[ScanState.COUNT], state[ScanState.POS]
    at, status = pos, 0
    while pos < end and count < table.shape[1]:
        key, cells, status = read_entry_key(buf, pos, end, table, count)
        if status != Problem.NONE:
            at = key
            break
        at, status = check_cells(buf, cells, end, table[KeyRow.CELL_COUNT, count], cells + MAX_ENTRY_BYTES)
        if status != Problem.NONE:
            break
        table[KeyRow.ENTRY_START, count] = pos
        table[KeyRow.KEY_START, count] = key
        table[KeyRow.CELLS_START, count] = cells
        table[KeyRow.REGION_HASH, count] = hash_bytes(buf, table[KeyRow.REGION_START, count], table[KeyRow.REGION_LEN, count])
        count += 1
        pos = at
    state[ScanState.COUNT] = count
    state[ScanState.POS] = pos
    state[ScanState.PROBLEM] = status if status > 0 else 0
    state[ScanState.AT] = at
    state[ScanState.NEED] = at if status == INCOMPLETE else pos
    return bool(status == Problem.NONE and pos < end)
