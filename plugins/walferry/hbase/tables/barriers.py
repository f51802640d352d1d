"""Reads the barriers of regions in hbase:meta, which show serial replication when a region was opened anew.

    row of a region                <table>,<start key>,<region id>.<encoded name>.
    rep_barrier:seqnumDuringOpen   int64                            a barrier; each opening of the region adds a version
    rep_barrier:parent             region name {0xFF 0x00 region name}    the regions that were split or merged into this one
    info:state                     e.g. OPENING

In the names of parents, HBase writes each byte 0xFF twice. A barrier is the first sequence id of a range, which ends before the
next barrier. Within a range the region has not moved. The last barrier of a region that was split or merged is its end. Barriers
stay in hbase:meta after their region is gone, until all serial peers have shipped its edits.

Source: HBase's MetaTableAccessor, RegionStateStore, ReplicationBarrierCleaner (branch-2.6).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

from walferry.base.protos import hbase_pb2 as pb
from walferry.hbase.rpc.errors import RpcError
from walferry.hbase.tables.errors import RegionUnavailable, ScanGivenUp
from walferry.hbase.tables.regions import INFO, META, encoded_name_in, first_meta_row, is_encoded_name, last_meta_row_of
from walferry.hbase.tables.scan import ALL_VERSIONS, Patience, another_try_helps
from walferry.hbase.tables.tables import MetaRows, Tables, meta_rows_back
from walferry.hbase.wal.cells import split_cells

BARRIER = (b"rep_barrier", b"seqnumDuringOpen")
PARENT = (b"rep_barrier", b"parent")
STATE = (INFO, b"state")
OPENING = b"OPENING"
_COLUMNS = (pb.Column(family=b"rep_barrier"), pb.Column(family=INFO, qualifier=[b"state"]))
_ESCAPE, _SEPARATOR = 0xFF, 0x00

T = TypeVar("T")


@dataclass(frozen=True)
class Barriers:
    """A region's barriers, ascending, and the full names of the regions that it was made of.

    While the region is `opening`, entries of its next range may already be in a WAL, and the range's barrier not in hbase:meta.
    """

    barriers: tuple[int, ...] = ()
    parents: tuple[bytes, ...] = ()
    opening: bool = False

    @property
    def end(self) -> int | None:
        """The last barrier; None without any."""
        return self.barriers[-1] if self.barriers else None


UNKNOWN = Barriers()  # of a region that hbase:meta does not have: it is gone for ever


def find_barriers(
    tables: Tables, table: str, row: bytes, encoded_name: bytes, stopped: Callable[[], bool] = lambda: False
) -> Barriers | None:
    """Return the barriers of the region with this encoded name, which contains or contained `row`.

    Returns UNKNOWN if hbase:meta does not have the region, and None if the look-up was `stopped`, which may wait for hbase:meta.
    Raises ScanGivenUp, RpcError.
    """

    def find() -> Barriers | None:
        with closing(_rows_back(tables, last_meta_row_of(table, row), first_meta_row(table))) as rows:
            for name, cells in rows:
                if encoded_name_in(name) == encoded_name:
                    return read_barriers(cells)
                if stopped():
                    return None
        return UNKNOWN

    return _retried(tables, row, find, stopped)


def barriers_of(tables: Tables, region: bytes, stopped: Callable[[], bool] = lambda: False) -> Barriers | None:
    """Return the barriers of the region with this full name, or UNKNOWN, or None as `find_barriers`. Raises as that."""

    def find() -> Barriers:
        with closing(_rows_back(tables, region, region[:-1])) as rows:
            return next((read_barriers(cells) for name, cells in islice(rows, 1) if name == region), UNKNOWN)

    return _retried(tables, region, find, stopped)


def read_barriers(cells: bytes) -> Barriers:
    """Read a row of hbase:meta. Raises RegionUnavailable if a barrier is not a number, or a parent's name is not a region's."""
    barriers, parents, state = set[int](), b"", b""
    for cell in split_cells(cells):
        if cell.column == BARRIER:
            if len(cell.value) != 8:
                raise RegionUnavailable(f"hbase:meta has a barrier of {len(cell.value)} bytes, which is not a number")
            barriers.add(int.from_bytes(cell.value, "big", signed=True))
        elif cell.column == PARENT:
            parents = parents or cell.value  # the newest version comes first
        elif cell.column == STATE:
            state = state or cell.value
    names = tuple(parse_parents(parents))
    for name in names:
        if not is_encoded_name(encoded_name_in(name)):
            raise RegionUnavailable(f"hbase:meta says that a region was made of {name[:200]!r}, which is not a region's name")
    return Barriers(tuple(sorted(barriers)), names, state == OPENING)


def parse_parents(value: bytes) -> list[bytes]:
    """Return the region names in a value of `rep_barrier:parent` (MetaTableAccessor.parseParentsBytes)."""
    names, name, at = list[bytes](), bytearray(), 0
    while at < len(value):
        if value[at] == _ESCAPE and at + 1 < len(value):
            at += 1
            if value[at] == _SEPARATOR:
                names.append(bytes(name))
                name.clear()
                at += 1
                continue
        name.append(value[at])
        at += 1
    return [*names, bytes(name)] if name else names


def _rows_back(tables: Tables, start: bytes, stop: bytes) -> MetaRows:
    scan = pb.Scan(start_row=start, stop_row=stop, reversed=True, max_versions=ALL_VERSIONS, column=_COLUMNS)
    return meta_rows_back(tables, scan)


def _retried(tables: Tables, row: bytes, call: Callable[[], T], stopped: Callable[[], bool]) -> T | None:
    """Call until hbase:meta answers; None once `stopped`. Raises ScanGivenUp, RpcError."""
    patience = Patience(tables.patience_seconds)
    while not stopped():
        try:
            return call()
        except (RpcError, RegionUnavailable) as error:
            if not another_try_helps(error):
                raise
            if not patience.wait():
                raise ScanGivenUp(META, row, patience.seconds, str(error)) from error
    return None
