"""A scan's rows when answers come in part, and when scanners are lost, without a server."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from tests.unit.hbase.wal.encoder import PUT, Cell
from walferry.base.protos import hbase_pb2 as pb
from walferry.hbase.names import ServerName
from walferry.hbase.rpc.client import ScanAnswer
from walferry.hbase.rpc.errors import AccessDenied, ConnectionFailed, ProtocolError, RemoteError
from walferry.hbase.tables import scan
from walferry.hbase.tables.errors import RegionUnavailable, RowTooLarge, ScanGivenUp
from walferry.hbase.tables.regions import META, Region, first_meta_row, meta_row_after
from walferry.hbase.tables.scan import Patience, ScanSpec, index_answer, scan_rows

SERVER = ServerName("h", 1, 1)


def cell(row: bytes, qualifier: bytes = b"q") -> bytes:
    return Cell(row, b"f", qualifier, 1, PUT, b"v").encode()


@dataclass
class Served:
    """A region of rows with three cells each, of which each answer gives two cells. Calls of the numbers in `lost` fail.

    With `ends_late`, only an answer without cells tells the end.
    """

    rows: list[bytes]
    lost: dict[int, Exception] = field(default_factory=dict)
    ends_late: bool = False
    calls: int = 0
    table: str = "t"
    _left: list[tuple[bytes, bytes]] = field(default_factory=list)
    looked_up: list[bool] = field(default_factory=list)

    def locate(self, row: bytes, *, known: bool = False) -> Region:
        self.looked_up.append(not known)
        return Region(b"t,,1.x.", b"", b"", SERVER)

    def connection(self, region: Region) -> Served:
        return self

    def call_for_cells(
        self, method: str, request: pb.ScanRequest, *_: object, **__: object
    ) -> tuple[pb.ScanResponse, memoryview]:
        self.calls += 1
        if self.calls in self.lost:
            raise self.lost[self.calls]
        if request.HasField("scan"):
            start, stop = request.scan.start_row, request.scan.stop_row
            # HBase takes a scan whose ends are equal for a Get (ProtobufUtil.toScan).
            wanted = [row for row in self.rows if row >= start and (not stop or row < stop or row == start == stop)]
            self._left = [(row, qualifier) for row in wanted for qualifier in (b"1", b"2", b"3")]
        now, self._left = self._left[:2], self._left[2:]
        partial = bool(self._left) and bool(now)
        more = bool(self._left) or (self.ends_late and bool(now))
        response = pb.ScanResponse(scanner_id=1, more_results=True, more_results_in_region=more)
        for i, (row, _) in enumerate(now):
            if i == 0 or row != now[0][0]:
                response.cells_per_result.append(0)
                response.partial_flag_per_result.append(False)
            response.cells_per_result[-1] += 1
        if partial:
            response.partial_flag_per_result[-1] = True
        return response, memoryview(b"".join(cell(row, qualifier) for row, qualifier in now))

    def call(self, *_: object, **__: object) -> None:
        self._left = []


def scanned(served: Served, spec: ScanSpec | None = None) -> list[tuple[bytes, int]]:
    patience = Patience(10, sleep=lambda seconds: None)
    blocks = scan_rows(served, spec or ScanSpec(), patience)  # type: ignore[arg-type]
    return [(block.key(i), int(block.rows[i + 1] - block.rows[i])) for block in blocks for i in range(len(block))]


ROWS = [f"r{i}".encode() for i in range(5)]
WHOLE = [(row, 3) for row in ROWS]


def test_rows_in_parts_are_put_together():
    assert scanned(Served(ROWS)) == WHOLE


@pytest.mark.parametrize("lost", [
    ConnectionFailed("h:1", "gone"), RegionUnavailable("moving"),
    RemoteError("h:1", "org.apache.hadoop.hbase.UnknownScannerException", "gone", do_not_retry=True),
    RemoteError("h:1", "org.apache.hadoop.hbase.NotServingRegionException", "moved"),
])  # fmt: skip
@pytest.mark.parametrize("call", range(1, 9))
def test_a_scanner_that_is_lost_at_any_call_costs_and_repeats_no_row(call, lost):
    served = Served(ROWS, {call: lost})
    assert scanned(served) == WHOLE
    assert served.looked_up == [False, True]  # the region that was found last may not be where it was


def test_what_another_try_cannot_mend_ends_the_scan():
    with pytest.raises(AccessDenied):
        scanned(Served(ROWS, {3: AccessDenied("h:1", "AccessDeniedException", "no", do_not_retry=True)}))
    with pytest.raises(RemoteError, match="IllegalState"):
        scanned(Served(ROWS, {1: RemoteError("h:1", "java.lang.IllegalStateException", "no", do_not_retry=True)}))


def test_a_scan_without_progress_ends_and_says_why():
    ticks = iter(range(10_000))
    served = Served(ROWS, dict.fromkeys(range(3, 10_000), ConnectionFailed("h:1", "refused")))
    patience = Patience(60, clock=lambda: next(ticks), sleep=lambda seconds: None)
    with pytest.raises(ScanGivenUp, match=r"table t .* 60 s: .*refused"):
        list(scan_rows(served, ScanSpec(), patience))  # type: ignore[arg-type]


@pytest.mark.parametrize("call", range(1, 4))
def test_a_scan_ends_before_its_stop_row_even_if_its_scanner_is_lost_after_the_last_row(call):
    """The next scanner would begin at the stop row, and HBase takes that for a Get of this row."""
    served = Served([b"r1", b"r1\0", b"r2"], {call: ConnectionFailed("h:1", "gone")}, ends_late=True)
    assert scanned(served, ScanSpec(stop_row=b"r1\0")) == [(b"r1", 3)]


@pytest.mark.parametrize("start", [b"r1", b"r2"])
def test_a_scan_that_begins_at_its_stop_row_or_after_it_has_no_rows(start):
    assert scanned(Served(ROWS), ScanSpec(start_row=start, stop_row=b"r1")) == []


def test_rows_of_hbase_meta_are_not_in_the_order_of_their_bytes():
    """A table's last possible row there begins with its name and a blank, which in bytes stands before the comma."""

    @dataclass
    class Meta(Served):
        def call_for_cells(
            self, method: str, request: pb.ScanRequest, *_: object, **__: object
        ) -> tuple[pb.ScanResponse, memoryview]:
            if request.HasField("scan"):
                request.scan.stop_row = b""  # the server compares in its own way
            return super().call_for_cells(method, request)

    row = b"t,,1700000000000.0123456789abcdef0123456789abcdef."
    assert scanned(Meta([row], table=META), ScanSpec(first_meta_row("t"), meta_row_after("t"))) == [(row, 3)]


def test_an_answer_that_tells_of_more_cells_than_it_has_bytes_for_takes_no_memory_for_them():
    with pytest.raises(ProtocolError, match="a block of 100 bytes with"):
        index_answer(ScanAnswer(memoryview(b"x" * 100), 1 << 45, partial=False, more=True), "t")


def test_a_row_that_never_ends_is_given_up(monkeypatch):
    monkeypatch.setattr(scan, "MAX_ROW_BYTES", 10_000)

    @dataclass
    class Endless(Served):
        def call_for_cells(
            self, method: str, request: pb.ScanRequest, *_: object, **__: object
        ) -> tuple[pb.ScanResponse, memoryview]:
            self.calls += 1
            assert self.calls < 1000, "it goes on for ever"
            response = pb.ScanResponse(scanner_id=1, more_results_in_region=True)
            response.cells_per_result.append(1)
            response.partial_flag_per_result.append(True)
            return response, memoryview(cell(b"row", b"%d" % self.calls))

    with pytest.raises(RowTooLarge, match="row b'row' of table t has more than"):
        scanned(Endless([]))
