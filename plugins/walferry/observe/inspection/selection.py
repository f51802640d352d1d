"""Chooses cells of a WAL batch. The cells of entries that are not wanted are not read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from walferry.base.kernels.compiled import unmanaged
from walferry.base.kernels.read import find_name, flat, same_bytes
from walferry.base.kernels.types import Bytes, Flags, Ints, OutFlags, OutInts
from walferry.hbase.wal.cells import cell_end, row_of
from walferry.hbase.wal.scan import read_only
from walferry.hbase.wal.wal_batches import WalBatch


@dataclass(frozen=True)
class Selection:
    """The wanted cells. A field that is None, or empty, excludes nothing. Times are milliseconds since the epoch."""

    row: bytes | None = None
    row_prefix: bytes = b""
    tables: tuple[bytes, ...] = ()
    region: bytes | None = None  # encoded region name
    sequence_id: int | None = None
    written_from: int | None = None  # write time of the entry
    written_before: int | None = None


@dataclass(frozen=True)
class SelectedCells:
    """The chosen cells of a WAL batch, in file order: each cell's entry, and where the cell begins in the buffer."""

    entry: Ints
    start: Ints

    def __len__(self) -> int:
        return len(self.entry)


def select(batch: WalBatch, selection: Selection) -> SelectedCells:
    """Find the cells of `batch` that are wanted."""
    buf, index = read_only(batch.buf), batch.index
    wanted = np.ones(len(index), np.bool_)
    if selection.sequence_id is not None:
        wanted &= index.sequence_id == selection.sequence_id
    if selection.written_from is not None:
        wanted &= index.write_time >= selection.written_from
    if selection.written_before is not None:
        wanted &= index.write_time < selection.written_before
    if selection.tables:
        _keep_named(buf, index.table_start, index.table_len, *flat(selection.tables), wanted)
    if selection.region is not None:
        _keep_named(buf, index.region_start, index.region_len, *flat((selection.region,)), wanted)
    most = int(index.cell_count[wanted].sum())
    entry, start = np.empty(most, np.int64), np.empty(most, np.int64)
    exact = selection.row is not None
    row = selection.row if selection.row is not None else selection.row_prefix
    count = _select_cells(buf, index.cells_start, index.cell_count, wanted, np.frombuffer(row, np.uint8), exact, entry, start)
    return SelectedCells(entry[:count], start[:count])


@unmanaged
def _keep_named(buf: Bytes, start: Ints, length: Ints, first: Ints, names: Bytes, wanted: OutFlags) -> None:
    """Clear the flag of each entry whose name, `buf[start:start + length]`, is not among `names`."""
    for entry in range(start.size):
        found = find_name(buf, start[entry], length[entry], 0, first.size - 1, first, names)
        wanted[entry] = wanted[entry] and found >= 0


@unmanaged
def _select_cells(
    buf: Bytes, cells_start: Ints, cell_count: Ints, wanted: Flags, row: Bytes, exact: bool, entries: OutInts, starts: OutInts
) -> int:
    """Write the cells of wanted entries whose row is `row`, or begins with it if not `exact`. Returns how many it found."""
    count = 0
    for entry in range(cells_start.size):
        if not wanted[entry]:
            continue
        pos = cells_start[entry]
        for _ in range(cell_count[entry]):
            found, length = row_of(buf, pos)
            fits = length == row.size if exact else length >= row.size
            if fits and same_bytes(buf, found, row, 0, row.size):
                entries[count] = entry
                starts[count] = pos
                count += 1
            pos = cell_end(buf, pos)
    return count
