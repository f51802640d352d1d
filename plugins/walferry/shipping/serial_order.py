"""Keeps the order of a region's edits for a serial peer, across the servers that the region was on.

hbase:meta has a barrier for each opening of a region (hbase/tables/barriers.py), which begins a range of sequence ids. A range
lies in the WALs of one server. Its first entry may be shipped once

  - all entries of the range before it are shipped: the region's last pushed id has reached the range's barrier, minus one; or, of
    the first range, the last pushed ids of the regions that it was made of have reached their last barriers, minus one;
  - and the region is not being opened, if it is the last range: entries of a range without a barrier yet may follow it.

Entries before the first barrier are older than the peer's order. An entry whose id follows the last pushed id may always be
shipped. These are HBase's rules (SerialReplicationChecker of branch-2.6). An attempt asks again for as long as what it waits for
gets closer. Then it ends, so that others can run in its place, and the job begins it again once others got further (ship_run.py).

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
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from walferry.base.kernels.types import Ints
from walferry.base.texts import visible
from walferry.engine.in_flight import WalOffset
from walferry.hbase.tables.barriers import UNKNOWN, Barriers, barriers_of, find_barriers
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
FAILOVER_SECONDS = 600.0  # for hbase:meta to answer: the death of its server does not end a group


class Lookups(Protocol):
    """Reads what HBase knows about regions. Raises WalferryError if HBase does not answer. None: the attempt has to end."""

    def barriers(self, table: str, row: bytes, encoded_name: bytes) -> Barriers | None:
        """Return the barriers of the region with this name, which contains or contained the row."""

    def barriers_of(self, region: bytes) -> Barriers | None:
        """Return the barriers of the region with this full name."""

    def last_pushed(self, encoded_name: str) -> int:
        """Return the last id of the region that the peer has got; NOTHING_PUSHED without one."""

    def close(self) -> None:
        """Close the connections."""


class SourceLookups:
    """Reads hbase:meta and ZooKeeper of the source, for one thread at a time. `stopped` says whether the attempt has to end."""

    def __init__(self, session: Session, peer_id: str, stopped: Callable[[], bool]) -> None:
        self._session = session
        self._peer_id = peer_id
        self._stopped = stopped
        self._tables = Tables(session.zk, session.nodes, login=session.source.login, patience_seconds=FAILOVER_SECONDS)

    def barriers(self, table: str, row: bytes, encoded_name: bytes) -> Barriers | None:
        """Return the barriers of the region with this name. Raises ScanGivenUp, RpcError."""
        return find_barriers(self._tables, table, row, encoded_name, self._stopped)

    def barriers_of(self, region: bytes) -> Barriers | None:
        """Return the barriers of the region with this full name. Raises ScanGivenUp, RpcError."""
        return barriers_of(self._tables, region, self._stopped)

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
    barriers: Barriers = UNKNOWN
    looked_up: int = -1  # the number of the WAL for which `may_reach` and the barriers were found out
    gone: bool = False  # hbase:meta does not have it any more


@dataclass(frozen=True)
class _HandedOut:
    """The ids of entries that were handed out, and the offset after each entry."""

    wal: int
    ends: Ints
    ids: Ints
    region_of: npt.NDArray[np.int64]
    regions: tuple[bytes, ...]


@dataclass(frozen=True)
class OutOfOrder:
    """An entry that may not be shipped yet."""

    region: str
    table: str
    sequence_id: int
    behind: str  # what has to happen first
    seen: int  # the last pushed id that it waits for, as it was seen

    def __str__(self) -> str:
        return f"edit {self.sequence_id} of region {self.region} of table {self.table} waits: {self.behind}"


@dataclass(frozen=True)
class _Behind:
    """Why a range may not be shipped yet, the last id of the region that was, and the last pushed id that is waited for."""

    why: str
    before: int
    seen: int


class SerialOrder:
    """Decides how many entries may be shipped. The reader calls all methods but `pushed`, which another thread calls."""

    def __init__(self, lookups: Lookups) -> None:
        self._lookups = lookups
        self._regions: dict[bytes, _Region] = {}
        self._lock = threading.Lock()
        self._handed_out: deque[_HandedOut] = deque()
        self.out_of_order: OutOfOrder | None = None
        """The entry at which `ready` has stopped last."""

    def ready(self, wal: int, batch: WalBatch, rules: FilterRules) -> int:
        """Return how many of the first entries of a batch may be shipped now.

        `wal` is the number of the batch's WAL, which is closed. Raises ScanGivenUp, RpcError, PositionError.
        """
        self.out_of_order = None
        count = len(batch.index)
        mine = np.flatnonzero(_of_peer(batch, rules))
        if not mine.size:
            return count
        names, region_of = _regions_of(batch, mine)
        for number, entries in _by_number(region_of, mine):
            first = self._first_out_of_order(wal, batch, names[number], entries[entries < count])
            count = count if first is None else first
        return count

    def handing_out(self, wal: int, batch: WalBatch, rules: FilterRules) -> None:
        """Note that all entries of a batch are handed out. This comes before any of them may be acknowledged."""
        mine = np.flatnonzero(_of_peer(batch, rules))
        if mine.size:
            self._note(wal, batch, *_regions_of(batch, mine), mine)

    def given_up(self, wal: int, offset: int) -> None:
        """Note that the WAL's entries that end behind an offset were not shipped after all, and never will be."""
        with self._lock:
            for at, each in enumerate(self._handed_out):
                if each.wal == wal:
                    kept = int(np.searchsorted(each.ends, offset, side="right"))
                    for name in each.regions:
                        self._regions[name].handed = NOTHING_PUSHED  # ZooKeeper says how far it is
                    self._handed_out[at] = _HandedOut(wal, each.ends[:kept], each.ids[:kept], each.region_of[:kept], each.regions)

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
            if region.looked_up != wal and not self._look_up(wal, batch, name, region, int(entries[at])):
                return int(entries[at])
            handed = max(region.handed, int(ids[:at].max(initial=NOTHING_PUSHED)))
            behind = self._behind(name, region.barriers, int(ids[at]), handed)
            if behind is None:
                region.may_reach = _end(region.barriers, int(ids[at]))
            elif int(ids[at]) == behind.before + 1:
                region.may_reach = int(ids[at]) + _continuous(ids[at:])
            else:
                region.looked_up = -1  # the next try looks again
                table, shown = visible(_table(batch, entries[at]), MAX_TABLE_CHARS), visible(_shown(name), ENCODED_BYTES)
                self.out_of_order = OutOfOrder(shown, table, int(ids[at]), behind.why, behind.seen)
                return int(entries[at])

    def _look_up(self, wal: int, batch: WalBatch, name: bytes, region: _Region, entry: int) -> bool:
        """Look up the region's barriers, unless it is gone. Returns False if the attempt has to end."""
        if not region.gone:
            found = self._lookups.barriers(_table(batch, entry), _row(batch, entry), name) if is_encoded_name(name) else UNKNOWN
            if found is None:
                return False
            region.barriers, region.gone = found, found is UNKNOWN
        region.looked_up = wal
        return True

    def _behind(self, name: bytes, barriers: Barriers, sequence_id: int, handed: int) -> _Behind | None:
        """Return why the range of an id may not be shipped yet; None if it may. `handed` is the last id that was handed out."""
        number = bisect_right(barriers.barriers, sequence_id)
        if not barriers.barriers and barriers.parents:  # its first barrier is not there yet
            number = 1
        if number == 1 and (behind := self._behind_parents(barriers, handed)) is not None:
            return behind
        if number > 1 and handed < (end := barriers.barriers[number - 1] - 1):
            pushed = self._lookups.last_pushed(_shown(name))
            if pushed < end:
                why = f"the region's edits up to {end}, from where it was before, are not shipped yet"
                return _Behind(why, max(handed, pushed), pushed)
        if number >= max(1, len(barriers.barriers)) and barriers.opening:
            before = max(handed, self._lookups.last_pushed(_shown(name)))
            return _Behind("the region is being opened on a server", before, before)
        return None

    def _behind_parents(self, barriers: Barriers, handed: int) -> _Behind | None:
        for name in barriers.parents:
            found = self._lookups.barriers_of(name)
            parent = _shown(encoded_name_in(name))
            if found is None:
                return _Behind("whether its parents' edits are shipped is not known yet", handed, NOTHING_PUSHED)
            if found.end is not None and (pushed := self._lookups.last_pushed(parent)) < found.end - 1:
                shown = visible(parent, ENCODED_BYTES)
                why = f"the edits up to {found.end - 1} of region {shown}, which it was made of, are not shipped yet"
                return _Behind(why, handed, pushed)
        return None

    def _note(self, wal: int, batch: WalBatch, names: list[bytes], region_of: npt.NDArray[np.int64], entries: Ints) -> None:
        """Note that these entries are handed out. A region has ids if it has barriers, or is about to get its first one."""
        ids = batch.index.sequence_id[entries]
        last = np.full(len(names), NOTHING_PUSHED)
        np.maximum.at(last, region_of, ids)
        counted = np.zeros(len(names), np.bool_)
        for number, name in enumerate(names):
            region = self._regions.setdefault(name, _Region())
            region.handed = max(region.handed, int(last[number]))
            counted[number] = bool(region.barriers.barriers) or region.barriers.opening
        which = counted[region_of]
        if which.any():
            ends = batch.next_positions[entries][which]
            handed_out = _HandedOut(wal, ends, ids[which], region_of[which], tuple(names))
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
        region = _shown(handed_out.regions[number])
        found[region] = max(found.get(region, NOTHING_PUSHED), int(last[number]))


def _shown(name: bytes) -> str:
    return name.decode("ascii", "replace")


def _table(batch: WalBatch, entry: int) -> str:
    return table_name(batch, entry).decode("utf-8", "replace")


def _row(batch: WalBatch, entry: int) -> bytes:
    """Return the row of an entry's first cell. A marker's row is its region's start key, or the row after it."""
    start, length = row_of(batch.buf, int(batch.index.cells_start[entry]))
    return batch.buf[start : start + length].tobytes()
