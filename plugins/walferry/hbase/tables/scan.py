"""Scans a table region by region, and yields each row once and whole.

A region's scanner ends early if the region moves, splits or merges, its server dies, or the scanner's lease expires. The scan
then looks up the region of the row after the last row that it has yielded, and goes on there. So it reads a row that came only in
part again from its start, and each yielded row is one state of the row.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Protocol

from walferry.base.protos import hbase_pb2 as pb
from walferry.hbase.rpc.client import RegionScanner, ScanAnswer
from walferry.hbase.rpc.connection import Connection
from walferry.hbase.rpc.errors import ProtocolError, RemoteError, RpcError
from walferry.hbase.tables.errors import RegionUnavailable, RowTooLarge, ScanGivenUp
from walferry.hbase.tables.regions import META, Region
from walferry.hbase.tables.rows import BrokenCells, Rows, index_rows

PATIENCE_SECONDS = 180.0
ALL_VERSIONS = 0x7FFFFFFF
MAX_ROW_BYTES = 1 << 30
_FIRST_PAUSE_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 5.0
# The server forbids a retry of the call, but a new scanner can go on.
_SCANNER_IS_GONE = frozenset(
    {"UnknownScannerException", "OutOfOrderScannerNextException", "ScannerResetException", "LeaseException"}
)


@dataclass(frozen=True)
class ScanSpec:
    """The rows to read: from `start_row` to before `stop_row` (empty: no limit), in some families (empty: all).

    `time_range` is from a timestamp to before another one, in milliseconds. A `raw` scan also returns delete markers and the
    cells that they hide.
    """

    start_row: bytes = b""
    stop_row: bytes = b""
    families: tuple[bytes, ...] = ()
    time_range: tuple[int, int] | None = None
    max_versions: int = 1
    raw: bool = False
    answer_bytes: int = 2 * 1024 * 1024

    def message(self, start_row: bytes) -> pb.Scan:
        """Return the message that opens a scanner at `start_row`."""
        scan = pb.Scan(
            start_row=start_row, stop_row=self.stop_row, max_versions=self.max_versions, cache_blocks=False,
            max_result_size=self.answer_bytes, column=[pb.Column(family=family) for family in self.families],
        )  # fmt: skip
        if self.time_range is not None:
            scan.time_range.first, scan.time_range.end = self.time_range
        if self.raw:
            scan.attribute.add(name="_raw_", value=b"\xff")
        return scan


class RegionPlace(Protocol):
    """Locates a table's regions."""

    @property
    def table(self) -> str:
        """The table's name."""

    def locate(self, row: bytes, *, known: bool = False) -> Region:
        """Return the open region of the row. Raises RegionUnavailable, MissingTable or an RpcError.

        With `known`, it may be the last region found, which may have moved since.
        """

    def connection(self, region: Region) -> Connection:
        """Return a connection to the region's server. Raises RegionUnavailable."""


class Patience:
    """Waits longer after each failure in a row, and gives up when there has been no progress for `seconds`."""

    def __init__(
        self, seconds: float, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self.seconds = seconds
        self._clock = clock
        self._sleep = sleep
        self.progress()

    def progress(self) -> None:
        """Note that something went well."""
        self._since, self._pause = self._clock(), _FIRST_PAUSE_SECONDS

    def wait(self) -> bool:
        """Wait before another try. Returns False if it is time to give up."""
        if self._clock() - self._since + self._pause > self.seconds:
            return False
        self._sleep(self._pause)
        self._pause = min(2 * self._pause, _LONGEST_PAUSE_SECONDS)
        return True


def scan_rows(
    place: RegionPlace, spec: ScanSpec, patience: Patience, seconds: Callable[[], float] | None = None
) -> Iterator[Rows]:
    """Yield the rows that `spec` asks for, in order, in blocks. A single row must fit in memory.

    `seconds` returns the time limit of the next call; an error that it raises ends the scan. Heartbeats reset the patience, but
    do not extend this limit.

    Raises ScanGivenUp when the patience is over, RowTooLarge, MissingTable, or an RpcError that another try cannot solve.
    """
    row, known = spec.start_row, True
    while not _is_over(place.table, row, spec.stop_row):
        try:
            region = place.locate(row, known=known)
            known = True
            with closing(RegionScanner(place.connection(region), region.name, spec.message(row))) as scanner:
                for block in _blocks(scanner, place.table, patience, seconds):
                    row = block.key(len(block) - 1) + b"\0"  # the smallest key after the last one
                    yield block
        except (RpcError, RegionUnavailable) as error:
            if not another_try_helps(error):
                raise
            if not patience.wait():
                raise ScanGivenUp(place.table, row, patience.seconds, str(error)) from error
            known = False
            continue
        if not region.end:
            return
        row = region.end


def _is_over(table: str, row: bytes, stop_row: bytes) -> bool:
    """Return whether no row is left from `row` on. HBase takes a scan that begins at its stop row for a Get of this row."""
    # hbase:meta's rows are not in byte order, and a scan of it never begins at its stop row.
    return bool(stop_row) and table != META and row >= stop_row


def _blocks(scanner: RegionScanner, table: str, patience: Patience, seconds: Callable[[], float] | None) -> Iterator[Rows]:
    """Yield a region's whole rows. A row that an answer contains only in part is kept until its rest has come."""
    kept: list[ScanAnswer] = []  # parts of one row, whose key is `key`
    key, more = b"", True
    while more:
        answer = scanner.next(seconds() if seconds else None)
        patience.progress()
        more = answer.more
        if not answer.count and more:
            continue  # a heartbeat
        rows = index_answer(answer, table)
        if answer.partial and len(rows) == 1 and key in (b"", rows.key(0)):
            key = rows.key(0)
            kept.append(answer)
            if sum(len(part.cells) for part in kept) > MAX_ROW_BYTES:
                raise RowTooLarge(table, key, MAX_ROW_BYTES)
            continue
        if kept:
            parts = [*kept, answer]
            cells = memoryview(b"".join(part.cells for part in parts))
            rows = index_answer(replace(answer, cells=cells, count=sum(part.count for part in parts)), table)
        kept, key = [], b""
        if answer.partial:
            last = len(rows) - 1
            key = rows.key(last)
            kept = [replace(answer, cells=memoryview(rows.row(last)), count=int(rows.rows[-1] - rows.rows[-2]))]
            rows = rows.first(last)
        if len(rows):
            yield rows


def index_answer(answer: ScanAnswer, table: str) -> Rows:
    """Find the rows of an answer. Raises ProtocolError if its cells cannot come from HBase."""
    try:
        return index_rows(answer.cells, answer.count)
    except BrokenCells as error:
        raise ProtocolError(f"a server of table {table}", str(error)) from error


def another_try_helps(error: RpcError | RegionUnavailable) -> bool:
    """Return whether a new scanner may succeed where one has failed."""
    if not isinstance(error, RemoteError) or error.class_name.rpartition(".")[2] in _SCANNER_IS_GONE:
        return error.retry_helps
    return error.retry_helps and not error.do_not_retry
