"""A compressed WAL as a series of windows, whose buffers hold its entries as an uncompressed WAL would.

The dictionaries are known only to who has read the file from its start, so a position inside it is reached by reading all that
comes before; of that, values are not even decompressed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from walferry.kernels.read import Bytes, Ints
from walferry.wal.codecs.dictionaries import Dictionaries
from walferry.wal.codecs.expand import (
    AT,
    AT_ENTRY,
    BAD_INDEX,
    BAD_VALUE_LENGTH,
    CELLS_LEFT,
    ENTRIES,
    ENTRY_OUT,
    ENTRY_START,
    FILE_END,
    FILE_START,
    NEED,
    NEED_ARENA,
    NEED_INPUT,
    NEED_OUT,
    NEED_TABLES,
    OUT,
    OUT_START,
    POS,
    SOURCE,
    STATE,
    TARGET,
    VALUES,
    expand_into,
)
from walferry.wal.codecs.values import MOST_FROM_A_BYTE, BadValue, UnknownDictionary, decompress_values
from walferry.wal.errors import WalCorruptError, WalUnsupportedError
from walferry.wal.header import Compression
from walferry.wal.scan import MAX_ENTRY_BYTES, MAX_KEY_BYTES, PROBLEMS

OUT_BYTES: Final = 16 << 20
MIN_OUT_BYTES: Final = 64 << 10
BYTES_AN_ENTRY: Final = 128  # what most have at least: a window of smaller ones ends with the table
BYTES_A_VALUE: Final = 64  # with its cell
MAX_OUT_BYTES: Final = MAX_ENTRY_BYTES + 2 * MAX_KEY_BYTES
_REASONS = {
    BAD_INDEX: "an index names an entry that its dictionary does not have",
    BAD_VALUE_LENGTH: "a value cannot be decompressed to the length that its cell says: too little is stored of it",
}


@dataclass(frozen=True)
class Expanded:
    """Whole entries: `buf` as an uncompressed WAL has them, where each begins there, and their offsets in the file."""

    buf: Bytes
    start: Ints
    file_start: Ints
    file_end: Ints


@dataclass
class Expander:
    """Turns a file's bytes, fed in one piece after the other, into plain entries. `path` is what errors call the file."""

    path: str
    compression: Compression
    wanted: int  # file offset: values of entries before it are not decompressed
    size: int  # of all that will be fed, in bytes
    dictionaries: Dictionaries = field(default_factory=Dictionaries.empty)

    def __post_init__(self) -> None:
        self._out_bytes = min(max(MIN_OUT_BYTES, 4 * self.size), OUT_BYTES)
        self._out: Bytes = np.empty(self._out_bytes, np.uint8)
        self._entries = np.empty((3, self._out_bytes // BYTES_AN_ENTRY), np.int64)
        self._values = np.empty((4, self._out_bytes // BYTES_A_VALUE), np.int64)
        self._state = np.zeros(STATE, np.int64)
        self._state[CELLS_LEFT] = AT_ENTRY
        self._decompressed = False  # at least one value

    @property
    def entry_start(self) -> int:
        """File offset of the entry that is being read, or that was read last."""
        return int(self._state[ENTRY_START])

    @property
    def inside(self) -> bool:
        """Whether an entry has been read in part."""
        return bool(self._state[CELLS_LEFT] != AT_ENTRY)

    def feed(self, buf: Bytes, base: int, at_end: bool) -> Iterator[Expanded]:
        """The entries that end in `buf`, which lies at file offset `base`, where the last call stopped (`consumed`).

        Raises WalCorruptError or WalUnsupportedError, once the entries before the broken one have been handed out.
        """
        state, dictionaries = self._state, self.dictionaries
        state[POS] = 0
        while True:
            status = expand_into(
                buf, len(buf), at_end, base, self.compression.tags, MOST_FROM_A_BYTE.get(self.compression.values, 0),
                dictionaries.lists, dictionaries.nodes, dictionaries.arena, dictionaries.used,
                self._out, self._entries, self._values, state,
            )  # fmt: skip
            broken = self._decompress(buf, base)
            if broken:  # before where the pass stopped, so it comes first, whatever that was for
                if state[ENTRIES]:
                    yield self._flush()
                raise broken
            if status == NEED_ARENA:
                dictionaries.make_room(int(state[NEED]))
            elif status in (NEED_OUT, NEED_TABLES):
                if state[ENTRIES]:
                    yield self._flush()
                elif status == NEED_OUT:
                    self._grow(int(state[NEED]))
            else:
                if state[ENTRIES]:
                    yield self._flush()
                if status == NEED_INPUT:
                    return
                reason = _REASONS.get(status) or PROBLEMS[status]
                raise self._corrupt(base + int(state[AT]), reason)

    @property
    def consumed(self) -> int:
        """How much of the last buffer has been read."""
        return int(self._state[POS])

    @property
    def need(self) -> int:
        """How long the last buffer should have been, at least, for anything more to be read."""
        return int(self._state[NEED])

    def _decompress(self, buf: Bytes, base: int) -> WalCorruptError | WalUnsupportedError | None:
        """Put the values that the last pass left out to where they belong. What is broken breaks its entry, not those before."""
        count, self._state[VALUES] = int(self._state[VALUES]), 0
        codec = self.compression.values
        if not count or codec is None or base + int(self._state[POS]) <= self.wanted:
            return None
        first = self._first_wanted(count)
        try:
            decompress_values(codec, buf, self._out, self._values[:, first:count])
        except BadValue as e:
            value = first + e.value
            target = int(self._values[TARGET, value]) - 1  # its cell's type, as an empty value may be an entry's last byte
            whole = int(np.searchsorted(self._entries[OUT_START, : self._state[ENTRIES]], target, side="right")) - 1
            if self._ends_after(whole, target):  # then it is the one at which this has stopped
                entry = self._entries[:, whole]
                self._state[ENTRY_START], self._state[ENTRY_OUT] = entry[FILE_START], entry[OUT_START]
                self._state[ENTRIES], self._state[CELLS_LEFT] = whole, 0
            offset = base + int(self._values[SOURCE, value])
            # A dictionary is HBase's setting: all values of a file have it, or a broken one only looks as if it had.
            if isinstance(e, UnknownDictionary) and not (e.value or self._decompressed):
                return WalUnsupportedError(self.path, offset, str(e))
            return self._corrupt(offset, str(e))
        self._decompressed = True
        return None

    def _first_wanted(self, count: int) -> int:
        """The first of `count` values that an entry has from `wanted` on; a broken one before it has been passed by somebody."""
        whole = int(self._state[ENTRIES])
        entry = int(np.searchsorted(self._entries[FILE_START, :whole], self.wanted))
        if entry < whole:
            begin = int(self._entries[OUT_START, entry])
        elif self.inside and self.entry_start >= self.wanted:
            begin = int(self._state[ENTRY_OUT])
        else:
            return count
        return int(np.searchsorted(self._values[TARGET, :count], begin, side="right"))

    def _ends_after(self, entry: int, target: int) -> bool:
        """Whether the whole entry `entry`, the last that begins before `target`, is the one that has it."""
        return entry >= 0 and (entry + 1 < int(self._state[ENTRIES]) or target < int(self._state[ENTRY_OUT]) or not self.inside)

    def _flush(self) -> Expanded:
        """The whole entries; what is there of the next one is moved to a new buffer."""
        state, count = self._state, int(self._state[ENTRIES])
        begin, end = int(state[ENTRY_OUT]) if self.inside else int(state[OUT]), int(state[OUT])
        old, self._out = self._out, np.empty(max(self._out_bytes, 2 * (end - begin)), np.uint8)
        self._out[: end - begin] = old[begin:end]
        state[OUT], state[ENTRY_OUT], state[ENTRIES] = end - begin, 0, 0
        start, file_start, file_end = (self._entries[row, :count].copy() for row in (OUT_START, FILE_START, FILE_END))
        return Expanded(old[:begin], start, file_start, file_end)

    def _grow(self, room: int) -> None:
        used = int(self._state[OUT])
        if used + room > MAX_OUT_BYTES:
            room = MAX_OUT_BYTES - used  # the pass itself ends an entry that is longer
        wider: Bytes = np.empty(min(max(2 * len(self._out), used + room), MAX_OUT_BYTES), np.uint8)
        wider[:used] = self._out[:used]
        self._out = wider

    def _corrupt(self, offset: int, reason: str) -> WalCorruptError:
        return WalCorruptError(self.path, offset, f"{reason} (in the entry that begins at byte {self.entry_start})")
