"""Lists the WALs of a cluster wherever they lie: WALs, oldWALs and the archive.

A WAL's copy is in the archive before HBase deletes it, and the archive is listed last. So no WAL is missed.
"""

from __future__ import annotations

from collections.abc import Iterator

from walferry.hbase.files.listing import WalFile, WalPlace, milliseconds, stored_wals
from walferry.replication.queues.reading import list_queues
from walferry.replication.retention.archive import WalArchive
from walferry.replication.source.session import Session


def all_wals(session: Session) -> Iterator[WalFile]:
    """Yield all WALs of the cluster except hbase:meta's, some of them twice. Raises StoreError, WrongRoot, StorageError."""
    yield from stored_wals(session.store)
    if session.source.archive:
        for wal in WalArchive(session.source.archive).wals():
            yield WalFile(wal.name, wal.url, wal.size, milliseconds(wal.copied), WalPlace.ARCHIVE)
    for queue in list_queues(session):
        for queued in queue.wals:
            yield WalFile(queued.name, "", 0, None, WalPlace.NOWHERE)
