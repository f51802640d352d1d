"""Foresees when WALs that cannot be deleted will have filled the disk.

The rate comes from the WALs themselves: what queues hold of the writes of the last day, or since the oldest held WAL if that is
younger. It is the rate at which oldWALs grows while its queues stay blocked. HFiles and other users of the disk are not in it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from walferry.hbase.files.clients import scheme
from walferry.hbase.files.errors import StoreError
from walferry.hbase.files.space import Space, bytes_on_disk, space_at
from walferry.hbase.files.store import OLD_WALS, WalStore
from walferry.replication.retention.old_wals import OldWal

WINDOW_SECONDS = 86400.0
LEAST_SECONDS = 600.0  # a shorter history says nothing about a rate


@dataclass(frozen=True)
class Forecast:
    """How fast held WALs grow, how much room there is, and how long it lasts."""

    bytes_per_second: float | None = None  # None: the held WALs are too few or too young to tell
    copies: float = 1.0  # bytes on the disks for each byte of a WAL
    space: Space | None = None
    problem: str = ""  # why the space is not known

    @property
    def seconds_left(self) -> float | None:
        """Seconds until the disk is full at this rate; None if that is not known, or if nothing grows."""
        if self.space is None or not self.bytes_per_second:
            return None
        return self.space.remaining / (self.bytes_per_second * self.copies)

    @property
    def why_unknown(self) -> str:
        """Why that is not known; empty if it is."""
        if self.space is None:
            return self.problem
        if self.bytes_per_second is None:
            return "the files that queues keep are too few or too young to tell a rate"
        return "" if self.bytes_per_second else "the files that queues keep do not grow"


def forecast(store: WalStore, held: Iterable[OldWal], now: float) -> Forecast:
    """Foresee how long the disk under oldWALs lasts while the `held` WALs are kept. The space may stay unknown."""
    rate = rate_of(held, now)
    try:
        return Forecast(rate, _copies(store), space_at(store.root))
    except StoreError as error:
        return Forecast(rate, 1.0, None, str(error))


def rate_of(held: Iterable[OldWal], now: float) -> float | None:
    """Bytes a second that were written to these WALs; None if they do not tell."""
    wals = [wal for wal in held if wal.modified <= now]
    since = max(now - WINDOW_SECONDS, min((wal.modified for wal in wals), default=now))
    if now - since < LEAST_SECONDS:
        return None
    # What was written before `since` is in the WALs that were finished by then.
    return sum(wal.size for wal in wals if wal.modified > since) / (now - since)


def _copies(store: WalStore) -> float:
    if scheme(store.root) == "file":
        return 1.0
    try:
        length, used = bytes_on_disk(f"{store.root}/{OLD_WALS}")
    except FileNotFoundError:  # nothing was ever archived
        return 1.0
    return used / length if length else 1.0
