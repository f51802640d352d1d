"""What becomes of a group's broken WALs: those that cannot be read, and those that can no longer be copied to the archive."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from walferry.engine.counters import Counters
from walferry.hbase.files.closedness import await_closed
from walferry.hbase.files.quarantine import BrokenWals, quarantine, to_be_quarantined
from walferry.hbase.files.store import WalStore
from walferry.hbase.wal.errors import WalError
from walferry.shipping.group_wals import GroupWals

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Broken:
    """What a run does with broken WALs, and what a quarantine's note says of the run."""

    policy: BrokenWals
    folder: str | None  # URL of the quarantine
    peer_id: str
    run_id: str

    def give_up(self, store: WalStore, wals: GroupWals, counters: Counters, number: int, error: WalError) -> bool:
        """Put the rest of a WAL aside, if the run is told to do so with such an error. Returns whether it has done so.

        Raises StoreError, WalNotClosed, WalMissing.
        """
        if self.folder is None or not to_be_quarantined(self.policy, error):
            return False
        wal = wals.wals[number]
        location = await_closed(store, wal.queued.name, wal.dead_servers)
        shipped_to = max(wals.ends.get(number, 0), wal.queued.position)
        skipped = quarantine(self.folder, location, wal.queued.name.text, self.peer_id, self.run_id, shipped_to, error)
        counters.quarantined(skipped.bytes)
        if skipped.lost:
            wals.lost.add(number)
        log.warning("%s: %d bytes are given up, the file is copied to %s", error, skipped.bytes, self.folder)
        return True
