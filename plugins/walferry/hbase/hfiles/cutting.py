"""Cuts sorted runs at a row, because a region of the peer cluster was split after its runs were made.

A run contains the rows of one region in order, so each new region's share is one range of its bytes. To find the start of that
range, `cut` walks from cell to cell, because only a cell's lengths show where the next cell begins.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

import numpy as np

from walferry.base.kernels.compiled import unmanaged
from walferry.base.kernels.read import INCOMPLETE, compare_bytes
from walferry.base.kernels.types import Bytes
from walferry.hbase.hfiles.cells import BROKEN, EDIT, MAX_CELL, MIN_CELL, checked_end, row_of
from walferry.hbase.hfiles.errors import BrokenRun
from walferry.hbase.wal.scan import read_only
from walferry.hbase.wal.wal_batches import RandomAccess

CHUNK_BYTES = 1 << 20
_LARGEST: Final = MAX_CELL + EDIT


class _Stop(enum.IntEnum):
    """The reasons why `_find` stops."""

    FOUND = 0  # at a cell whose row is not before the wanted row
    PART_ENDS = 1  # at the end of the part, or at a cell that goes on behind it
    NOT_A_CELL = 2


@dataclass(frozen=True)
class RunPart:
    """The bytes of a run from `start` to `end`, as a run of its own. Offsets in errors count from `start`."""

    run: RandomAccess
    start: int
    end: int

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.end <= self.run.size:
            raise ValueError(f"a run of {self.run.size} bytes has no part from byte {self.start} to {self.end}")

    @property
    def size(self) -> int:
        """Its length in bytes."""
        return self.end - self.start

    def read_at(self, offset: int, length: int) -> bytes | memoryview:
        """Return `length` bytes from `offset` on, and fewer only at the end."""
        return self.run.read_at(self.start + offset, max(0, min(length, self.size - offset)))


def cut(run: RandomAccess, row: bytes, *, chunk_bytes: int = CHUNK_BYTES) -> int:
    """Return the offset of a run's first cell whose row is at or after `row`, or the run's size if there is none.

    Holds about `chunk_bytes`, or one longer cell. Does not read on after the chunk with the cell. Raises BrokenRun, and the
    errors of reading.
    """
    wanted = np.frombuffer(row, np.uint8)
    least = max(chunk_bytes, MIN_CELL + EDIT)
    offset, length = 0, least
    while offset < run.size:
        part = _read(run, offset, min(length, run.size - offset))
        stop, at = _find(part, wanted)
        if stop == _Stop.FOUND:
            return offset + at
        if stop == _Stop.NOT_A_CELL:
            raise BrokenRun(None, offset + at, "there is no cell here")
        if at < len(part) and offset + len(part) == run.size:
            raise BrokenRun(None, offset + at, "the run ends within a cell")
        if at == 0 and length >= _LARGEST:
            raise BrokenRun(None, offset, f"a cell is longer than {MAX_CELL} bytes")
        length = 2 * length if at == 0 else least  # a cell that goes on behind the part is read again
        offset += at
    return run.size


def _read(run: RandomAccess, offset: int, length: int) -> Bytes:
    data = run.read_at(offset, length)
    if len(data) != length:
        raise OSError(f"a sorted run gave {len(data)} bytes where {length} were asked for at byte {offset}")
    return read_only(np.frombuffer(data, np.uint8))


@unmanaged
def _find(part: Bytes, row: Bytes) -> tuple[int, int]:
    """Return a _Stop, and its position in `part`."""
    pos = 0
    while pos < part.size:
        after = checked_end(part, pos, part.size)
        if after == BROKEN:
            return int(_Stop.NOT_A_CELL.value), pos
        if after == INCOMPLETE or after + EDIT > part.size:
            break
        start, length = row_of(part, pos)
        if compare_bytes(part, start, length, row, 0, row.size) >= 0:
            return int(_Stop.FOUND.value), pos
        pos = after + EDIT
    return int(_Stop.PART_ENDS.value), pos
