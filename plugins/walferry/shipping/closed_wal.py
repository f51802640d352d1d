"""Reads a WAL once it is closed, wherever HBase moves it meanwhile."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from walferry.hbase.files.closedness import CLOSE_TIMEOUT_SECONDS, await_closed, looks_closed
from walferry.hbase.files.quarantine import BrokenWals, ends_with_its_whole_entries
from walferry.hbase.files.store import WalLocation, WalStore
from walferry.hbase.files.systems import READ_PATIENCE_SECONDS
from walferry.hbase.names import WalName
from walferry.hbase.wal.errors import WalPositionError, WalTornError, WalTruncatedError, WalUnclosedError
from walferry.hbase.wal.header import EMPTY_TRAILER
from walferry.hbase.wal.reader import read_wal_batches
from walferry.hbase.wal.wal_batches import UnwrapKey, WalBatch

SPLIT_TIMEOUT_SECONDS = 300.0  # for the master, busy after a crash, to fence a dead server off its WALs
RELOCATIONS = 5  # a WAL may move, or turn out to be open, this often while it is opened and read

log = logging.getLogger(__name__)


@dataclass
class ReadProgress:
    """How far a WAL has been read."""

    end: int = 0  # the offset after the last entry that was read and handled; 0: no entry yet
    clean: bool = True  # whether the WAL seems to end with a trailer


def seconds_to_close(left: float, *, live: bool) -> float:
    """Return how long to wait for a WAL to be closed, of `left` seconds for everything. A `live` server closes it at once."""
    return min(max(0.0, left), CLOSE_TIMEOUT_SECONDS if live else SPLIT_TIMEOUT_SECONDS)


def may_end_with(error: WalTruncatedError | WalTornError, policy: BrokenWals, *, live: bool, newest: bool) -> bool:
    """Return whether a WAL may end before the entry that could not be read, because its server died while writing that entry.

    `newest`: this is the newest WAL of its group. A torn entry at its end may look like a trailer.
    """
    last_of_dead = newest and not live
    return ends_with_its_whole_entries(policy, live=live) and (last_of_dead or isinstance(error, WalTruncatedError))


def batches_of_closed(
    store: WalStore, keys: UnwrapKey | None, name: WalName, dead_servers: Collection[str], position: int, *,
    close_seconds: Callable[[], float], progress: ReadProgress,
) -> Iterator[tuple[WalBatch, str]]:  # fmt: skip
    """Yield the WAL batches of a WAL from `position` on, each with the file's URL.

    A batch counts as handled once the caller asks for the next one. `close_seconds` returns how long the WAL may take to be
    closed; after that the function raises WalNotClosed. Raises WalMissing, WalError, StoreError.
    """
    not_trailers: set[int] = set()  # file lengths at which the last bytes only look like a trailer
    for relocation in range(RELOCATIONS + 1):
        location = await_closed(store, name, tuple(dead_servers), not_trailers, timeout_seconds=close_seconds())
        try:
            yield from _batches_of_file(store, keys, location, progress.end or position, not_trailers, progress)
            return
        except (FileNotFoundError, WalUnclosedError) as error:
            if relocation == RELOCATIONS:
                raise
            if isinstance(error, WalUnclosedError):
                not_trailers.add(error.offset + len(EMPTY_TRAILER))
            why = error if isinstance(error, WalUnclosedError) else f"{location.url} has moved"
            log.info("%s; looking for it again", why)


def _batches_of_file(
    store: WalStore, keys: UnwrapKey | None, location: WalLocation, position: int, not_trailers: Collection[int],
    progress: ReadProgress,
) -> Iterator[tuple[WalBatch, str]]:  # fmt: skip
    if location.size == 0:  # the server died before it wrote the header
        if position:
            raise WalPositionError(location.url, position, "the file is empty")
        progress.clean = False
        return
    with store.open(location, patience=READ_PATIENCE_SECONDS) as file:
        progress.clean = bool(looks_closed(file)) and file.size not in not_trailers
        batches = read_wal_batches(
            file, location.url, position, partial_tail="error", unwrap_key=keys, trailer_required=progress.clean
        )
        for batch in batches:
            yield batch, location.url
            progress.end = int(batch.next_positions[-1])
