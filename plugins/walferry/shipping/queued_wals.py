"""Feeds the engine with a group's queued WALs: one attempt ships them in a row. Also handles broken WALs."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field

from walferry.engine.counters import Counters
from walferry.engine.feed import Feed
from walferry.engine.in_flight import WalOffset
from walferry.hbase.files.closedness import await_closed
from walferry.hbase.files.quarantine import BrokenWals, is_broken, quarantine
from walferry.hbase.files.store import WalStore
from walferry.hbase.wal.errors import WalError, WalTornError, WalTruncatedError
from walferry.hbase.wal.wal_batches import UnwrapKey, WalBatch
from walferry.load.earlier_loads import NOTHING_LOADED, LoadedBefore
from walferry.replication.filters.rules import FilterRules
from walferry.shipping.candidates import Candidate
from walferry.shipping.closed_wal import ReadProgress, batches_of_closed, may_end_with, seconds_to_close
from walferry.shipping.giving_up import Permission
from walferry.shipping.group_job import GroupJob
from walferry.shipping.serial_order import SerialOrder

log = logging.getLogger(__name__)


@dataclass
class GroupWals:
    """WALs by their number in the row. The feed writes `ends`, `unclean`, `lost` and `written`; other threads read them.

    After the feed has read a WAL to its end, the archiver may add it to `lost`.
    """

    wals: tuple[Candidate, ...]
    sizes: Sequence[int]  # the sizes of the files that were found at the start
    ends: dict[int, int] = field(default_factory=dict)  # the offset after the last entry that was read
    unclean: dict[int, int] = field(default_factory=dict)  # for WALs without a trailer: bytes behind the last whole entry
    lost: set[int] = field(default_factory=set)  # WALs given up because bytes are lost: the rest is in the quarantine
    written: int = 0  # write time of the last entry read, or of the first to read; ms since the epoch

    @classmethod
    def found(cls, wals: tuple[Candidate, ...], store: WalStore) -> GroupWals:
        """Return the WALs, with the sizes of the files that exist now."""
        locations = [store.locate(wal.queued.name, wal.dead_servers) for wal in wals]
        return cls(wals, [at.size if at else 0 for at in locations])

    @property
    def count(self) -> int:
        """The number of WALs."""
        return len(self.wals)

    def unread_since(self, wal: int) -> int | None:
        """Return a time before which no entry that is not handed out was written, at least the time in the WAL's name.

        Returns None behind the last WAL.
        """
        return None if wal >= self.count else max(self.written, self.wals[wal].queued.name.timestamp)

    @property
    def bytes_to_ship(self) -> int:
        """The bytes behind the positions."""
        return self.bytes_done(WalOffset(len(self.wals), 0))

    def bytes_done(self, safe: WalOffset) -> int:
        """Return how many of the bytes to ship lie before `safe`."""
        before = zip(self.sizes[: safe.wal], self.wals[: safe.wal], strict=True)
        done = sum(max(0, size - wal.queued.position) for size, wal in before)
        here = max(0, safe.offset - self.wals[safe.wal].queued.position) if safe.wal < len(self.wals) else 0
        return done + here


@dataclass(frozen=True, kw_only=True)
class QueuedWals(Feed):
    """A feed of queued WALs. `deadline` is on time.monotonic."""

    job: GroupJob
    wals: GroupWals
    store: WalStore
    keys: UnwrapKey | None
    peer_rules: FilterRules
    counters: Counters
    deadline: float
    given_up: Callable[[str], Permission | None]  # which bytes of a WAL a person has given up
    loaded: LoadedBefore = NOTHING_LOADED
    order: SerialOrder | None = None  # of a serial peer

    @property
    def count(self) -> int:
        """The number of WALs."""
        return self.wals.count

    def position(self, wal: int) -> int:
        """Return the WAL's position in the queue."""
        return self.wals.wals[wal].queued.position

    def batches(self, wal: int) -> Generator[tuple[WalBatch, str]]:
        """Yield the entries behind the WAL's position, once the WAL is closed, wherever HBase moves it meanwhile.

        Raises WalError, StoreError, WalNotClosed, WalMissing.
        """
        candidate, progress = self.wals.wals[wal], ReadProgress()
        try:
            yield from batches_of_closed(
                self.store, self.keys, candidate.queued.name, candidate.dead_servers, candidate.queued.position,
                close_seconds=lambda: seconds_to_close(self.deadline - time.monotonic(), live=candidate.live),
                progress=progress,
            )  # fmt: skip
        finally:
            if not progress.clean:
                self.wals.unclean[wal] = 0

    def rules(self, wal: int) -> FilterRules:
        """Return the peer's rules, without the edits of this WAL that the peer cluster has loaded as files."""
        return self.loaded.rest(self.wals.wals[wal].queued.name.text, self.peer_rules)

    def ready(self, wal: int, batch: WalBatch) -> int:
        """Return how many of the batch's first entries a serial peer may get now; all, for other peers."""
        return len(batch.index) if self.order is None else self.order.ready(wal, batch, self.peer_rules)

    def not_ready(self) -> tuple[str, int]:
        """Return which entry a serial peer may not get yet and why, and the last pushed id that it waits for."""
        waits = self.order and self.order.out_of_order
        return (str(waits), waits.seen) if waits else ("the attempt ends", 0)

    def handing_out(self, wal: int, batch: WalBatch) -> None:
        """Note the ids of a serial peer's entries."""
        if self.order is not None:
            self.order.handing_out(wal, batch, self.peer_rules)

    def handed_out(self, wal: int, batch: WalBatch) -> None:
        """Note how far the WAL is read, and when its last entry so far was written."""
        self.wals.ends[wal] = int(batch.next_positions[-1])
        self.wals.written = int(batch.index.write_time[-1])

    def ends_at(self, wal: int, error: WalError) -> bool:
        """Return whether the WAL ends there: a server's death cut it off, or the run's policy gives up the rest."""
        live, newest = self.wals.wals[wal].live, wal == self.count - 1
        if isinstance(error, WalTruncatedError | WalTornError) and may_end_with(
            error, self.job.broken_wals, live=live, newest=newest
        ):
            log.warning(
                "%s at byte %d: ends here; the %d bytes that follow are not a whole entry", error.path, error.offset, error.have
            )
            self.wals.unclean[wal] = error.have
            return True
        return self.give_up(wal, error)

    def give_up(self, number: int, error: WalError) -> bool:
        """Put the rest of a broken WAL into quarantine if the run's policy or a person has allowed it. Returns whether it did.

        A broken WAL cannot be read, or can no longer be copied to the archive. `number` is the WAL's number in the row, `error`
        the error that reading or copying it has met. Raises StoreError, WalNotClosed, WalMissing, ConnectError.
        """
        job, folder, wal = self.job, self.job.source.quarantine, self.wals.wals[number]
        if folder is None or not is_broken(error):  # files of an unsupported kind, or with a wrong position, are never put aside
            return False
        permission = None
        if job.broken_wals is not BrokenWals.QUARANTINE and (permission := self.given_up(wal.queued.name.text)) is None:
            return False
        location = await_closed(self.store, wal.queued.name, wal.dead_servers)
        shipped_to = max(self.wals.ends.get(number, 0), wal.queued.position)
        if permission is not None:
            if not permission.covers(shipped_to, location.size):
                log.warning("%s: a person has given up other bytes of it than those from %d on", error, shipped_to)
                return False
            log.warning("%s: %s has given up the bytes from %d on", error, permission.by, permission.begins)
        if self.order is not None:
            self.order.given_up(number, shipped_to)
        skipped = quarantine(folder, location, wal.queued.name.text, job.peer_id, job.run_id, shipped_to, error)
        self.counters.quarantined(skipped.bytes)
        if skipped.lost:
            self.wals.lost.add(number)
        log.warning("%s: %d bytes are given up, the file is copied to %s", error, skipped.bytes, folder)
        return True
