"""Batches whose entries have chosen regions and sequence ids, and stays of such regions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

import numpy as np

from walferry.hbase.wal.scan import EntryIndex
from walferry.hbase.wal.wal_batches import WalBatch
from walferry.replay.scan import Stay


def wal_batch(entries: Sequence[tuple[int, int]], write_times: Sequence[int] | None = None) -> WalBatch:
    """A batch with an entry for each (region's hash, sequence id); nothing else of its entries is there."""
    columns = {field.name: np.arange(len(entries), dtype=np.int64) for field in fields(EntryIndex)}
    columns["region_hash"] = np.array([region for region, _ in entries], dtype=np.uint64)
    columns["sequence_id"] = np.array([number for _, number in entries], dtype=np.int64)
    if write_times is not None:
        columns["write_time"] = np.array(write_times, dtype=np.int64)
    return WalBatch(np.zeros(0, np.uint8), 0, EntryIndex(**columns))


def stay(region: int, first: int, last: int) -> Stay:
    """A stay of the region with this hash."""
    return Stay(region.to_bytes(8, signed=region < 0), first, last)
