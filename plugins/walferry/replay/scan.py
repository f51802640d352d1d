"""Reads WALs without shipping them: counts the peer's edits of an interval by table, and notes which server had each region."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from walferry.base.records import Record
from walferry.hbase.files.closedness import WalMissing
from walferry.hbase.files.listing import WalFile
from walferry.hbase.files.store import WalStore
from walferry.hbase.wal.errors import WalTornError, WalTruncatedError
from walferry.hbase.wal.wal_batches import UnwrapKey, WalBatch
from walferry.replay.holes import IntervalGone
from walferry.replay.interval import Interval, only
from walferry.replication.filters.entry_filter import KeptEdits, filter_batch, table_name
from walferry.replication.filters.rules import FilterRules, Reason
from walferry.shipping.closed_wal import ReadProgress, batches_of_closed, seconds_to_close

RUN_AGAIN = "A new run finds the remaining WALs"


@dataclass(frozen=True, slots=True)
class TableCount:
    """The peer's edits of one table in an interval. A bulk load counts as an edit without cells."""

    edits: int = 0
    cells: int = 0
    bytes: int = 0  # of cells

    def __add__(self, other: TableCount) -> TableCount:
        return TableCount(self.edits + other.edits, self.cells + other.cells, self.bytes + other.bytes)


class Stay(NamedTuple):
    """A region's stay at one server: the sequence ids of its first and last edit there that the peer gets."""

    region: bytes  # the hash of the region's encoded name
    first: int
    last: int


def region_key(region_hash: int) -> bytes:
    """Return the hash of a region's encoded name in the form of `Stay`."""
    return region_hash.to_bytes(8)


@dataclass(frozen=True)
class Scanned(Record):
    """The counts of one WAL, or why it cannot be read."""

    tables: Mapping[str, TableCount] = field(default_factory=dict)
    stays: Sequence[tuple[bytes, int, int]] = ()  # as in `Stay`
    before_copy: int = 0  # edits that are older than their table's initial snapshot
    error: str = ""


class IntervalScan:
    """Counts the edits of one WAL, one WAL batch after the other."""

    def __init__(self) -> None:
        self._before_copy = 0
        self._tables: dict[str, TableCount] = {}
        self._stays: dict[bytes, list[Stay]] = {}
        self._ended: set[bytes] = set()  # regions that were opened or closed since their last stay

    def add(self, batch: WalBatch, kept: KeptEdits) -> None:
        """Count the entries of a WAL batch."""
        index = batch.index
        self._before_copy += int((kept.reason == Reason.COPIED).sum())
        shipped = (kept.cells > 0) | (kept.reason == Reason.BULK_LOAD)
        regions, examples, region_of = np.unique(index.region_hash, return_index=True, return_inverse=True)
        edits, cells, sizes = (
            np.bincount(region_of, np.where(shipped, what, 0), len(regions)).astype(np.int64)
            for what in (np.ones(len(index)), kept.cells, kept.size)
        )
        for number in np.flatnonzero(edits).tolist():
            table = table_name(batch, int(examples[number])).decode(errors="replace")
            count = TableCount(int(edits[number]), int(cells[number]), int(sizes[number]))
            self._tables[table] = self._tables.get(table, TableCount()) + count
        self._note_stays(index.sequence_id, kept, regions, region_of, shipped)

    def _note_stays(
        self, sequence: np.ndarray, kept: KeptEdits, regions: np.ndarray, region_of: np.ndarray, shipped: np.ndarray
    ) -> None:
        moving = set(region_of[kept.reason == Reason.REGION_EVENT].tolist())
        for entry in np.flatnonzero(np.isin(region_of, list(moving))).tolist():
            region = region_key(int(regions[region_of[entry]]))
            if kept.reason[entry] == Reason.REGION_EVENT:
                self._ended.add(region)
            elif shipped[entry]:
                self._note(region, int(sequence[entry]), int(sequence[entry]))
        first = np.full(len(regions), np.iinfo(np.int64).max)
        last = np.full(len(regions), -1)
        np.minimum.at(first, region_of[shipped], sequence[shipped])
        np.maximum.at(last, region_of[shipped], sequence[shipped])
        for number in np.flatnonzero(last >= 0).tolist():
            if number not in moving:
                self._note(region_key(int(regions[number])), int(first[number]), int(last[number]))

    def _note(self, region: bytes, first: int, last: int) -> None:
        stays = self._stays.setdefault(region, [])
        if stays and region not in self._ended:
            stays[-1] = Stay(region, min(first, stays[-1].first), max(last, stays[-1].last))
        else:
            stays.append(Stay(region, first, last))
        self._ended.discard(region)

    def result(self) -> Scanned:
        """Return the counts."""
        stays = [stay for stays in self._stays.values() for stay in stays]
        return Scanned(self._tables, stays, self._before_copy)


def scan_wal(
    store: WalStore, wal: WalFile, interval: Interval, rules: FilterRules, keys: UnwrapKey | None, *, ends_torn: bool
) -> Scanned:
    """Count a WAL's edits of an interval. Raises WalError, StoreError, IntervalGone, WalNotClosed."""
    scan = IntervalScan()
    for batch, path in batches_of(store, wal, keys, ends_torn=ends_torn):
        written = only(batch, interval.entries_of(batch))
        if len(written.index):
            scan.add(written, filter_batch(written, rules, path))
    return scan.result()


def batches_of(
    store: WalStore, wal: WalFile, keys: UnwrapKey | None, *, ends_torn: bool, deadline: float = math.inf
) -> Iterator[tuple[WalBatch, str]]:
    """Yield the batches of a WAL with its URL, wherever HBase moves it meanwhile.

    With `ends_torn`, an entry that the server's death has cut off ends the WAL. Waits for the WAL to be closed, until the
    `deadline` (seconds since the epoch) at the latest. Raises WalError, StoreError, IntervalGone, WalNotClosed.
    """
    try:
        yield from batches_of_closed(
            store, keys, wal.name, (), 0, close_seconds=lambda: seconds_to_close(deadline - time.time(), live=True),
            progress=ReadProgress(),
        )  # fmt: skip
    except (WalTruncatedError, WalTornError):
        if not ends_torn:
            raise
    except WalMissing as error:
        raise IntervalGone(f"WAL {wal.name} is gone since this run has found it at {wal.url}", RUN_AGAIN) from error
