"""Ships rows of the source again, through the peer's sink and the filters that all its edits pass.

What is shipped is a raw scan of a row: all of its versions and delete markers that the source still has. Replication would have
shipped the same cells, so a row that was only incomplete is equal afterwards. Rows that only the slave has, and cells that it has
too many, stay: the source has nothing left that would delete them, they may be another writer's, and a delete that is still
queued removes them by itself.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from walferry.shipping.rows import RowShipment
from walferry.tables.scan import ALL_VERSIONS, ScanSpec
from walferry.tables.tables import Tables
from walferry.verification.job import TableRange


def ship_rows(shipment: RowShipment, source: Tables, part: TableRange, keys: Collection[bytes]) -> None:
    """Ship these rows of a range. Raises what scans, filters and sinks raise."""
    spec = ScanSpec(min(keys), max(keys) + b"\0", part.families, max_versions=ALL_VERSIONS, raw=True)
    wanted = frozenset(keys)
    for block in source.scan(part.table, spec):
        chosen = np.array([block.key(i) in wanted for i in range(len(block))], dtype=np.bool_)
        shipment.add(part.table, part.families, block, chosen)
    shipment.flush(part.table)
