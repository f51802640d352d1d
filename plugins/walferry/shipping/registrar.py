"""Registers how far a group is shipped: positions, and WALs that leave the queue."""

from __future__ import annotations

from collections.abc import Callable

from walferry.queues.errors import LastWal
from walferry.queues.lease import Lease
from walferry.shipping.acknowledged import Acknowledged, WalOffset
from walferry.shipping.archiver import Archiver
from walferry.shipping.counters import Counters
from walferry.shipping.group_wals import GroupWals


class Registrar:
    """Writes to the group's queue under `lease`. `publish` writes the group's summary."""

    def __init__(
        self, wals: GroupWals, acknowledged: Acknowledged, lease: Lease, counters: Counters, publish: Callable[[], None],
        archiver: Archiver,
    ) -> None:  # fmt: skip
        self._wals = wals
        self._acknowledged = acknowledged
        self._lease = lease
        self._counters = counters
        self._publish = publish
        self._archiver = archiver
        self._done = 0  # how many WALs are shipped to their ends
        self._to_archive: list[int] = []  # those of them that stay queued until they are copied
        self._registered = WalOffset(0, 0)

    def register(self) -> None:
        """Register the largest offset below which every lane has been acknowledged; take finished WALs out of the queue."""
        safe = self._acknowledged.safe()
        if safe != self._registered:
            self._publish()  # first: what is registered is not shipped again, so no later attempt of the run would count it
        while self._done < safe.wal:
            self._finish_wal(self._done)
            self._done += 1
        for number in [number for number in self._to_archive if self._archiver.has(number)]:
            self._remove_wal(number)
            self._to_archive.remove(number)
        if safe != self._registered and safe.wal < len(self._wals.wals):
            wal = self._wals.wals[safe.wal].queued
            if safe.offset > wal.position:
                self._lease.register_position(wal.name.text, safe.offset)
        self._registered = safe
        self._counters.done(self._wals.bytes_done(safe))

    def _finish_wal(self, number: int) -> None:
        wal = self._wals.wals[number]
        end = self._wals.ends.get(number, wal.queued.position)
        if not self._archiver.wanted or not end or number in self._wals.lost:  # a WAL without edits is not copied
            self._remove_wal(number)
            return
        self._lease.register_position(wal.queued.name.text, end)  # however long copying takes, it is not shipped again
        self._archiver.add(number, wal)
        self._to_archive.append(number)

    def _remove_wal(self, number: int) -> None:
        name = self._wals.wals[number].queued.name.text
        try:
            self._lease.remove_wal(name)
            self._counters.completed(ignored=self._wals.unclean.get(number))
        except LastWal:  # the newer ones were taken out meanwhile: this one stays, with all of it shipped
            self._lease.register_position(name, self._wals.ends.get(number, 0))
