"""Copies a region's rows by a scan, through the peer's own sink."""

from __future__ import annotations

from collections.abc import Sequence

from walferry.hbase.tables.scan import ALL_VERSIONS, ScanSpec
from walferry.hbase.tables.tables import Tables
from walferry.initial_snapshot.manifest import SnapshotRegion
from walferry.replication.peers.reading import Peer
from walferry.replication.source.session import Session
from walferry.shipping.rows import row_shipment


def copy_rows(
    session: Session, peer: Peer, tables: Tables, region: SnapshotRegion, families: Sequence[bytes], attempt: str
) -> int:
    """Copy all rows that the source has now between the region's borders. Returns the number of cells.

    `attempt` is that of the run that holds the peer lock. Raises RowsTaken, RightLost, SlaveUnreachable, WalferryError.
    """
    spec = ScanSpec(region.start, region.end, tuple(families), max_versions=ALL_VERSIONS, raw=True)
    with row_shipment(session, peer, attempt, f"{region.table},{region.encoded_name}", f"the rows of {region}") as shipment:
        for block in tables.scan(region.table, spec):
            shipment.add(region.table, families, block)
        shipment.flush(region.table)
    return shipment.cells
