"""Registers how far a group is shipped: positions, and WALs that leave the queue."""

from __future__ import annotations

from collections.abc import Callable

from walferry.queues.errors import LastWal
from walferry.queues.lease import Lease
from walferry.shipping.acknowledged import Acknowledged, WalOffset
from walferry.shipping.counters import Counters
from walferry.shipping.group_wals import GroupWals


class Registrar:
    """Writes to the group's queue under `lease`. `publish` writes the group's summary."""

    def __init__(
        self, wals: GroupWals, acknowledged: Acknowledged, lease: Lease, counters: Counters, publish: Callable[[], None]
    ) -> None:
        self._wals = wals
        self._acknowledged = acknowledged
        self._lease = lease
        self._counters = counters
        self._publish = publish
        self._removed = 0  # how many WALs are done with
        self._registered = WalOffset(0, 0)

    def register(self) -> None:
        """Register the largest offset below which every lane has been acknowledged; take finished WALs out of the queue."""
        safe = self._acknowledged.safe()
        if safe != self._registered:
            self._publish()  # first: what is registered is not shipped again, so no later attempt of the run would count it
        while self._removed < safe.wal:
            self._finish_wal(self._removed)
            self._removed += 1
        if safe != self._registered and safe.wal < len(self._wals.wals):
            wal = self._wals.wals[safe.wal].queued
            if safe.offset > wal.position:
                self._lease.register_position(wal.name.text, safe.offset)
        self._registered = safe
        self._counters.done(self._wals.bytes_done(safe))

    def _finish_wal(self, number: int) -> None:
        name = self._wals.wals[number].queued.name.text
        try:
            self._lease.remove_wal(name)
            self._counters.completed(ignored=self._wals.unclean.get(number))
        except LastWal:  # the newer ones were taken out meanwhile: this one stays, with all of it shipped
            self._lease.register_position(name, self._wals.ends.get(number, 0))
