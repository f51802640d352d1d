"""The clusters of a topology, and the peers between them."""

from __future__ import annotations

import itertools
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from embedded.client import JavaClient, JavaClientError
from embedded.standalone import StandaloneCluster
from embedded.wire import WalEntry
from walferry.replication.source.cluster import SourceCluster

SPLITS = [b"row10", b"row20", b"row30"]
MARKER = b"METAFAMILY"  # marks entries about what a RegionServer did with a region


@dataclass(frozen=True)
class Member:
    """One cluster of a topology."""

    cluster: StandaloneCluster
    client: JavaClient
    at: SourceCluster
    id: uuid.UUID
    began: float = field(default_factory=time.time)

    @property
    def name(self) -> str:
        return self.cluster.name

    def entries(self, table: str) -> Iterator[WalEntry]:
        """Yield a table's edits in this cluster's WALs, through HBase's own reader."""
        self.client.roll_wals()
        root = Path(self.cluster.address.wal_root.removeprefix("file://"))
        written = [sorted(server.glob("*[0-9]"))[:-1] for server in root.glob("WALs/*")]  # the newest WAL is still open
        for wal in itertools.chain(*written, root.glob("oldWALs/*[0-9]")):
            try:
                found = self._read(wal)
            except (FileNotFoundError, JavaClientError):  # HBase has archived it since it was listed
                found = self._read(root / "oldWALs" / wal.name)
            yield from (entry for entry in found if entry.table == table and entry.cells[0].family != MARKER)

    def _read(self, wal: Path) -> list[WalEntry]:
        """Return the entries of a WAL; none if the WAL is older than the test."""
        return self.client.read_wal(f"file://{wal}") if wal.stat().st_mtime >= self.began else []


@dataclass(frozen=True)
class Edge:
    """A managed peer of one cluster that leads to another."""

    source: Member
    peer_cluster: Member
    peer: str
