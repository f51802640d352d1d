"""Reads the rows of hbase:meta that describe regions and name their servers.

    row of a region     <table>,<start key>,<region id>.<encoded name>.     this is also the region's name
    info:regioninfo     "PBUF" RegionInfo
    info:server         host:port           info:serverstartcode    int64
    row of a table      <table>
    table:state         TableState

A split's parent stays in hbase:meta, marked as offline, until its daughters no longer need its files.

Source: HBase's MetaTableAccessor, CatalogFamilyFormat, ClientMetaTableAccessor, RegionInfo (branch-2.6).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from google.protobuf.message import DecodeError

from walferry.base.protos import hbase_pb2 as pb
from walferry.base.protos.parsing import parse_message
from walferry.base.texts import visible
from walferry.hbase.names import ServerName
from walferry.hbase.tables.errors import RegionUnavailable
from walferry.hbase.tables.rows import Rows
from walferry.hbase.values import PBUF
from walferry.hbase.wal.cells import split_cells

META = "hbase:meta"
META_REGION = b"hbase:meta,,1"
INFO = b"info"
ENABLED = "ENABLED"
MAX_ENCODED_CHARS = 100
MAX_ADDRESS_BYTES = 300  # the limit of a server's address; a host's name has at most 253
_TABLE_STATE = (b"table", b"state")
_LAST_ID = b"99999999999999"  # sorts after all region ids


@dataclass(frozen=True)
class Region:
    """An open region: its full name, its rows from `start` to before `end` (empty: no limit), and its server, if it has one."""

    name: bytes
    start: bytes
    end: bytes
    server: ServerName | None

    @property
    def encoded_name(self) -> str:
        """The name of the region's folder, safe to show. HBase's own names consist of hexadecimal digits."""
        return visible(encoded_name_in(self.name).decode("ascii", "replace"), MAX_ENCODED_CHARS)

    def has(self, row: bytes) -> bool:
        """Return whether the row lies within the region."""
        return self.start <= row and (not self.end or row < self.end)


@dataclass(frozen=True)
class TableInMeta:
    """A table's rows in hbase:meta: its open regions in the order of their rows, and its state.

    The state is ENABLED if hbase:meta contains none, as on HBase 1.
    """

    regions: tuple[Region, ...]
    state: str = ENABLED


def encoded_name_in(name: bytes) -> bytes:
    """Return the encoded name in a region's full name."""
    return name.rstrip(b".").rpartition(b".")[2]


def is_encoded_name(name: bytes) -> bool:
    """Return whether a region may have this encoded name: HBase makes them with MD5, but for hbase:meta's."""
    return re.fullmatch(rb"[0-9a-f]{32}", name) is not None


def first_meta_row(table: str) -> bytes:
    """Return the row of hbase:meta before a table's first region."""
    return table.encode() + b",,"


def meta_row_after(table: str) -> bytes:
    """Return the row after a table's last region, in the order of hbase:meta."""
    return table.encode() + b" ,,"


def last_meta_row_of(table: str, row: bytes) -> bytes:
    """Return the last row of hbase:meta at which the region that contains `row` can be."""
    return b",".join((table.encode(), row, _LAST_ID))


@dataclass(frozen=True)
class MetaRow:
    """A region's row in hbase:meta: its full name, its description, and its server if it has one.

    `opened_ms` is the timestamp of the cell that names the server, or 0 without a server.
    """

    name: bytes
    info: pb.RegionInfo
    server: ServerName | None
    opened_ms: int = 0

    @property
    def may_be_open(self) -> bool:
        """Whether the region can serve rows: it is neither the parent of a split nor a replica."""
        return not (self.info.split or self.info.offline or self.info.replica_id)


def regions_in(blocks: Iterable[Rows]) -> Iterator[Region]:
    """Yield the regions in rows of hbase:meta, without parents of splits and without replicas."""
    for block in blocks:
        for i in range(len(block)):
            if (region := open_region(block.key(i), block.row(i))) is not None:
                yield region


def open_region(name: bytes, cells: bytes) -> Region | None:
    """Read a row of hbase:meta. Returns None if it is not of a region that may be open. Raises as `read_meta_row`."""
    row = read_meta_row(name, cells)
    return region_of(row) if row is not None and row.may_be_open else None


def region_of(row: MetaRow) -> Region:
    """Return the region that a row of hbase:meta describes."""
    return Region(row.name, row.info.start_key, row.info.end_key, row.server)


def table_of(meta_row: bytes) -> str:
    """Return the table that a row of hbase:meta belongs to. A table's name cannot contain a comma."""
    return meta_row.partition(b",")[0].decode("utf-8", "replace")


def table_state(name: bytes, cells: bytes) -> str | None:
    """Return the table's state in a row of hbase:meta, or None without one. Raises RegionUnavailable if it is unreadable."""
    value = next((cell.value for cell in split_cells(cells) if cell.column == _TABLE_STATE), None)
    if value is None:
        return None
    try:
        return pb.Table.State.Name(parse_message(pb.Table, value).state)
    except DecodeError as error:
        raise _unreadable(name, error) from error


def read_meta_row(name: bytes, cells: bytes) -> MetaRow | None:
    """Read a row of hbase:meta. Returns None if only its past is in it. Raises RegionUnavailable if it is unreadable."""
    found_cells = {cell.column[1]: cell for cell in split_cells(cells)}
    info = {qualifier: cell.value for qualifier, cell in found_cells.items()}
    value = info.get(b"regioninfo", b"")
    if not value.startswith(PBUF):
        return None
    try:
        found = parse_message(pb.RegionInfo, value[len(PBUF) :])
    except DecodeError as error:
        raise _unreadable(name, error) from error
    address, start_code = info.get(b"server", b""), info.get(b"serverstartcode", b"")
    server = _server_at(address, start_code) if len(address) <= MAX_ADDRESS_BYTES else None
    return MetaRow(name, found, server, found_cells[b"server"].timestamp if b"server" in info else 0)


def _unreadable(name: bytes, error: DecodeError) -> RegionUnavailable:
    return RegionUnavailable(f"hbase:meta has a row {name[:200]!r} that cannot be read: {error}")


@lru_cache(maxsize=1024)  # each server has many regions
def _server_at(address: bytes, start_code: bytes) -> ServerName | None:
    host, colon, port = address.rpartition(b":")
    if not (colon and port.isdigit() and len(start_code) == 8):
        return None
    try:
        return ServerName.in_message(host.decode("utf-8", "replace"), int(port), int.from_bytes(start_code))
    except ValueError:
        return None
