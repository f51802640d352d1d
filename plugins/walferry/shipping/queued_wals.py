"""The WALs that a peer has queued of a group, as a feed of the engine."""

from __future__ import annotations

import logging
import time
from collections.abc import Generator
from dataclasses import dataclass

from walferry.engine.counters import Counters
from walferry.hbase.files.store import WalStore
from walferry.hbase.wal.errors import WalError, WalTornError, WalTruncatedError
from walferry.hbase.wal.windows import UnwrapKey, Window
from walferry.load.earlier_loads import NOTHING_LOADED, LoadedBefore
from walferry.replication.filters.rules import FilterRules
from walferry.shipping.broken import Broken
from walferry.shipping.closed_wal import ReadProgress, may_end_with, seconds_to_close, windows_of_closed
from walferry.shipping.group_wals import GroupWals

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class QueuedWals:
    """A feed (engine/feed.py). `deadline` is on time.monotonic; `broken` says what becomes of WALs that cannot be read."""

    wals: GroupWals
    store: WalStore
    keys: UnwrapKey | None
    peer_rules: FilterRules
    counters: Counters
    broken: Broken
    deadline: float
    loaded: LoadedBefore = NOTHING_LOADED

    @property
    def count(self) -> int:
        """How many WALs there are."""
        return self.wals.count

    def unread_since(self, wal: int) -> int:
        """Return a time before which no entry of this WAL that is not handed out was written."""
        return self.wals.unread_since(wal)

    def position(self, wal: int) -> int:
        """Return the WAL's position in the queue."""
        return self.wals.wals[wal].queued.position

    def batches(self, wal: int) -> Generator[tuple[Window, str]]:
        """Yield what lies behind the WAL's position, once the WAL is closed, wherever it is moved meanwhile.

        Raises WalError, StoreError, WalNotClosed, WalMissing.
        """
        candidate, progress = self.wals.wals[wal], ReadProgress()
        try:
            yield from windows_of_closed(
                self.store, self.keys, candidate.queued.name, candidate.dead_servers, candidate.queued.position,
                close_seconds=lambda: seconds_to_close(self.deadline - time.monotonic(), live=candidate.live),
                progress=progress,
            )  # fmt: skip
        finally:
            if not progress.clean:
                self.wals.unclean[wal] = 0

    def rules(self, wal: int) -> FilterRules:
        """Return the peer's rules, without what the slave has got of this WAL as files."""
        return self.loaded.rest(self.wals.wals[wal].queued.name.text, self.peer_rules)

    def chosen(self, batch: Window) -> Window:
        """Return all of the batch."""
        return batch

    def handed_out(self, wal: int, batch: Window) -> None:
        """Note where the WAL's entries end as far as they are read, and when the last one was written."""
        self.wals.ends[wal] = int(batch.next_positions[-1])
        self.wals.written = int(batch.index.write_time[-1])

    def ends_at(self, wal: int, error: WalError) -> bool:
        """Return whether a server's death has cut the WAL off there, or the run's policy gives up the rest."""
        live, newest = self.wals.wals[wal].live, wal == self.count - 1
        if isinstance(error, WalTruncatedError | WalTornError) and may_end_with(
            error, self.broken.policy, live=live, newest=newest
        ):
            log.warning(
                "%s at byte %d: ends here; the %d bytes that follow are not a whole entry", error.path, error.offset, error.have
            )
            self.wals.unclean[wal] = error.have
            return True
        return self.broken.give_up(self.store, self.wals, self.counters, wal, error)
