"""Defines WAL batches (buffers with whole entries, and their index) and the files that callers give to the reader."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from walferry.base.kernels.types import Bytes, Ints
from walferry.hbase.wal.problems import Fault
from walferry.hbase.wal.scan import EntryIndex

WAL_BATCH_BYTES = 8 << 20

UnwrapKey = Callable[[bytes], bytes]
"""Returns the key of a WAL for the wrapped key in its header. Raises a WalferryError that says what is missing, without a key."""
PartialTail = Literal["error", "stop"]


class RandomAccess(Protocol):
    """An open file. `size` is its length in bytes when it was opened."""

    @property
    def size(self) -> int: ...

    def read_at(self, offset: int, length: int) -> bytes | memoryview:
        """Read `length` bytes from `offset` on, and fewer only at the end of the file. The caller may keep the result.

        Raises WalError with the offset of the first unreadable byte.
        """
        ...


@dataclass(frozen=True)
class WalBatch:
    """Whole entries of a file. Offsets in `index` count from the start of `buf`.

    `buf` lies at offset `base` of the file. If the file is compressed or encrypted, `file_start` and `file_end` are the file
    offsets of each entry.
    """

    buf: Bytes
    base: int
    index: EntryIndex
    file_start: Ints | None = None
    file_end: Ints | None = None

    @property
    def positions(self) -> Ints:
        """The file offset of each entry, which is the position to start reading with that entry."""
        return self.index.entry_start + self.base if self.file_start is None else self.file_start

    @property
    def next_positions(self) -> Ints:
        """The file offset just after each entry: the position to register once the entry has been handled."""
        return self.index.cells_end + self.base if self.file_end is None else self.file_end

    def entry_offset(self, entry: int) -> int:
        """Return the file offset of an entry."""
        return int(self.positions[entry])

    def until(self, offset: int) -> WalBatch:
        """Return the entries, possibly none, that end at or before an offset of the file."""
        return self.chosen(slice(int(np.searchsorted(self.next_positions, offset, side="right"))))

    def chosen(self, which: slice | NDArray[np.bool_]) -> WalBatch:
        """Return these entries, in their order."""
        starts, ends = (None if offsets is None else offsets[which] for offsets in (self.file_start, self.file_end))
        return WalBatch(self.buf, self.base, self.index.chosen(which), starts, ends)


@dataclass(frozen=True)
class FilePart:
    """A stage's result for a range of the file. Offsets are offsets in the file, except within `batch`."""

    batch: WalBatch
    consumed: int  # where an unfinished or broken entry begins
    fault: Fault | None
    need: int  # end of the range that would show more of an unfinished entry; `consumed` without one


WalBatchesToEnd = Generator[WalBatch, None, bool]
"""A generator of WAL batches. It returns whether the entries end where the file's trailer begins."""
