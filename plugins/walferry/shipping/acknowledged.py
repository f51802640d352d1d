"""How far a group's WALs are shipped: the largest offset below which every lane has been acknowledged.

Lanes are acknowledged out of order. Each request takes a ticket with the offset of its first entry when that entry is handed to a
lane. While a ticket is open, no position may pass its offset. No position may pass the window either that the reader is handing
out: lanes are served one after the other, so entries before a ticket's offset may not have theirs yet.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class WalOffset:
    """A byte offset in one of the WALs that a group ships in a row."""

    wal: int  # its number in that row
    offset: int


class Acknowledged:
    """Open tickets and the reader's progress. One reader takes tickets; any thread closes them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[int, WalOffset] = {}
        self._written: dict[int, int] = {}
        self._next_ticket = 0
        self._read = WalOffset(0, 0)

    def take(self, first: WalOffset, written: int = 0) -> int:
        """A ticket for a request whose first entry begins at `first` and was written at `written` (ms since the epoch)."""
        with self._lock:
            self._next_ticket += 1
            self._open[self._next_ticket] = first
            self._written[self._next_ticket] = written
            return self._next_ticket

    def close(self, ticket: int) -> None:
        """The request with this ticket has been acknowledged."""
        with self._lock:
            del self._open[ticket], self._written[ticket]

    def read_to(self, offset: WalOffset) -> None:
        """All entries before `offset` have tickets or were filtered out."""
        with self._lock:
            self._read = offset

    def safe(self) -> WalOffset:
        """Everything before this offset is acknowledged or filtered out; WALs with a smaller number are done."""
        with self._lock:
            return min((self._read, *self._open.values()))

    def next_written(self) -> int | None:
        """When the first entry that is not acknowledged was written; None if all entries with tickets are."""
        with self._lock:
            if not self._open:
                return None
            return self._written[min(self._open, key=self._open.__getitem__)]
