"""Edits for runs, as the filters keep them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tests.unit.hbase.wal.encoder import Cell, Entry, entry
from tests.unit.replication.filters.test_entry_filter import GLOBAL, RULES, batch_of
from walferry.replication.filters.entry_filter import filter_batch
from walferry.shipping.bulkload.runs import Edits


def edits_of(*entries: Entry, path: str = "hdfs://a/wal") -> Edits:
    """All that the filters keep of a batch with these entries."""
    batch = batch_of(*entries)
    kept = filter_batch(batch, RULES, path)
    return Edits(batch, kept, np.flatnonzero(kept.cells), path)


def global_entry(cells: Sequence[Cell], sequence_id: int, table: bytes = b"t", write_time: int = 2) -> Entry:
    made = entry(*cells, table=table, sequence_id=sequence_id, write_time=write_time)
    for family in (b"f", b"gg"):
        made.key.scopes.add(family=family, scope_type=GLOBAL)
    return made
