"""Finds the queues that hold a WAL, as HBase's log cleaner does before it deletes one.

The first cleaner looked up queue after queue until it had found the WAL, kept the names that it had read in a cache, and looked
there first the next time (ReplicationLogCleaner). Since HBASE-12865 the cleaner reads the names of all queues once for each
cleaning, as of one moment (ReplicationQueueStorage.getAllWALs). `Holders` is that cache, filled in one consistent reading: each
queue's names are read once, however many WALs are looked up.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from walferry.queues.reading import Queue, list_queues
from walferry.source.session import Session


class Holders:
    """The queues of all peers by the WALs in them, as they lay at the first look-up."""

    def __init__(self, session: Session) -> None:
        self._session = session

    @cached_property
    def queues(self) -> Sequence[Queue]:
        """All queues, without positions. Raises StorageError, QueuesMoving."""
        return list_queues(self._session)

    @cached_property
    def _by_wal(self) -> dict[str, tuple[Queue, ...]]:
        found: dict[str, tuple[Queue, ...]] = {}
        for queue in self.queues:
            for wal in queue.wals:
                found[wal.name.text] = (*found.get(wal.name.text, ()), queue)
        return found

    def of(self, wal: str) -> tuple[Queue, ...]:
        """The queues that hold the WAL with this name; none if the cleaner may delete it. Raises StorageError, QueuesMoving."""
        return self._by_wal.get(wal, ())
