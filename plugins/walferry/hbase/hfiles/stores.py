"""Numbers the stores of the peer cluster's tables. A store is a region's share of one family, with files and so runs of its own.

Kernels know stores by numbers: all families of a table's first region, all families of its second region, and so on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from walferry.base.kernels.compiled import inlined
from walferry.base.kernels.read import compare_bytes, find_name, flat
from walferry.base.kernels.types import Bytes, Ints
from walferry.hbase.hfiles.errors import BadBorders
from walferry.hbase.wal.cells import MAX_FAMILY, MAX_ROW

UNKNOWN = -1


@dataclass(frozen=True)
class TargetTable:
    """A table of the peer cluster: its families, and its regions' first rows in order. The first region's row is empty."""

    families: tuple[bytes, ...]
    starts: tuple[bytes, ...]


@dataclass(frozen=True)
class Store:
    """A store. `region_start` is the region's first row, which identifies the region within its table."""

    table: bytes
    region_start: bytes
    family: bytes


Names = tuple[Ints, Bytes]
"""The start of each name and the end of the last, and the names one after the other."""


class Stores:
    """All stores of some tables, and arrays that describe the tables to kernels."""

    def __init__(self, tables: Mapping[bytes, TargetTable]) -> None:
        for name, table in tables.items():
            check_target(name, table)
        self.tables = {name: number for number, name in enumerate(tables)}
        self.list = [
            Store(name, start, family) for name, table in tables.items() for start in table.starts for family in table.families
        ]
        targets = list(tables.values())
        self.first_region, self.first_family, self.first_store = (
            np.cumsum([0, *counts], dtype=np.int64)
            for counts in (
                [len(table.starts) for table in targets],
                [len(table.families) for table in targets],
                [len(table.starts) * len(table.families) for table in targets],
            )
        )
        self.starts = flat([start for table in targets for start in table.starts])
        self.families = flat([family for table in targets for family in table.families])

    def number(self, table: bytes) -> int:
        """Return the number of a table, or UNKNOWN."""
        return self.tables.get(table, UNKNOWN)

    @property
    def arrays(self) -> tuple[Ints, Ints, Ints, Ints, Bytes, Ints, Bytes]:
        """First region, family and store of each table, first rows and families. Kernels find stores with them."""
        return (self.first_region, self.first_family, self.first_store, *self.starts, *self.families)


@inlined
def find_family(buf: Bytes, family: int, length: int, table: int, first_family: Ints, names: Ints, data: Bytes) -> int:
    """Return the index of the family `buf[family:family + length]` in its table, or UNKNOWN."""
    found = find_name(buf, family, length, first_family[table], first_family[table + 1], names, data)
    return int(found - first_family[table]) if found >= 0 else UNKNOWN


@inlined
def find_region(buf: Bytes, row: int, length: int, table: int, first_region: Ints, starts: Ints, data: Bytes) -> int:
    """Return the index of the region in its table that contains the row `buf[row:row + length]`."""
    low, high = first_region[table], first_region[table + 1]
    while high - low > 1:
        middle = (low + high) // 2
        if compare_bytes(buf, row, length, data, starts[middle], starts[middle + 1] - starts[middle]) < 0:
            high = middle
        else:
            low = middle
    return int(low - first_region[table])


def check_target(name: bytes, table: TargetTable) -> None:
    """Raise BadBorders unless the table can have these families and regions."""
    families, starts = table.families, table.starts
    if not families or len(set(families)) != len(families) or not all(0 < len(family) <= MAX_FAMILY for family in families):
        raise BadBorders(name, f"its families are {list(families)}")
    if not starts or starts[0] != b"" or any(len(start) > MAX_ROW for start in starts):
        raise BadBorders(name, "its first region does not begin with the empty row, or a row is too long")
    for before, start in pairwise(starts):
        if before >= start:
            raise BadBorders(name, f"a region that begins with row {before!r} stands before the one that begins with {start!r}")
