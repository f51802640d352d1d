"""Keeps a WAL group's progress in its queue. A commit of the engine.

It registers positions, and takes finished WALs out of the queue after copying them to the archive, if there is one.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from queue import SimpleQueue

from walferry.engine.counters import Counters
from walferry.engine.in_flight import WalOffset
from walferry.hbase.files.errors import UnreadableBytes
from walferry.replication.queues.errors import LastWal
from walferry.replication.queues.lease import Lease
from walferry.replication.retention.archive import NotArchived, archive_wal
from walferry.replication.source.session import Session
from walferry.shipping.candidates import Candidate
from walferry.shipping.queued_wals import GroupWals
from walferry.shipping.serial_order import SerialOrder

log = logging.getLogger(__name__)


class Archiver:
    """Copies finished WALs to the archive in a thread, one by one. A slow or broken archive delays neither edits nor positions.

    After an error the archiver copies nothing more, because the next copy would fail alike, and it calls `on_error` once. If a
    WAL's own bytes cannot be read, it calls `give_up` with the WAL's number and the error: on True the WAL goes without a copy.
    """

    def __init__(
        self, session: Session, on_error: Callable[[BaseException], None], give_up: Callable[[int, UnreadableBytes], bool]
    ) -> None:
        self.wanted = session.source.archive is not None
        self._session = session
        self._on_error = on_error
        self._give_up = give_up
        self._wals: SimpleQueue[tuple[int, Candidate] | None] = SimpleQueue()
        self._copied: set[int] = set()
        self._added = 0
        self._ended = threading.Event()

    @property
    def pending(self) -> bool:
        """Whether WALs are still to be copied."""
        return len(self._copied) < self._added and not self._ended.is_set()

    def add(self, number: int, wal: Candidate) -> None:
        """Copy the WAL with this number in the group's row. The WAL is closed, and its last edit is acknowledged."""
        self._added += 1
        self._wals.put((number, wal))
        if self._added == 1:
            threading.Thread(target=self._run, name="archiver", daemon=True).start()

    def has(self, number: int) -> bool:
        """Return whether the WAL's copy is in the archive, or was given up."""
        return number in self._copied

    def stop(self) -> None:
        """Copy no further WAL. A copy under way may still finish."""
        self._ended.set()
        self._wals.put(None)

    def _archive(self, number: int, wal: Candidate) -> None:
        try:
            if archive_wal(self._session, wal.queued.name, wal.dead_servers, self._ended.is_set):
                log.info("WAL %s is copied to the archive", wal.queued.name)
        except NotArchived as error:
            if not (isinstance(error.__cause__, UnreadableBytes) and self._give_up(number, error.__cause__)):
                raise

    def _run(self) -> None:
        while (following := self._wals.get()) is not None and not self._ended.is_set():
            number, wal = following
            try:
                self._archive(number, wal)
            except Exception as error:
                log.error("%s", error)
                self._on_error(error)
                self._ended.set()
                return
            if not self._ended.is_set():
                self._copied.add(number)


class QueuePositions:
    """Writes to the group's queue under `lease` (engine/feed.py). Finished WALs stay queued until they are archived."""

    whole_wals = False

    def __init__(
        self, wals: GroupWals, lease: Lease, counters: Counters, archiver: Archiver, order: SerialOrder | None = None
    ) -> None:
        self._wals = wals
        self._lease = lease
        self._counters = counters
        self._archiver = archiver
        self._order = order
        self._pushed: dict[str, int] = {}  # ids of a serial peer's regions that the next write registers
        self._done = 0  # the number of WALs shipped to their ends
        self._to_archive: list[int] = []  # finished WALs that stay queued until they are copied
        self._registered = WalOffset(0, 0)

    @property
    def pending(self) -> bool:
        """Whether WALs are still to be copied to the archive."""
        return self._archiver.pending

    def stop(self) -> None:
        """Copy no further WAL."""
        self._archiver.stop()

    def commit(self, watermark: WalOffset) -> None:
        """Register `watermark`, and take finished WALs out of the queue. Raises LeaseLost, StorageError, ConnectError.

        The first write registers the ids that a serial peer's regions have reached, too.
        """
        if self._order is not None:
            self._pushed |= self._order.pushed(watermark)
        while self._done < watermark.wal:
            self._finish_wal(self._done)
            self._done += 1
        for number in list(self._to_archive):
            if self._archiver.has(number) or not self._is_archived(number):
                self._remove_wal(number)
                self._to_archive.remove(number)
            elif self._lease.one_offset:
                break
        if not (self._lease.one_offset and self._to_archive):
            if watermark != self._registered and watermark.wal < self._wals.count:
                wal = self._wals.wals[watermark.wal].queued
                if watermark.offset > wal.position:
                    self._register(wal.name.text, watermark.offset)
            self._registered = watermark
        self._counters.done(self._wals.bytes_done(watermark))

    def _finish_wal(self, number: int) -> None:
        waits = self._lease.one_offset and bool(self._to_archive)  # for an earlier WAL
        if not self._is_archived(number) and not waits:
            self._remove_wal(number)
            return
        if not waits:
            # So the WAL is not shipped again, however long copying takes.
            self._register(self._wals.wals[number].queued.name.text, self._end_of(number))
        if self._is_archived(number):
            self._archiver.add(number, self._wals.wals[number])
        self._to_archive.append(number)

    def _is_archived(self, number: int) -> bool:
        """Return whether the WAL is to be copied to the archive. A WAL without edits is not."""
        return self._archiver.wanted and bool(self._end_of(number)) and number not in self._wals.lost

    def _end_of(self, number: int) -> int:
        return self._wals.ends.get(number, self._wals.wals[number].queued.position)

    def _remove_wal(self, number: int) -> None:
        name = self._wals.wals[number].queued.name.text
        try:
            self._lease.remove_wal(name, self._pushed)
            self._pushed = {}
            self._counters.completed(ignored=self._wals.unclean.get(number))
        except LastWal:  # the newer WALs have left the queue: this WAL stays, fully shipped
            self._register(name, self._end_of(number))

    def _register(self, wal: str, offset: int) -> None:
        self._lease.register_position(wal, offset, self._pushed)
        self._pushed = {}
