"""Regions, and the rows of hbase:meta that say where they are.

    row of a region     <table>,<start key>,<region id>.<encoded name>.     this is also the region's name
    info:regioninfo     "PBUF" RegionInfo
    info:server         host:port           info:serverstartcode    int64
    row of a table      <table>
    table:state         TableState

A split's parent stays in hbase:meta, marked as offline, until its daughters no longer need its files.

Source: HBase's MetaTableAccessor, CatalogFamilyFormat, ClientMetaTableAccessor, RegionInfo (branch-2.6).
"""

from __future__ import annotations

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
MAX_ADDRESS_BYTES = 300  # of a server: a host's name has at most 253
_TABLE_STATE = (b"table", b"state")
_LAST_ID = b"99999999999999"  # behind all region ids


@dataclass(frozen=True)
class Region:
    """An open region: its full name, its rows from `start` to before `end` (empty: no limit), and its server, if it has one."""

    name: bytes
    start: bytes
    end: bytes
    server: ServerName | None

    @property
    def encoded_name(self) -> str:
        """The name of the region's folder, fit to be shown: HBase's are of hexadecimal digits."""
        return visible(self.name.rstrip(b".").rpartition(b".")[2].decode("ascii", "replace"), MAX_ENCODED_CHARS)

    def has(self, row: bytes) -> bool:
        """Return whether the row lies within the region."""
        return self.start <= row and (not self.end or row < self.end)


@dataclass(frozen=True)
class TableInMeta:
    """What hbase:meta tells of a table: its open regions in the order of their rows, and its state.

    The state is ENABLED if hbase:meta tells none, as on HBase 1.
    """

    regions: tuple[Region, ...]
    state: str = ENABLED


def first_meta_row(table: str) -> bytes:
    """The row before a table's first region."""
    return table.encode() + b",,"


def meta_row_after(table: str) -> bytes:
    """The row after a table's last region, as hbase:meta sorts its rows."""
    return table.encode() + b" ,,"


def last_meta_row_of(table: str, row: bytes) -> bytes:
    """The last place at which the region of a table's row can stand."""
    return b",".join((table.encode(), row, _LAST_ID))


@dataclass(frozen=True)
class MetaRow:
    """What a row of hbase:meta says of a region: its full name, its description, and its server if it has one.

    `opened_ms` is the timestamp of what it says of the server, 0 without one.
    """

    name: bytes
    info: pb.RegionInfo
    server: ServerName | None
    opened_ms: int = 0

    @property
    def may_be_open(self) -> bool:
        """Whether it is a region that serves rows: neither the parent of a split nor a replica."""
        return not (self.info.split or self.info.offline or self.info.replica_id)


def regions_in(blocks: Iterable[Rows]) -> Iterator[Region]:
    """Yield the regions in rows of hbase:meta, without parents of splits and without replicas."""
    for block in blocks:
        for i in range(len(block)):
            row = read_meta_row(block.key(i), block.row(i))
            if row is not None and row.may_be_open:
                yield region_of(row)


def region_of(row: MetaRow) -> Region:
    """The region that a row of hbase:meta tells of."""
    return Region(row.name, row.info.start_key, row.info.end_key, row.server)


def table_of(meta_row: bytes) -> str:
    """The table that a row of hbase:meta tells of. No table has a comma in its name."""
    return meta_row.partition(b",")[0].decode("utf-8", "replace")


def table_state(name: bytes, cells: bytes) -> str | None:
    """The table's state that a row of hbase:meta tells; None if it tells none. Raises RegionUnavailable if it cannot be read."""
    value = next((cell.value for cell in split_cells(cells) if cell.column == _TABLE_STATE), None)
    if value is None:
        return None
    try:
        return pb.Table.State.Name(parse_message(pb.Table, value).state)
    except DecodeError as error:
        raise _unreadable(name, error) from error


def read_meta_row(name: bytes, cells: bytes) -> MetaRow | None:
    """Read a row of hbase:meta; None if it only tells of a region's past. Raises RegionUnavailable if it cannot be read."""
    found_cells = {cell.column[1]: cell for cell in split_cells(cells)}
    info = {qualifier: cell.value for qualifier, cell in found_cells.items()}
    value = info.get(b"regioninfo", b"")
    if not value.startswith(PBUF):
        return None
    try:
        found = parse_message(pb.RegionInfo, value[len(PBUF) :])
    except DecodeError as error:
        raise _unreadable(name, error) from error
    opened_ms = found_cells[b"server"].timestamp if b"server" in info else 0
    return MetaRow(name, found, _server(info), opened_ms)


def _unreadable(name: bytes, error: DecodeError) -> RegionUnavailable:
    return RegionUnavailable(f"hbase:meta has a row {name[:200]!r} that cannot be read: {error}")


def _server(info: dict[bytes, bytes]) -> ServerName | None:
    address, start_code = info.get(b"server", b""), info.get(b"serverstartcode", b"")
    return _server_at(address, start_code) if len(address) <= MAX_ADDRESS_BYTES else None


@lru_cache(maxsize=1024)  # there are many regions to a server
def _server_at(address: bytes, start_code: bytes) -> ServerName | None:
    host, colon, port = address.rpartition(b":")
    if not (colon and port.isdigit() and len(start_code) == 8):
        return None
    try:
        return ServerName.in_message(host.decode("utf-8", "replace"), int(port), int.from_bytes(start_code))
    except ValueError:
        return None
