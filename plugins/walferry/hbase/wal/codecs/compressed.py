"""Turns a compressed WAL into buffers with its entries in the format of an uncompressed WAL.

Only a reader that has read the file from its start knows the dictionaries. To reach a position, it therefore reads everything
before the position, but decompresses no values there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from walferry.base.kernels.types import Bytes, Ints
from walferry.hbase.wal.codecs.dictionaries import Dictionaries
from walferry.hbase.wal.codecs.expand import expand_into
from walferry.hbase.wal.codecs.passes import (
    AT_ENTRY,
    NEED_ARENA,
    NEED_INPUT,
    NEED_OUT,
    NEED_TABLES,
    EntryRow,
    PassState,
    ValueRow,
)
from walferry.hbase.wal.codecs.values import MOST_FROM_A_BYTE, BadValue, UnknownDictionary, decompress_values
from walferry.hbase.wal.errors import WalCorruptError, WalUnsupportedError
from walferry.hbase.wal.header import Compression
from walferry.hbase.wal.problems import MAX_ENTRY_BYTES, MAX_KEY_BYTES, Problem

OUT_BYTES: Final = 16 << 20
MIN_OUT_BYTES: Final = 64 << 10
BYTES_AN_ENTRY: Final = 128  # most entries are larger; a batch of smaller entries ends when the table is full
BYTES_A_VALUE: Final = 64  # with its cell
MAX_OUT_BYTES: Final = MAX_ENTRY_BYTES + 2 * MAX_KEY_BYTES


@dataclass(frozen=True)
class Expanded:
    """Whole entries: `buf` in the format of an uncompressed WAL, where each begins in it, and their offsets in the file."""

    buf: Bytes
    start: Ints
    file_start: Ints
    file_end: Ints


@dataclass
class Expander:
    """Turns a file's bytes, fed piece by piece, into plain entries. Errors call the file `path`."""

    path: str
    compression: Compression
    wanted: int  # file offset; values of entries before it are not decompressed
    size: int  # the number of bytes that will be fed in all
    dictionaries: Dictionaries = field(default_factory=Dictionaries.empty)

    def __post_init__(self) -> None:
        self._out_bytes = min(max(MIN_OUT_BYTES, 4 * self.size), OUT_BYTES)
        self._out: Bytes = np.empty(self._out_bytes, np.uint8)
        self._entries = np.empty((len(EntryRow), self._out_bytes // BYTES_AN_ENTRY), np.int64)
        self._values = np.empty((len(ValueRow), self._out_bytes // BYTES_A_VALUE), np.int64)
        self._state = np.zeros(len(PassState), np.int64)
        self._state[PassState.CELLS_LEFT] = AT_ENTRY
        self._decompressed = False  # whether any value was decompressed

    @property
    def entry_start(self) -> int:
        """The file offset of the entry that is being read, or else of the last one read."""
        return int(self._state[PassState.ENTRY_START])

    @property
    def inside(self) -> bool:
        """Whether an entry has been read only in part."""
        return bool(self._state[PassState.CELLS_LEFT] != AT_ENTRY)

    def feed(self, buf: Bytes, base: int, at_end: bool) -> Iterator[Expanded]:
        """Yield the entries that end in `buf`, which lies at file offset `base`, where the last call stopped (`consumed`).

        Raises WalCorruptError or WalUnsupportedError once it has yielded the entries before the broken one.
        """
        state, dictionaries = self._state, self.dictionaries
        state[PassState.POS] = 0
        while True:
            status = expand_into(
                buf, len(buf), at_end, base, self.compression.tags, self.compression.phoenix,
                MOST_FROM_A_BYTE.get(self.compression.values, 0),
                dictionaries.lists, dictionaries.nodes, dictionaries.arena, dictionaries.used,
                self._out, self._entries, self._values, state,
            )  # fmt: skip
            broken = self._decompress(buf, base)
            if broken:  # the value lies before the point where the pass stopped, so its error comes first
                if state[PassState.ENTRIES]:
                    yield self._flush()
                raise broken
            if status == NEED_ARENA:
                dictionaries.make_room(int(state[PassState.NEED]))
            elif status in (NEED_OUT, NEED_TABLES):
                if state[PassState.ENTRIES]:
                    yield self._flush()
                elif status == NEED_OUT:
                    self._grow(int(state[PassState.NEED]))
            else:
                if state[PassState.ENTRIES]:
                    yield self._flush()
                if status == NEED_INPUT:
                    return
                raise self._corrupt(base + int(state[PassState.AT]), Problem(status).reason)

    @property
    def consumed(self) -> int:
        """The number of bytes of the last buffer that have been read."""
        return int(self._state[PassState.POS])

    @property
    def need(self) -> int:
        """The smallest length with which more of the last buffer would have been read."""
        return int(self._state[PassState.NEED])

    def _decompress(self, buf: Bytes, base: int) -> WalCorruptError | WalUnsupportedError | None:
        """Decompress the values that the last pass skipped. A broken value breaks its entry, but no entry before it."""
        count, self._state[PassState.VALUES] = int(self._state[PassState.VALUES]), 0
        codec = self.compression.values
        if not count or codec is None or base + int(self._state[PassState.POS]) <= self.wanted:
            return None
        first = self._first_wanted(count)
        try:
            decompress_values(codec, buf, self._out, self._values[:, first:count])
        except BadValue as error:
            value = first + error.value
            target = int(self._values[ValueRow.TARGET, value]) - 1  # its cell's type: an empty value may end an entry
            starts = self._entries[EntryRow.OUT_START, : self._state[PassState.ENTRIES]]
            whole = int(np.searchsorted(starts, target, side="right")) - 1
            if self._ends_after(whole, target):  # otherwise the entry is the one at which the pass has stopped
                self._state[PassState.ENTRY_START] = self._entries[EntryRow.FILE_START, whole]
                self._state[PassState.ENTRY_OUT] = self._entries[EntryRow.OUT_START, whole]
                self._state[PassState.ENTRIES], self._state[PassState.CELLS_LEFT] = whole, 0
            offset = base + int(self._values[ValueRow.SOURCE, value])
            # A zstd dictionary is an HBase setting: either all values of a file need it, or a broken value looks as if it did.
            if isinstance(error, UnknownDictionary) and not (error.value or self._decompressed):
                return WalUnsupportedError(self.path, offset, str(error))
            return self._corrupt(offset, str(error))
        self._decompressed = True
        return None

    def _first_wanted(self, count: int) -> int:
        """Return the first of `count` values in an entry at or after `wanted`. Broken values before it do not matter."""
        whole = int(self._state[PassState.ENTRIES])
        entry = int(np.searchsorted(self._entries[EntryRow.FILE_START, :whole], self.wanted))
        if entry < whole:
            begin = int(self._entries[EntryRow.OUT_START, entry])
        elif self.inside and self.entry_start >= self.wanted:
            begin = int(self._state[PassState.ENTRY_OUT])
        else:
            return count
        return int(np.searchsorted(self._values[ValueRow.TARGET, :count], begin, side="right"))

    def _ends_after(self, entry: int, target: int) -> bool:
        """Return whether `target` lies in the whole entry `entry`, the last entry that begins before `target`."""
        if entry < 0:
            return False
        return (
            entry + 1 < int(self._state[PassState.ENTRIES]) or target < int(self._state[PassState.ENTRY_OUT]) or not self.inside
        )

    def _flush(self) -> Expanded:
        """Return the whole entries, and move the unfinished next entry to a new buffer."""
        state, count = self._state, int(self._state[PassState.ENTRIES])
        begin, end = int(state[PassState.ENTRY_OUT]) if self.inside else int(state[PassState.OUT]), int(state[PassState.OUT])
        old, self._out = self._out, np.empty(max(self._out_bytes, 2 * (end - begin)), np.uint8)
        self._out[: end - begin] = old[begin:end]
        state[PassState.OUT], state[PassState.ENTRY_OUT], state[PassState.ENTRIES] = end - begin, 0, 0
        rows = (EntryRow.OUT_START, EntryRow.FILE_START, EntryRow.FILE_END)
        start, file_start, file_end = (self._entries[row, :count].copy() for row in rows)
        return Expanded(old[:begin], start, file_start, file_end)

    def _grow(self, room: int) -> None:
        """Make `room` for more output in a wider buffer."""
        used = int(self._state[PassState.OUT])
        if used + room > MAX_OUT_BYTES:
            room = MAX_OUT_BYTES - used  # the pass itself stops at an entry that is longer
        wider: Bytes = np.empty(min(max(2 * len(self._out), used + room), MAX_OUT_BYTES), np.uint8)
        wider[:used] = self._out[:used]
        self._out = wider

    def _corrupt(self, offset: int, reason: str) -> WalCorruptError:
        return WalCorruptError(self.path, offset, f"{reason} (in the entry that begins at byte {self.entry_start})")
