"""Edits for runs, as the filters keep them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

import numpy as np

from tests.unit.hbase.wal.encoder import Cell, Entry, entry
from tests.unit.replication.filters.test_entry_filter import GLOBAL, RULES, batch_of
from walferry.base.kernels.types import Flags
from walferry.hbase.hfiles.stores import Stores, TargetTable
from walferry.replication.filters.entry_filter import filter_batch
from walferry.shipping.bulkload.runs import MEMORY_BYTES, Edits, SortedRun, sorted_runs


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


def runs_of(
    edits: Iterable[Edits], tables: Mapping[bytes, TargetTable], *, wanted: Flags | None = None, memory_bytes: int = MEMORY_BYTES
) -> list[SortedRun]:
    """The sorted runs of all stores, or of the wanted ones."""
    stores = Stores(tables)
    wanted = np.ones(len(stores.list), np.bool_) if wanted is None else wanted
    return list(chain.from_iterable(sorted_runs(edits, stores, wanted, memory_bytes=memory_bytes)))
