"""Splits cell blocks into rows of cells. One compiled pass checks the cells and finds where rows begin."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from walferry.base.kernels.compiled import inlined, unmanaged
from walferry.base.kernels.read import INCOMPLETE, same_bytes
from walferry.base.kernels.types import Bytes, Ints, OutInts
from walferry.hbase.wal.cells import MIN_CELL, row_of
from walferry.hbase.wal.check import check_cell
from walferry.hbase.wal.problems import Problem
from walferry.hbase.wal.scan import read_only


class BrokenCells(ValueError):
    """The cell block cannot come from HBase."""


@dataclass(frozen=True)
class Rows:
    """Rows in a buffer. Cell i lies at `cells[i]` to `cells[i + 1]`; row i consists of the cells `rows[i]` to `rows[i + 1]`."""

    data: Bytes
    cells: Ints
    rows: Ints

    def __len__(self) -> int:
        return len(self.rows) - 1

    def row(self, i: int) -> bytes:
        """Return the cells of row i."""
        return self.data[self.cells[self.rows[i]] : self.cells[self.rows[i + 1]]].tobytes()

    def key(self, i: int) -> bytes:
        """Return the key of row i."""
        cell = int(self.cells[self.rows[i]])
        length = int(self.data[cell + 12]) << 8 | int(self.data[cell + 13])
        return self.data[cell + 14 : cell + 14 + length].tobytes()

    def first(self, count: int) -> Rows:
        """Return the first `count` rows, in the same buffer."""
        return Rows(self.data, self.cells[: int(self.rows[count]) + 1], self.rows[: count + 1])


def index_rows(data: bytes | memoryview, count: int) -> Rows:
    """Find the rows of a cell block of `count` cells. Raises BrokenCells."""
    if count > len(data) // MIN_CELL:
        raise BrokenCells(f"a block of {len(data)} bytes with {count} cells")
    buf = read_only(np.frombuffer(data, dtype=np.uint8))
    cells, rows = np.empty(count + 1, dtype=np.int64), np.empty(count + 1, dtype=np.int64)
    row_count, problem, at = index_rows_into(buf, cells, rows)
    if problem:
        what = "cells end early" if problem == INCOMPLETE else f"problem {Problem(problem).name}"
        raise BrokenCells(f"{what} at byte {at} of a block of {len(buf)} bytes with {count} cells")
    return Rows(buf, cells, rows[: row_count + 1])


@inlined
def _same_row(buf: Bytes, one: int, other: int) -> bool:
    start, length = row_of(buf, one)
    other_start, other_length = row_of(buf, other)
    return length == other_length and same_bytes(buf, start, buf, other_start, length)


@unmanaged
def index_rows_into(buf: Bytes, cells: OutInts, rows: OutInts) -> tuple[int, int, int]:
    """Fill `cells` and `rows` for a Rows. Returns (number of rows, problem or 0, the problem's offset)."""
    count, found, pos, end = len(cells) - 1, 0, 0, len(buf)
    for i in range(count):
        after, status = check_cell(buf, pos, end)
        if status != Problem.NONE:
            return found, status, pos
        cells[i] = pos
        if i == 0 or not _same_row(buf, cells[i - 1], pos):
            rows[found] = i
            found += 1
        pos = after
    cells[count] = pos
    rows[found] = count
    return found, (0 if pos == end else INCOMPLETE), pos
