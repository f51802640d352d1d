"""Keeps the order of a region's edits for a serial peer, across the servers that the region was on.

hbase:meta has a barrier for each opening of a region (hbase/tables/barriers.py), which begins a range of sequence ids. A range
lies in the WALs of one server. Its first entry may be shipped once

  - all entries of the range before it are shipped: the region's last pushed id has reached the range's barrier, minus one; or, of
    the first range, the last pushed ids of the regions that it was made of have reached their last barriers, minus one;
  - and the region is not being opened, if it is the last range: entries of a range without a barrier yet may follow it.

Entries before the first barrier are older than the peer's order. An entry whose id follows the last pushed id may always be
shipped. These are HBase's rules (SerialReplicationChecker of branch-2.6), but nothing waits and asks again here: a group's
attempt ends where an entry may not be shipped yet, and the job begins it again once others have got further (ship_run.py).

The barriers of a region are looked up once for each WAL that has entries of it, after the WAL was closed. So all barriers of the
WAL's entries are known, but those of a region that is being opened.

HBase ships what a region that is new from a split or merge has written before its first barrier is in hbase:meta, even if its
parents' edits are not shipped yet. Here it waits, as it does later.

Ids count for entries that filters drop, too, because the region's next range waits for them.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from walferry.base.kernels.read import Ints
from walferry.base.texts import visible
from walferry.engine.in_flight import WalOffset
from walferry.hbase.tables.barriers import NO_BARRIERS, Barriers, barriers_of, find_barriers
from walferry.hbase.tables.regions import encoded_name_in, is_encoded_name
from walferry.hbase.tables.tables import Tables
from walferry.hbase.wal.cells import row_of
from walferry.hbase.wal.wal_batches import WalBatch
from walferry.replication.filters.entry_filter import distinct_tables, table_name
from walferry.replication.filters.rules import FilterRules
from walferry.replication.queues.last_pushed import ENCODED_BYTES, NOTHING_PUSHED, last_pushed
from walferry.replication.source.session import Session

NO_END = 1 << 63  # of a region's last range
MAX_TABLE_CHARS = 200
META_SECONDS = 20.0  # for hbase:meta to answer


class Lookups(Protocol):
    """Reads what HBase knows about regions. Each method raises WalferryError if HBase does not answer."""

    def barriers(self, table: str, row: bytes, encoded_name: bytes) -> Barriers:
        """Return the barriers of the region with this name, which contains or contained the row."""

    def barriers_of(self, region: bytes) -> Barriers:
        """Return the barriers of the region with this full name."""

    def last_pushed(self, encoded_name: str) -> int:
        """Return the last id of the region that the peer has got; NOTHING_PUSHED without one."""

    def close(self) -> None:
        """Close the connections."""


class SourceLookups:
    """Reads hbase:meta and ZooKeeper of the source, for one thread at a time."""

    def __init__(self, session: Session, peer_id: str) -> None:
        self._session = session
        self._peer_id = peer_id
        self._tables = Tables(session.zk, session.nodes, login=session.source.login, patience_seconds=META_SECONDS)

    def barriers(self, table: str, row: bytes, encoded_name: bytes) -> Barriers:
        """Return the barriers of the region with this name. Raises ScanGivenUp, RpcError."""
        return find_barriers(self._tables, table, row, encoded_name)

    def barriers_of(self, region: bytes) -> Barriers:
        """Return the barriers of the region with this full name. Raises ScanGivenUp, RpcError."""
        return barriers_of(self._tables, region)

    def last_pushed(self, encoded_name: str) -> int:
        """Return the last id of the region that the peer has got. Raises PositionError."""
        return last_pushed(self._session, self._peer_id, encoded_name)

    def close(self) -> None:
        """Close the connections."""
        self._tables.close()


@dataclass
class _Region:
    """A region, as far as the attempt has come."""

    handed: int = NOTHING_PUSHED  # the last id that was handed out
    may_reach: int = 0  # ids below may be handed out
    barriers: Barriers = NO_BARRIERS
    looked_up: int = -1  # the number of the WAL for which `may_reach` and the barriers were found out


@dataclass(frozen=True)
class _HandedOut:
    """The ids of entries that were handed out, and the offset after each entry."""

    wal: int
    ends: Ints
    ids: Ints
    region_of: npt.NDArray[np.int64]
    regions: tuple[str, ...]


@dataclass(frozen=True)
class OutOfOrder:
    """An entry that may not be shipped yet."""

    region: str
    table: str
    sequence_id: int
    behind: str  # what has to happen first

    def __str__(self) -> str:
        return f"edit {self.sequence_id} of region {self.region} of table {self.table} waits: {self.behind}"


class SerialOrder:
    """Decides how many entries may be shipped. The reader calls `ready`, another thread `pushed`."""

    def __init__(self, lookups: Lookups) -> None:
        self._lookups = lookups
        self._regions: dict[bytes, _Region] = {}
        self._lock = threading.Lock()
        self._handed_out: deque[_HandedOut] = deque()
        self.out_of_order: OutOfOrder | None = None
        """The entry at which `ready` has stopped last."""

    def ready(self, wal: int, batch: WalBatch, rules: FilterRules) -> int:
        """Return how many of the first entries of a batch may be shipped now. They count as handed out.

        `wal` is the number of the batch's WAL, which is closed. Raises ScanGivenUp, RpcError, PositionError.
        """
        count = len(batch.index)
        mine = np.flatnonzero(_of_peer(batch, rules))
        if not mine.size:
            return count
        names, region_of = _regions_of(batch, mine)
        for number, entries in _by_number(region_of, mine):
            first = self._first_out_of_order(wal, batch, names[number], entries[entries < count])
            count = count if first is None else first
        self._note(wal, batch, names, region_of[mine < count], mine[mine < count])
        return count

    def close(self) -> None:
        """Close the connections of the lookups."""
        self._lookups.close()

    def pushed(self, before: WalOffset) -> dict[str, int]:
        """Return the last ids of regions, of entries before an offset that were not returned yet."""
        found: dict[str, int] = {}
        with self._lock:
            while self._handed_out and self._handed_out[0].wal < before.wal:
                _add_ids(found, self._handed_out.popleft())
            while self._handed_out and self._handed_out[0].wal == before.wal:
                first = self._handed_out[0]
                done = int(np.searchsorted(first.ends, before.offset, side="right"))
                _add_ids(found, first, done)
                if done < len(first.ends):
                    rest = first.ends[done:], first.ids[done:], first.region_of[done:]
                    self._handed_out[0] = _HandedOut(first.wal, *rest, first.regions)
                    break
                self._handed_out.popleft()
        return found

    def _first_out_of_order(self, wal: int, batch: WalBatch, name: bytes, entries: Ints) -> int | None:
        """Return the first of a region's entries that may not be shipped yet; None if all may be shipped."""
        region = self._regions.setdefault(name, _Region())
        ids = batch.index.sequence_id[entries]
        at = 0
        while True:
            if region.looked_up != wal and region.may_reach >= NO_END:
                region.may_reach = 0
            beyond = np.flatnonzero(ids[at:] >= region.may_reach)
            if not beyond.size:
                return None
            at += int(beyond[0])
            if region.looked_up != wal:
                if is_encoded_name(name):  # otherwise hbase:meta has no such region
                    region.barriers = self._lookups.barriers(_table(batch, entries[at]), _row(batch, entries[at]), name)
                region.looked_up = wal
            handed = max(region.handed, int(ids[:at].max(initial=NOTHING_PUSHED)))
            before = self._before(batch, name, region, int(ids[at]), int(entries[at]), handed)
            if before is None:
                region.may_reach = _end(region.barriers, int(ids[at]))
            elif int(ids[at]) == before + 1:
                region.may_reach = int(ids[at]) + _continuous(ids[at:])
            else:
                region.looked_up = -1  # the next try looks again
                return int(entries[at])

    def _before(self, batch: WalBatch, name: bytes, region: _Region, sequence_id: int, entry: int, handed: int) -> int | None:
        """Return None if an entry's range may be shipped. Otherwise note why not, and return the last id before it that is."""
        barriers, shown = region.barriers.barriers, name.decode("ascii", "replace")
        number = bisect_right(barriers, sequence_id)
        if not barriers and region.barriers.parents:  # its first barrier is not there yet
            number = 1
        behind = None
        if number == 1:
            behind = self._behind_parents(region.barriers)
        elif number > 1 and handed < barriers[number - 1] - 1:
            pushed = self._lookups.last_pushed(shown)
            if pushed < barriers[number - 1] - 1:
                handed = max(handed, pushed)
                behind = f"the region's edits up to {barriers[number - 1] - 1}, from where it was before, are not shipped yet"
        if behind is None and number >= max(1, len(barriers)) and region.barriers.opening:
            handed = max(handed, self._lookups.last_pushed(shown))
            behind = "the region is being opened on a server"
        if behind is None:
            return None
        table = visible(_table(batch, entry), MAX_TABLE_CHARS)
        self.out_of_order = OutOfOrder(visible(shown, ENCODED_BYTES), table, sequence_id, behind)
        return handed

    def _behind_parents(self, barriers: Barriers) -> str | None:
        for name in barriers.parents:
            end = self._lookups.barriers_of(name).end
            parent = encoded_name_in(name).decode("ascii", "replace")
            if end is not None and self._lookups.last_pushed(parent) < end - 1:
                shown = visible(parent, ENCODED_BYTES)
                return f"the edits up to {end - 1} of region {shown}, which it was made of, are not shipped yet"
        return None

    def _note(self, wal: int, batch: WalBatch, names: list[bytes], region_of: npt.NDArray[np.int64], entries: Ints) -> None:
        """Note that these entries are handed out. A region has ids if it has barriers, or is about to get its first one."""
        ids = batch.index.sequence_id[entries]
        last = np.full(len(names), NOTHING_PUSHED)
        np.maximum.at(last, region_of, ids)
        counted = np.zeros(len(names), np.bool_)
        for number, name in enumerate(names):
            region = self._regions[name]
            region.handed = max(region.handed, int(last[number]))
            counted[number] = bool(region.barriers.barriers) or region.barriers.opening
        which = counted[region_of]
        if which.any():
            shown = tuple(name.decode("ascii", "replace") for name in names)
            handed_out = _HandedOut(wal, batch.next_positions[entries][which], ids[which], region_of[which], shown)
            with self._lock:
                self._handed_out.append(handed_out)


def _of_peer(batch: WalBatch, rules: FilterRules) -> npt.NDArray[np.bool_]:
    """Return which entries are of the peer's tables, and of a region with which HBase orders entries."""
    table_of, first_of = distinct_tables(batch)
    wanted = np.array([rules.tables.has(table_name(batch, int(entry))) for entry in first_of], np.bool_)
    ordered: npt.NDArray[np.bool_] = wanted[table_of] & (batch.index.cell_count > 0)
    ordered &= batch.index.region_len == ENCODED_BYTES
    return ordered


def _regions_of(batch: WalBatch, entries: Ints) -> tuple[list[bytes], npt.NDArray[np.int64]]:
    """Return the encoded names of the regions of these entries, and for each entry the number of its region's name."""
    starts = batch.index.region_start[entries]
    names = batch.buf[starts[:, None] + np.arange(ENCODED_BYTES)].view(np.dtype((np.void, ENCODED_BYTES))).ravel()
    found, region_of = np.unique(names, return_inverse=True)
    return [name.tobytes() for name in found], region_of


def _by_number(region_of: npt.NDArray[np.int64], entries: Ints) -> Iterator[tuple[int, Ints]]:
    """Yield each region's number, with its entries in their order."""
    order = np.argsort(region_of, kind="stable")
    starts = np.flatnonzero(np.diff(region_of[order], prepend=-1))
    for start, end in zip(starts, [*starts[1:], len(order)], strict=True):
        yield int(region_of[order[start]]), entries[order[start:end]]


def _end(barriers: Barriers, sequence_id: int) -> int:
    """Return where the range of an id ends."""
    number = bisect_right(barriers.barriers, sequence_id)
    return barriers.barriers[number] if number < len(barriers.barriers) else NO_END


def _continuous(ids: Ints) -> int:
    """Return how many of the first ids follow each other without a gap."""
    gaps = np.flatnonzero(np.diff(ids) != 1)
    return int(gaps[0]) + 1 if gaps.size else len(ids)


def _add_ids(found: dict[str, int], handed_out: _HandedOut, count: int | None = None) -> None:
    """Raise the regions' ids in `found` to those of the first entries that were handed out."""
    last = np.full(len(handed_out.regions), NOTHING_PUSHED)
    np.maximum.at(last, handed_out.region_of[:count], handed_out.ids[:count])
    for number in np.flatnonzero(last > NOTHING_PUSHED).tolist():
        region = handed_out.regions[number]
        found[region] = max(found.get(region, NOTHING_PUSHED), int(last[number]))


def _table(batch: WalBatch, entry: int) -> str:
    return table_name(batch, entry).decode("utf-8", "replace")


def _row(batch: WalBatch, entry: int) -> bytes:
    """Return the row of an entry's first cell. A marker's row is its region's start key, or the row after it."""
    start, length = row_of(batch.buf, int(batch.index.cells_start[entry]))
    return batch.buf[start : start + length].tobytes()
