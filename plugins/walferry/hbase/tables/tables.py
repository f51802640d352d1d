"""Lists the regions of a cluster's tables, and scans the tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice

from kazoo.client import KazooClient

from walferry.base.closing import Closing
from walferry.base.protos import hbase_pb2 as pb
from walferry.base.security.login import UNSECURED, Login
from walferry.base.zk.client import hosts, read
from walferry.hbase.layout import ZNodes
from walferry.hbase.names import ServerName
from walferry.hbase.rpc import client
from walferry.hbase.rpc.client import RegionScanner
from walferry.hbase.rpc.connection import CALL_TIMEOUT_SECONDS, Connection
from walferry.hbase.tables.errors import MissingTable, RegionUnavailable, RowTooLarge, TooManyRegions
from walferry.hbase.tables.regions import (
    ENABLED,
    INFO,
    META,
    META_REGION,
    Region,
    TableInMeta,
    first_meta_row,
    last_meta_row_of,
    meta_row_after,
    open_region,
    read_meta_row,
    region_of,
    regions_in,
    table_of,
    table_state,
)
from walferry.hbase.tables.rows import Rows
from walferry.hbase.tables.scan import PATIENCE_SECONDS, Patience, RegionPlace, ScanSpec, index_answer, scan_rows
from walferry.hbase.values import decode_message, server_in

MAX_REGIONS = 500_000  # more than the largest known clusters have in all
MAX_REGION_BYTES = 128 << 20  # the size of the regions' names and keys
MAX_META_ROW_BYTES = 64 << 20
_NEAREST_REGIONS = 4
_MORE_ROWS = 500


class Tables(Closing):
    """The tables of the cluster of a ZooKeeper client. A context manager, for one thread at a time."""

    def __init__(
        self, zk: KazooClient, nodes: ZNodes, *, login: Login = UNSECURED, patience_seconds: float = PATIENCE_SECONDS,
        call_seconds: float = CALL_TIMEOUT_SECONDS,
    ) -> None:  # fmt: skip
        self.zk = zk
        self.nodes = nodes
        self.login = login
        self.patience_seconds = patience_seconds
        self._call_seconds = call_seconds
        self._connections: dict[ServerName, Connection] = {}
        self._places: dict[str, RegionPlace] = {}

    def close(self) -> None:
        """Close all connections."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def interrupt(self) -> None:
        """Make the call under way fail now, from another thread and at the end: the next call to the same server fails too."""
        for connection in list(self._connections.values()):
            connection.interrupt()

    def regions(self, table: str, seconds: Callable[[], float] | None = None) -> list[Region]:
        """List a table's regions in the order of their rows.

        `seconds` returns the time limit of the next call. Raises MissingTable, TooManyRegions, ScanGivenUp, RpcError, and the
        errors of `seconds`.
        """
        spec = ScanSpec(first_meta_row(table), meta_row_after(table), families=(INFO,))
        found = _Counted(f"table {table}")
        limit = None if seconds is None else lambda: min(self._call_seconds, seconds())
        for region in regions_in(scan_rows(self.place(META), spec, Patience(self.patience_seconds), limit)):
            found.add(table, region)
        if not found.regions:
            raise MissingTable(table, hosts(self.zk))
        return sorted(found.regions[table], key=lambda region: region.start)

    def all_tables(self, wanted: Callable[[str], bool]) -> dict[str, TableInMeta]:
        """Read all tables whose names are wanted in one scan of hbase:meta.

        Raises TooManyRegions, RegionUnavailable, ScanGivenUp, RpcError.
        """
        found, states = _Counted("all tables"), dict[str, str]()
        wanted = lru_cache(maxsize=1)(wanted)  # the rows of a table follow each other
        for block in self.scan(META, ScanSpec()):
            for i in range(len(block)):
                name = block.key(i)
                table = table_of(name)
                if not wanted(table):
                    continue
                row = read_meta_row(name, block.row(i))
                if row is not None and row.may_be_open:
                    found.add(table, region_of(row))
                elif row is None and (state := table_state(name, block.row(i))) is not None:
                    found.count_row(len(name))
                    states[table] = state
        return {
            table: TableInMeta(tuple(sorted(regions, key=lambda region: region.start)), states.get(table, ENABLED))
            for table, regions in found.regions.items()
        }

    def scan(self, table: str, spec: ScanSpec) -> Iterator[Rows]:
        """Yield the rows of a table ("table" or "namespace:table") in blocks. See `scan_rows`."""
        return scan_rows(self.place(table), spec, Patience(self.patience_seconds))

    def place(self, table: str) -> RegionPlace:
        """Return the locator of the table's regions, which is made only once."""
        if table not in self._places:
            self._places[table] = _MetaPlace(self) if table == META else _TablePlace(self, table)
        return self._places[table]

    def connection(self, server: ServerName) -> Connection:
        """Return the connection to a server for scans, which is made only once."""
        if server not in self._connections:
            self._connections[server] = client.connect(server, login=self.login, timeout=self._call_seconds)
        return self._connections[server]


@dataclass
class _Counted:
    """Regions by table, no more than fit in memory. Errors name their owner as `what`."""

    what: str
    regions: dict[str, list[Region]] = field(default_factory=lambda: defaultdict(list))
    count: int = 0
    size: int = 0

    def add(self, table: str, region: Region) -> None:
        """Add a region. Raises TooManyRegions."""
        self.regions[table].append(region)
        self.count_row(len(region.name) + len(region.start) + len(region.end))

    def count_row(self, size: int) -> None:
        """Count a row of hbase:meta, of which `size` bytes are kept. Raises TooManyRegions."""
        self.count += 1
        self.size += size
        if self.count > MAX_REGIONS or self.size > MAX_REGION_BYTES:
            raise TooManyRegions(self.what, self.count, self.size)


@dataclass(frozen=True)
class _MetaPlace:
    """Locates the only region of hbase:meta. ZooKeeper names its server."""

    tables: Tables
    table: str = META

    def locate(self, row: bytes, *, known: bool = False) -> Region:
        znode = self.tables.nodes.meta_server
        found = read(self.tables.zk, znode)
        if found is None:
            raise RegionUnavailable(f"{znode} is not there on {hosts(self.tables.zk)}: no server serves hbase:meta")
        return Region(META_REGION, b"", b"", server_in(decode_message(pb.MetaRegionServer, found.value, znode).server, znode))

    def connection(self, region: Region) -> Connection:
        assert region.server is not None
        return self.tables.connection(region.server)


@dataclass
class _TablePlace:
    """Locates a table's regions in hbase:meta."""

    tables: Tables
    table: str
    _last: Region | None = None  # the region that was found last

    def locate(self, row: bytes, *, known: bool = False) -> Region:
        if known and self._last is not None and self._last.has(row):
            return self._last
        with closing(self._regions_from(row)) as regions:
            for region in islice(regions, _NEAREST_REGIONS):
                if region.has(row):
                    self._last = region
                    return region
        self.tables.regions(self.table)  # raises MissingTable if the table does not exist
        raise RegionUnavailable(f"hbase:meta has no open region of table {self.table} for row {row[:100]!r}")

    def connection(self, region: Region) -> Connection:
        if region.server is None:
            raise RegionUnavailable(f"no server has region {region.encoded_name} of table {self.table}")
        return self.tables.connection(region.server)

    def _regions_from(self, row: bytes) -> Generator[Region]:
        """Yield the open regions that begin at or before the row, from the last to the first.

        It may skip any number of rows of hbase:meta, e.g. the rows of splits' parents.
        """
        scan = pb.Scan(start_row=last_meta_row_of(self.table, row), stop_row=first_meta_row(self.table), reversed=True)
        scan.column.add(family=INFO)
        with closing(meta_rows_back(self.tables, scan)) as rows:
            yield from (region for row in rows if (region := open_region(*row)) is not None)


MetaRows = Generator[tuple[bytes, bytes]]
"""Rows of hbase:meta: the name of each, and its cells."""


def meta_rows_back(tables: Tables, scan: pb.Scan) -> MetaRows:
    """Yield the rows of a reversed scan of hbase:meta, whole. The first call reads a few, and the others many.

    Raises RegionUnavailable, RowTooLarge, RpcError.
    """
    meta = _MetaPlace(tables)
    connection = meta.connection(meta.locate(b""))
    with closing(RegionScanner(connection, META_REGION, scan, rows_a_call=_NEAREST_REGIONS)) as scanner:
        kept, more = list[tuple[bytes, bytes]](), True  # the first part of a row whose rest comes with the next answer
        while more:
            answer = scanner.next()
            scanner.rows_a_call = _MORE_ROWS
            block = index_answer(answer, META)
            rows = [(block.key(i), block.row(i)) for i in range(len(block))]
            if kept and rows and rows[0][0] == kept[0][0]:
                rows[0] = kept[0][0], kept[0][1] + rows[0][1]
            else:
                rows = kept + rows
            more = answer.more
            heartbeat = more and not len(block)  # it may come between the parts of a row
            kept = [rows.pop()] if rows and (answer.partial or heartbeat) else []
            if kept and len(kept[0][1]) > MAX_META_ROW_BYTES:
                raise RowTooLarge(META, kept[0][0], MAX_META_ROW_BYTES)
            yield from rows
        yield from kept
