"""Decides whether a WAL's file is complete. Only then is the end of the file the end of its edits.

A WAL is closed if it has a trailer, or if its writer is fenced off and its length is final: HBase has archived the file, or has
renamed the dead server's folder to split its WALs, or no master is there to do so (WalStore). Waiting a little helps: a live
server closes a WAL a moment after it has queued the next one, and the master renames a dead server's folder once it has noticed
the death. A live server still writes the newest WAL of its group: do not ask about it.

The last bytes of a file may only look like a trailer, because a client's value can end like one. Reading the entries shows
whether they are a trailer (`trailer_required` of `read_wal_batches`). If they are not, ask again with the file's length at that
time in `not_trailers`.

The length of an open file never counts as its end: HDFS shows readers a stale length of a file that is being written.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from walferry.base.errors import WalferryError
from walferry.hbase.files.errors import UnreadableBytes
from walferry.hbase.files.store import WalLocation, WalStore
from walferry.hbase.files.systems import OpenWal
from walferry.hbase.names import WalName
from walferry.hbase.wal.header import EMPTY_TRAILER, ends_like_closed

CLOSE_TIMEOUT_SECONDS = 30.0
POLL_SECONDS = 0.25


@dataclass(frozen=True)
class Closed:
    """Closed. `end` is the offset of the apparent trailer, or None if the file was not closed cleanly and ends at its size."""

    end: int | None


@dataclass(frozen=True)
class Open:
    """Not closed yet, with the reason for this answer."""

    reason: str


class WalNotClosed(WalferryError):
    """The WAL did not close in time; the message says what delays it."""

    def __init__(self, url: str, reason: str, waited_seconds: float) -> None:
        super().__init__(f"{url} is not closed after {waited_seconds:g} s: {reason}", "It stays queued; the next run takes it up")
        self.waited_seconds = waited_seconds


class WalMissing(WalferryError):
    """The WAL is queued, but its file cannot be found."""

    def __init__(self, wal: str, places: Sequence[str]) -> None:
        super().__init__(
            f"WAL {wal} is queued, but there is no such file; searched: {', '.join(places)}",
            "Check wal_root (hbase.wal.dir, else hbase.rootdir); if the file is lost, its edits are, and only an operator may "
            "take it out of the queue",
        )


def closedness(store: WalStore, location: WalLocation, not_trailers: Collection[int] = ()) -> Closed | Open:
    """Return whether the file at `location` is complete. At the lengths in `not_trailers`, its last bytes are not a trailer.

    Raises FileNotFoundError if the file has moved on, StoreError.
    """
    with store.open(location) as file:
        size, like_closed = file.size, looks_closed(file)
    if like_closed and size not in not_trailers:
        return Closed(size - len(EMPTY_TRAILER))
    what = "what looks like its trailer is part of an entry" if like_closed else "it has no trailer"
    if like_closed is None:
        what = "its last bytes cannot be read"
        if not location.fenced and not store.is_growing(location):
            return Closed(None)  # the reader of the file reports what is wrong with it
    if not location.fenced:
        return Open(f"{what}, and HBase has neither archived it nor begun to split it")
    if store.has_no_writer(location):
        return Closed(None)
    return Open(f"its writer is fenced off, but {what} and HDFS is still recovering its length")


def await_closed(
    store: WalStore,
    wal: WalName,
    dead_servers: Sequence[str] = (),
    not_trailers: Collection[int] = (),
    *,
    timeout_seconds: float = CLOSE_TIMEOUT_SECONDS,
) -> WalLocation:
    """Wait until the WAL is closed, and return its location and final size. Its queue came from `dead_servers`.

    Raises WalNotClosed after `timeout_seconds` seconds, WalMissing, StoreError.
    """
    give_up = time.monotonic() + timeout_seconds
    while True:
        location = store.locate(wal, dead_servers)
        if location is None:
            raise WalMissing(wal.text, store.places(wal, dead_servers))
        try:
            state = closedness(store, location, not_trailers)
        except FileNotFoundError:
            state = Open("it is being moved")
        if isinstance(state, Closed):
            # The recovery of the file's length may have increased it.
            return store.locate(wal, dead_servers) or location
        if time.monotonic() >= give_up:
            raise WalNotClosed(location.url, state.reason, timeout_seconds)
        time.sleep(POLL_SECONDS)


def looks_closed(file: OpenWal) -> bool | None:
    """Return whether a file's last bytes look like a trailer, or None if they are unreadable. Raises StoreError."""
    start = max(0, file.size - len(EMPTY_TRAILER))
    try:
        return ends_like_closed(file.read_at(start, file.size - start), file.size)
    except UnreadableBytes:
        return None
