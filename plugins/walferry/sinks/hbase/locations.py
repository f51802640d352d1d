"""Where the regions of the slave's tables are: read from its hbase:meta once for all lanes, and again when that turns out wrong.

A table's regions are read as a whole: a batch needs most of them, and hundreds of them come with one answer.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from walferry.errors import WalferryError
from walferry.hbase.errors import ZNodeValueError
from walferry.kernels.compiled import inlined, unmanaged
from walferry.kernels.read import Bytes, Ints, read_uint8
from walferry.tables.errors import RegionUnavailable, ScanGivenUp
from walferry.tables.regions import Region
from walferry.tables.tables import Tables
from walferry.zk.errors import ConnectError

NOWHERE = -1


@dataclass(frozen=True)
class RegionMap:
    """A table's open regions at one time, in the order of their rows."""

    table: bytes
    regions: tuple[Region, ...]
    starts: Bytes  # all start keys, one after the other
    start_ends: Ints  # where key i begins, and where the last one ends
    ends: Bytes
    end_ends: Ints

    @classmethod
    def of(cls, table: bytes, regions: list[Region]) -> RegionMap:
        """The map of regions that are in order."""
        starts, start_ends = _flat([region.start for region in regions])
        ends, end_ends = _flat([region.end for region in regions])
        return cls(table, tuple(regions), starts, start_ends, ends, end_ends)

    def find(self, buf: Bytes, start: Ints, length: Ints) -> Ints:
        """The number of each row's region, NOWHERE if none has it. Row i is `buf[start[i]:start[i] + length[i]]`."""
        found = np.empty(start.size, np.int64)
        _find(buf, start, length, self.starts, self.start_ends, self.ends, self.end_ends, found)
        return found


class LocationsUnknown(WalferryError):
    """The slave's hbase:meta could not be asked for the regions of `table`."""

    def __init__(self, table: str, reason: str) -> None:
        super().__init__(f"the regions of table {table} cannot be looked up in the slave's hbase:meta: {reason.rstrip('.')}")
        self.table = table


class Locations:
    """The maps of a slave's tables. Any thread may call the methods; one at a time reads hbase:meta."""

    def __init__(self, open_tables: Callable[[], Tables]) -> None:
        self._open_tables = open_tables
        self._tables: Tables | None = None
        self._maps: dict[bytes, RegionMap] = {}
        self._lock = threading.Lock()

    def of(self, table: bytes, not_this: RegionMap | None = None) -> RegionMap:
        """The table's regions. `not_this` has turned out wrong: the map is read again, unless another lane has done so since.

        Raises MissingTable, LocationsUnknown, and an RpcError or NoAuthError if the slave refuses to tell.
        """
        with self._lock:
            known = self._maps.get(table)
            if known is None or known is not_this:
                if self._tables is None:
                    self._tables = self._open_tables()
                known = self._maps[table] = RegionMap.of(table, self._read(self._tables, table.decode()))
            return known

    def interrupt(self) -> None:
        """From another thread: end the reading that is under way."""
        if self._tables is not None:
            self._tables.interrupt()

    def _read(self, tables: Tables, table: str) -> list[Region]:
        try:
            return tables.regions(table)
        except (ScanGivenUp, RegionUnavailable, ConnectError, ZNodeValueError) as error:
            raise LocationsUnknown(table, str(error.__cause__ or error)) from error

    def close(self) -> None:
        """Close the connections."""
        with self._lock:
            if self._tables is not None:
                self._tables.close()


def _flat(keys: list[bytes]) -> tuple[Bytes, Ints]:
    return np.frombuffer(b"".join(keys) or b"\0", np.uint8), np.cumsum([0, *map(len, keys)], dtype=np.int64)


@inlined
def _compare(buf: Bytes, start: int, length: int, keys: Bytes, ends: Ints, i: int) -> int:
    """Return a number below, at or above 0 as the row `buf[start:start + length]` stands before, at or after key `i`."""
    key, key_len = ends[i], ends[i + 1] - ends[i]
    for k in range(min(length, key_len)):
        difference = read_uint8(buf, start + k) - read_uint8(keys, key + k)
        if difference != 0:
            return int(difference)
    return int(length - key_len)


@unmanaged
def _find(
    buf: Bytes, start: Ints, length: Ints, starts: Bytes, start_ends: Ints, ends: Bytes, end_ends: Ints, found: Ints
) -> None:
    """Fill `found`. Neighbouring rows mostly have the same region, so the last one's is tried first."""
    count = start_ends.size - 1
    last = 0
    for i in range(start.size):
        if not (
            _compare(buf, start[i], length[i], starts, start_ends, last) >= 0
            and (last + 1 == count or _compare(buf, start[i], length[i], starts, start_ends, last + 1) < 0)
        ):
            low, high = 0, count  # the region is before `high`, and at `low` or after it, if there is one
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
