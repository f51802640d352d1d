"""Opens the WALs of an interval, also WALs that only the archive still contains."""

from __future__ import annotations

from collections.abc import Sequence

from walferry.hbase.crypto.provider import KeyProvider
from walferry.hbase.files.listing import WalFile
from walferry.hbase.files.store import WalLocation, WalStore
from walferry.hbase.files.systems import file_size
from walferry.hbase.names import WalName
from walferry.hbase.wal.cells import META_FAMILY, split_cells
from walferry.hbase.wal.reader import read_wal_batches
from walferry.replication.retention.archive import WalArchive
from walferry.replication.source.cluster import SourceCluster

HEAD_BYTES = 64 << 10
OPENINGS = (b"HBASE::REGION_EVENT::REGION_OPEN", b"HBASE::REGION_EVENT")  # WALEdit.java; HBase 1 does not name the event


class StoreWithArchive(WalStore):
    """The WALs of a cluster. WALs that the cluster has no more are looked for in the archive."""

    def __init__(self, source: SourceCluster, *, look_only: bool = False) -> None:
        super().__init__(source.wal_root, look_only=look_only)
        self._archive = WalArchive(source.archive) if source.archive else None

    def locate(self, wal: WalName, dead_servers: Sequence[str] = ()) -> WalLocation | None:
        """Find the WAL's present place, or its copy in the archive. Raises StoreError."""
        if location := super().locate(wal, dead_servers):
            return location
        if self._archive is None:
            return None
        url = self._archive.url_of(wal)
        try:
            return WalLocation(url, file_size(url), archived=True)
        except FileNotFoundError:
            return None

    def has_no_writer(self, location: WalLocation) -> bool:
        """Return whether the length of a file is final; a copy's length always is."""
        copied = self._archive is not None and location.url.startswith(f"{self._archive.root}/")
        return copied or super().has_no_writer(location)


def begins_with_opening(store: WalStore, wal: WalFile, keys: KeyProvider | None) -> bool | None:
    """Return whether the first entry of a WAL says that its server opened a region; None if the WAL has no entry.

    Raises FileNotFoundError, StoreError, WalError.
    """
    location = store.locate(wal.name)
    if location is None or not location.size:
        return None
    with store.open(location) as file:
        for batch in read_wal_batches(file, location.url, 0, wal_batch_bytes=HEAD_BYTES, partial_tail="stop", unwrap_key=keys):
            start, end = int(batch.index.cells_start[0]), int(batch.index.cells_end[0])
            cells = split_cells(batch.buf[start:end].tobytes())
            return any(cell.column[0] == META_FAMILY and cell.column[1] in OPENINGS for cell in cells)
    return None
