"""Keeps in the group's queue how far it is shipped: positions, and WALs that leave the queue. A commit of the engine."""

from __future__ import annotations

from collections.abc import Callable

from walferry.engine.counters import Counters
from walferry.engine.in_flight import WalOffset
from walferry.engine.summary import GroupSummary
from walferry.replication.queues.errors import LastWal
from walferry.replication.queues.lease import Lease
from walferry.shipping.archiver import Archiver
from walferry.shipping.group_wals import GroupWals


class QueuePositions:
    """Writes to the group's queue under `lease` (engine/commit.py). Finished WALs stay queued until they are archived."""

    whole_wals = False

    def __init__(
        self, wals: GroupWals, lease: Lease, counters: Counters, archiver: Archiver, write: Callable[[GroupSummary], None]
    ) -> None:
        self._wals = wals
        self._lease = lease
        self._counters = counters
        self._archiver = archiver
        self.write = write
        self._done = 0  # how many WALs are shipped to their ends
        self._to_archive: list[int] = []  # those of them that stay queued until they are copied
        self._registered = WalOffset(0, 0)

    @property
    def pending(self) -> bool:
        """Whether WALs are still to be copied to the archive."""
        return self._archiver.pending

    def stop(self) -> None:
        """Copy no further WAL."""
        self._archiver.stop()

    def commit(self, watermark: WalOffset) -> None:
        """Register `watermark`, and take finished WALs out of the queue. Raises LeaseLost, StorageError, ConnectError."""
        while self._done < watermark.wal:
            self._finish_wal(self._done)
            self._done += 1
        for number in [number for number in self._to_archive if self._archiver.has(number)]:
            self._remove_wal(number)
            self._to_archive.remove(number)
        if watermark != self._registered and watermark.wal < self._wals.count:
            wal = self._wals.wals[watermark.wal].queued
            if watermark.offset > wal.position:
                self._lease.register_position(wal.name.text, watermark.offset)
        self._registered = watermark
        self._counters.done(self._wals.bytes_done(watermark))

    def _finish_wal(self, number: int) -> None:
        wal = self._wals.wals[number]
        end = self._end_of(number)
        if not self._archiver.wanted or not end or number in self._wals.lost:  # a WAL without edits is not copied
            self._remove_wal(number)
            return
        self._lease.register_position(wal.queued.name.text, end)  # however long copying takes, it is not shipped again
        self._archiver.add(number, wal)
        self._to_archive.append(number)

    def _end_of(self, number: int) -> int:
        return self._wals.ends.get(number, self._wals.wals[number].queued.position)

    def _remove_wal(self, number: int) -> None:
        name = self._wals.wals[number].queued.name.text
        try:
            self._lease.remove_wal(name)
            self._counters.completed(ignored=self._wals.unclean.get(number))
        except LastWal:  # the newer ones were taken out meanwhile: this one stays, with all of it shipped
            self._lease.register_position(name, self._end_of(number))
