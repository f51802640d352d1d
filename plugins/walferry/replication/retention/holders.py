"""Finds the queues that hold a WAL, as HBase's log cleaner does before it deletes one.

The first cleaner looked up queue after queue until it had found the WAL, kept the names that it had read in a cache, and looked
there first the next time (ReplicationLogCleaner). Since HBASE-12865 the cleaner reads the names of all queues once for each
cleaning, as of one moment (ReplicationQueueStorage.getAllWALs). `by_wal` is that cache, made of one consistent reading: each
queue's names are read once, however many WALs are looked up.
"""

from __future__ import annotations

from collections.abc import Sequence

from walferry.replication.queues.reading import Queue


def by_wal(queues: Sequence[Queue]) -> dict[str, tuple[Queue, ...]]:
    """The queues that hold each WAL, by its name. The cleaner may delete the WALs that none holds."""
    found: dict[str, tuple[Queue, ...]] = {}
    for queue in queues:
        for wal in queue.wals:
            found[wal.name.text] = (*found.get(wal.name.text, ()), queue)
    return found
