"""Knows which requests are under way, and so the low watermark: how far a row of WALs is shipped.

Acknowledgements come out of order. A request is in flight from the moment when its first entry is handed to a sender until the
request is acknowledged. Meanwhile no position may pass that entry. No position may pass the batch that the reader is handing out
either: senders get their entries one after the other, so an entry may not be in a request yet when a later entry is in flight.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class WalOffset:
    """A byte offset in one of the WALs that are shipped in a row."""

    wal: int  # the WAL's number in the row
    offset: int


class InFlight:
    """The requests under way and the reader's progress. One reader begins requests; any thread acknowledges them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._first: dict[int, WalOffset] = {}
        self._written: dict[int, int] = {}
        self._last_number = 0
        self._read = WalOffset(0, 0)

    def begin(self, first: WalOffset, written: int = 0) -> int:
        """Return a number for a request whose first entry begins at `first` and was written at `written` (ms since the epoch)."""
        with self._lock:
            self._last_number += 1
            self._first[self._last_number] = first
            self._written[self._last_number] = written
            return self._last_number

    def acknowledge(self, number: int) -> None:
        """Note that the request with this number has been acknowledged."""
        with self._lock:
            del self._first[number], self._written[number]

    def read_to(self, offset: WalOffset) -> None:
        """Note that all entries before `offset` are in requests or were filtered out."""
        with self._lock:
            self._read = offset

    @property
    def read(self) -> WalOffset:
        """The offset before which all entries are in requests or were filtered out."""
        with self._lock:
            return self._read

    def low_watermark(self) -> WalOffset:
        """Return the offset before which everything is acknowledged or filtered out. WALs with a smaller number are done."""
        with self._lock:
            return min((self._read, *self._first.values()))

    def oldest_written(self) -> int | None:
        """Return when the first entry that is not acknowledged was written; None if all entries in requests are acknowledged."""
        with self._lock:
            if not self._first:
                return None
            return self._written[min(self._first, key=self._first.__getitem__)]
