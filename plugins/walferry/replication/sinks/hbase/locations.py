"""The locations of the regions of the peer cluster's tables, read from its hbase:meta once for all senders, and again when wrong.

All regions of a table are read together: a batch needs most of them, and one answer contains hundreds.

When hbase:meta hangs, each sender waits no longer than its own time allows, and all that wait for the same reading fail together.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from walferry.base.errors import WalferryError
from walferry.base.kernels.compiled import inlined, unmanaged
from walferry.base.kernels.read import compare_bytes, flat
from walferry.base.kernels.types import Bytes, Ints, OutInts
from walferry.base.zk.errors import ConnectError, ZNodeValueError
from walferry.hbase.names import ServerName
from walferry.hbase.tables.errors import RegionUnavailable, ScanGivenUp
from walferry.hbase.tables.regions import Region
from walferry.hbase.tables.tables import Tables
from walferry.replication.sinks.errors import Stopped

NOWHERE = -1
LONGEST_READING_SECONDS = 120.0  # for a table's regions: half a million take a busy machine a minute
READ_AGAIN_SECONDS = 1.0  # a map that was just read again would still be the same
_CHECK_SECONDS = 0.2  # how soon a sender that waits for another sender's reading notices a stop
_CLOSE_SECONDS = 1.0


@dataclass(frozen=True)
class RegionMap:
    """A table's open regions at one time, in row order."""

    table: bytes
    regions: tuple[Region, ...]
    starts: Bytes  # all start keys, one after the other
    start_ends: Ints  # where each key begins, and where the last key ends
    ends: Bytes
    end_ends: Ints
    servers: frozenset[ServerName]

    @classmethod
    def of(cls, table: bytes, regions: list[Region]) -> RegionMap:
        """Return the map of regions that are already in order."""
        start_ends, starts = flat([region.start for region in regions])
        end_ends, ends = flat([region.end for region in regions])
        servers = frozenset(region.server for region in regions if region.server is not None)
        return cls(table, tuple(regions), starts, start_ends, ends, end_ends, servers)

    def find(self, buf: Bytes, start: Ints, length: Ints) -> Ints:
        """Return the number of each row's region; NOWHERE if none has it. Row i is `buf[start[i]:start[i] + length[i]]`."""
        found = np.empty(start.size, np.int64)
        _find(buf, start, length, self.starts, self.start_ends, self.ends, self.end_ends, found)
        return found


class LocationsUnknown(WalferryError):
    """The peer cluster's hbase:meta could not be asked for the regions of `table`."""

    def __init__(self, table: str, reason: str) -> None:
        super().__init__(
            f"the regions of table {table} cannot be looked up in the peer cluster's hbase:meta: {reason.rstrip('.')}"
        )
        self.reason = reason


class Locations:
    """The region maps of a peer cluster's tables. Any thread may call the methods; one thread at a time reads hbase:meta."""

    def __init__(self, open_tables: Callable[[], Tables], clock: Callable[[], float] = time.monotonic) -> None:
        self._open_tables = open_tables
        self._clock = clock
        self._tables: Tables | None = None
        self._maps: dict[bytes, RegionMap] = {}
        self._read_again: dict[bytes, float] = {}  # when each table was last read again
        self._failures = 0  # readings that hbase:meta did not answer
        self._reason = ""  # why the last reading failed
        self._closed = False
        self._lock = threading.Lock()
        self.servers: frozenset[ServerName] = frozenset()
        """All servers in the maps."""

    def of(self, table: bytes, not_this: RegionMap | None = None, seconds: Callable[[], float] = lambda: math.inf) -> RegionMap:
        """Return the table's regions. `not_this` is a map that has turned out wrong: the table is read again, unless it just was.

        `seconds` returns how long the caller can still wait. Its errors end the reading.

        Raises MissingTable, TooManyRegions, LocationsUnknown, Stopped, and RpcError or NoAuthError if the peer cluster refuses.
        """
        failures = self._failures
        if (known := self._known(table, not_this)) is not None:
            return known
        self._wait_for_turn(table.decode(), seconds)
        try:
            if (known := self._known(table, not_this)) is not None:
                return known
            if self._closed:
                raise Stopped("the peer cluster's regions are not asked for any more")
            if self._failures > failures:
                raise LocationsUnknown(table.decode(), self._reason)
            return self._read(table, seconds)
        finally:
            self._close_if_due()
            self._lock.release()

    def interrupt(self) -> None:
        """From another thread: end the reading under way."""
        if self._tables is not None:
            self._tables.interrupt()

    def close(self) -> None:
        """Close the connections. If a reading is under way, it ends and closes them."""
        self._closed = True
        self.interrupt()
        if self._lock.acquire(timeout=_CLOSE_SECONDS):
            self._close_if_due()
            self._lock.release()

    def _known(self, table: bytes, not_this: RegionMap | None) -> RegionMap | None:
        """Return the known map unless it is wrong. A map that was just read again counts as right."""
        known = self._maps.get(table)
        if known is not_this and self._clock() - self._read_again.get(table, -math.inf) >= READ_AGAIN_SECONDS:
            return None
        return known

    def _wait_for_turn(self, table: str, seconds: Callable[[], float]) -> None:
        while not self._lock.acquire(timeout=max(0.0, min(_CHECK_SECONDS, seconds()))):
            if seconds() <= 0:
                raise LocationsUnknown(table, self._reason or "another look-up has not ended in time")

    def _read(self, table: bytes, seconds: Callable[[], float]) -> RegionMap:
        if self._tables is None:
            self._tables = self._open_tables()
        try:
            regions = self._tables.regions(table.decode(), _limit(table.decode(), seconds))
        except (ScanGivenUp, ConnectError, ZNodeValueError, LocationsUnknown) as error:
            self._failures += 1
            self._reason = error.reason if isinstance(error, LocationsUnknown) else str(error.__cause__ or "") or str(error)
            self._tables.close()  # hbase:meta may be elsewhere by the next time
            raise LocationsUnknown(table.decode(), self._reason) from error
        except RegionUnavailable as error:
            raise LocationsUnknown(table.decode(), str(error)) from error
        if table in self._maps:
            self._read_again[table] = self._clock()
        self._maps[table] = RegionMap.of(table, regions)
        self.servers = frozenset[ServerName]().union(*(known.servers for known in self._maps.values()))
        return self._maps[table]

    def _close_if_due(self) -> None:
        if self._closed and self._tables is not None:
            self._tables.close()


def _limit(table: str, seconds: Callable[[], float]) -> Callable[[], float]:
    """Return a function for the time that the next call of a reading has. It raises LocationsUnknown when there is none left."""
    until = time.monotonic() + LONGEST_READING_SECONDS

    def left() -> float:
        most = min(seconds(), until - time.monotonic())
        if most <= 0:
            raise LocationsUnknown(table, "it answers, but has not named all of them in time")
        return most

    return left


@inlined
def _compare(buf: Bytes, start: int, length: int, keys: Bytes, ends: Ints, i: int) -> int:
    """Return a number below 0, 0 or above 0 if the row `buf[start:start + length]` is before, at or after key `i`."""
    return compare_bytes(buf, start, length, keys, ends[i], ends[i + 1] - ends[i])


@unmanaged
def _find(
    buf: Bytes, start: Ints, length: Ints, starts: Bytes, start_ends: Ints, ends: Bytes, end_ends: Ints, found: OutInts
) -> None:
    """Fill `found`. Neighbouring rows mostly share a region, so the last row's region is tried first."""
    count = start_ends.size - 1
    last = 0
    for i in range(start.size):
        if not (
            _compare(buf, start[i], length[i], starts, start_ends, last) >= 0
            and (last + 1 == count or _compare(buf, start[i], length[i], starts, start_ends, last + 1) < 0)
        ):
            low, high = 0, count  # the region, if there is one, is at `low` or after, and before `high`
            while high - low > 1:
                middle = (low + high) // 2
                if _compare(buf, start[i], length[i], starts, start_ends, middle) >= 0:
                    low = middle
                else:
                    high = middle
            last = low
        within = _compare(buf, start[i], length[i], starts, start_ends, last) >= 0
        unlimited = end_ends[last + 1] == end_ends[last]
        within = within and (unlimited or _compare(buf, start[i], length[i], ends, end_ends, last) < 0)
        found[i] = last if within else NOWHERE
