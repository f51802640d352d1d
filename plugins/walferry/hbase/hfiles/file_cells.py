"""Reads an HFile's cells a piece at a time, so that several files can be read side by side up to a row that all have reached."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import numpy as np

from walferry.base.kernels.compiled import unmanaged
from walferry.base.kernels.read import compare_bytes
from walferry.base.kernels.types import Bytes, Ints
from walferry.hbase.hfiles.cells import row_of
from walferry.hbase.hfiles.decoding import Cells, Follows, cells_of, joined
from walferry.hbase.hfiles.errors import UnreadableHFile
from walferry.hbase.hfiles.opened import HFile

PIECE_BYTES: Final = 2 << 20  # of a file, at a time
MAX_ROW_BYTES: Final = 64 << 20  # of a row's cells in one file
NOT_SORTED: Final = "its cells are not sorted"


class FileCells:
    """The cells of one file from the row `start` to before `stop` (empty: no limit), a piece at a time."""

    def __init__(
        self, file: HFile, start: bytes, stop: bytes, piece_bytes: int = PIECE_BYTES, max_row_bytes: int | None = None
    ) -> None:
        self._file, self._start, self._stop, self._piece_bytes = file, start, stop, piece_bytes
        self._max_row_bytes = max_row_bytes or MAX_ROW_BYTES
        self._follows = Follows(file.has_tags, file.has_sequence_ids)
        self._blocks = file.data_blocks(start, piece_bytes)
        self.cells = joined([])
        self.at = 0  # the first cell that is not taken yet
        self.ended = False  # all of the file is in `cells`
        self._read = 0  # cells

    @property
    def last_row(self) -> bytes:
        """The row of the last cell that was read."""
        return self.cells.row(len(self.cells) - 1)

    def read_on(self) -> None:
        """Read another piece, so that there is a later row, or the end. Raises UnreadableHFile, StoreError."""
        before = self.last_row if self.at < len(self.cells) else None
        while not self.ended:
            self._add_piece()
            if len(self.cells.data) > self._max_row_bytes:
                raise self.unreadable(f"one of its rows has more than {self._max_row_bytes:,} bytes")
            if self.at < len(self.cells) and self.last_row != before:
                return

    def _add_piece(self) -> None:
        parts, size = list[Cells](), 0
        try:
            for block in self._blocks:
                parts.append(cells_of(block, self._follows))
                size += len(parts[-1].data)
                if size >= self._piece_bytes:
                    break
            else:
                self.ended = True
        except ValueError as error:
            raise self.unreadable(str(error)) from error
        self._read += sum(map(len, parts))
        if self.ended and not self._start and not self._stop and self._read != self._file.cells:
            raise self.unreadable(f"it has {self._read:,} cells, and not {self._file.cells:,}")
        self._append(parts)

    def unreadable(self, why: str) -> UnreadableHFile:
        """Return the error for a file that makes no sense."""
        return UnreadableHFile(f"{self._file.url} cannot be read: {why}")

    def _append(self, parts: Sequence[Cells]) -> None:
        """Append cells to those that are left, without those outside of the rows. Raises UnreadableHFile."""
        first_row = next((part.row(0) for part in parts if len(part)), None)
        left = self.cells.since(self.at)
        if len(left) and first_row is not None and first_row < self.last_row:
            raise self.unreadable(NOT_SORTED)
        cells, self.at = joined([left, *parts]), 0
        if self._stop and (end := self.first_from(cells, len(left), self._stop)) < len(cells):
            cells, self.ended = Cells(cells.data, cells.starts[:end]), True
        if self._start and not len(left):
            cells = Cells(cells.data, cells.starts[self.first_from(cells, 0, self._start) :])
        self.cells = cells

    @staticmethod
    def first_from(cells: Cells, at: int, row: bytes) -> int:
        """Return the index of the first cell from `at` on whose row is not before `row`."""
        return first_from(cells.data, cells.starts, at, np.frombuffer(row, np.uint8))

    def take_until(self, border: bytes | None) -> tuple[int, int]:
        """Take the cells before the row `border` (None: all that were read). Returns the first one's index in `cells`, and the
        index after the last one."""
        first = self.at
        self.at = len(self.cells) if border is None else self.first_from(self.cells, first, border)
        return first, self.at


def borders(files: Sequence[FileCells], read_on: Callable[[Sequence[FileCells]], object]) -> Iterator[bytes | None]:
    """Yield one row after the other up to which all files are read; None at the end. `read_on` makes given files read on.

    The caller takes the cells before each row.
    """
    read_on(files)
    while True:
        border = min((file.last_row for file in files if not file.ended), default=None)
        yield border
        if border is None:
            return
        read_on([file for file in files if not file.ended and file.last_row == border])


@unmanaged
def first_from(data: Bytes, starts: Ints, at: int, row: Bytes) -> int:
    """Return the index of the first cell from `at` on whose row is not before `row`."""
    low, high = at, len(starts)
    while low < high:
        middle = (low + high) // 2
        start, length = row_of(data, starts[middle])
        if compare_bytes(data, start, length, row, 0, row.size) < 0:
            low = middle + 1
        else:
            high = middle
    return low
