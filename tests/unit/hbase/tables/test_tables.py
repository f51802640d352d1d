"""Finds a row's region by hbase:meta's data, without a server."""

from __future__ import annotations

import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from tests.unit.hbase.rpc.fake_server import FakeServer, silence
from tests.unit.hbase.wal.encoder import PUT, Cell
from walferry.base.protos import hbase_pb2 as pb
from walferry.base.security.login import Login
from walferry.hbase.layout import ZNodes
from walferry.hbase.names import ServerName
from walferry.hbase.tables import tables as module
from walferry.hbase.tables.errors import RegionUnavailable, ScanGivenUp, TooManyRegions
from walferry.hbase.tables.regions import META_REGION, Region
from walferry.hbase.tables.tables import Tables
from walferry.hbase.values import PBUF

SERVER = ServerName("h", 1, 1)


def meta_row(start: bytes, end: bytes, region_id: int, *, split: bool = False) -> tuple[bytes, Cell]:
    info = pb.RegionInfo(
        region_id=region_id, table_name=pb.TableName(namespace=b"default", qualifier=b"t"), start_key=start, end_key=end,
        offline=split, split=split,
    )  # fmt: skip
    name = b"t,%s,%d.%032d." % (start, region_id, region_id)
    return name, Cell(name, b"info", b"regioninfo", 1, PUT, PBUF + info.SerializeToString())


@dataclass
class Meta:
    """hbase:meta, scanned from its end. Connection and server in one."""

    rows: dict[bytes, Cell]
    _left: list[bytes] = field(default_factory=list)

    def call_for_cells(
        self, method: str, request: pb.ScanRequest, *_: object, **__: object
    ) -> tuple[pb.ScanResponse, memoryview]:
        if request.HasField("scan"):
            assert request.scan.reversed
            within = [name for name in self.rows if request.scan.stop_row < name <= request.scan.start_row]
            self._left = sorted(within, reverse=True)
        now, self._left = self._left[: request.number_of_rows], self._left[request.number_of_rows :]
        response = pb.ScanResponse(scanner_id=1, more_results=True, more_results_in_region=bool(self._left))
        response.cells_per_result.extend([1] * len(now))
        return response, memoryview(b"".join(self.rows[name].encode() for name in now))

    def call(self, *_: object, **__: object) -> None:
        self._left = []


@pytest.fixture
def located(monkeypatch: pytest.MonkeyPatch) -> Any:
    def locate(rows: list[tuple[bytes, Cell]], row: bytes) -> Region:
        monkeypatch.setattr(module._MetaPlace, "locate", lambda self, row: Region(META_REGION, b"", b"", SERVER))
        monkeypatch.setattr(module._MetaPlace, "connection", lambda self, region: Meta(dict(rows)))
        monkeypatch.setattr(Tables, "regions", lambda self, table: [])
        return Tables(None, ZNodes("/hbase")).place("t").locate(row)  # type: ignore[arg-type]

    return locate


def test_any_number_of_parents_of_splits_may_stand_before_a_rows_region(located):
    open_one = meta_row(b"c", b"x", 1)
    parents = [meta_row(b"d%02d" % i, b"e", 100 + i, split=True) for i in range(30)]
    assert located([*parents, open_one, meta_row(b"x", b"", 2)], b"m").name == open_one[0]


def test_a_row_without_a_region_is_not_looked_for_in_all_of_the_table(located):
    hole = [meta_row(b"%03d" % i, b"%03d" % (i + 1), i) for i in range(100)]
    with pytest.raises(RegionUnavailable, match="no open region of table t for row b'm'"):
        located(hole, b"m")


def test_a_call_under_way_can_be_ended_from_another_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeServer(silence) as server, ThreadPoolExecutor() as pool:
        at = Region(META_REGION, b"", b"", ServerName(server.host, server.port, 1))
        monkeypatch.setattr(module._MetaPlace, "locate", lambda self, row, known=False: at)
        with Tables(None, ZNodes("/hbase"), login=Login(user="u"), patience_seconds=0.0) as tables:  # type: ignore[arg-type]
            tables.interrupt()
            reading = pool.submit(tables.regions, "t")
            while not server.requests:
                time.sleep(0.01)
            tables.interrupt()
            with pytest.raises(ScanGivenUp, match="the server closed the connection"):
                reading.result(30)


def test_a_call_has_the_time_that_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeServer(silence) as server:
        at = Region(META_REGION, b"", b"", ServerName(server.host, server.port, 1))
        monkeypatch.setattr(module._MetaPlace, "locate", lambda self, row, known=False: at)
        tables = Tables(None, ZNodes("/hbase"), login=Login(user="u"), patience_seconds=0.0, call_seconds=0.2)  # type: ignore[arg-type]
        with tables, pytest.raises(ScanGivenUp, match=r"Scan took longer than 0\.2 s"):
            tables.regions("t")


@pytest.fixture
def meta_of(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Tables whose hbase:meta answers each call with `rows`, and never with the last ones."""

    def tables(rows: list[tuple[bytes, Cell]]) -> Tables:
        class Endless(Meta):
            def call_for_cells(self, *_: object, **__: object) -> tuple[pb.ScanResponse, memoryview]:
                response = pb.ScanResponse(scanner_id=1, more_results=True, more_results_in_region=True)
                response.cells_per_result.extend([1] * len(rows))
                return response, memoryview(b"".join(cell.encode() for _, cell in rows))

        monkeypatch.setattr(module._MetaPlace, "locate", lambda self, row, known: Region(META_REGION, b"", b"", SERVER))
        monkeypatch.setattr(module._MetaPlace, "connection", lambda self, region: Endless({}))
        return Tables(None, ZNodes("/hbase"))  # type: ignore[arg-type]

    return tables


def test_the_time_of_a_look_up_is_asked_for_before_each_call_though_only_heartbeats_come(meta_of):
    left = [3.0, 2.0, 1.0]
    with pytest.raises(IndexError):
        meta_of([]).regions("t", left.pop)
    assert left == []


def test_a_call_of_a_look_up_has_the_time_that_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeServer(silence) as server:
        at = Region(META_REGION, b"", b"", ServerName(server.host, server.port, 1))
        monkeypatch.setattr(module._MetaPlace, "locate", lambda self, row, known=False: at)
        tables = Tables(None, ZNodes("/hbase"), login=Login(user="u"), patience_seconds=0.0, call_seconds=20.0)  # type: ignore[arg-type]
        with tables, pytest.raises(ScanGivenUp, match=r"Scan took longer than 0\.2 s"):
            tables.regions("t", lambda: 0.2)


@pytest.mark.parametrize(("bound", "most", "regions"), [("MAX_REGIONS", 100, 101), ("MAX_REGION_BYTES", 1000, 23)])
def test_regions_without_end_are_refused(monkeypatch, meta_of, bound, most, regions):
    monkeypatch.setattr(module, bound, most)
    rows = [meta_row(b"a%02d" % i, b"b", i) for i in range(3)]
    with pytest.raises(TooManyRegions, match=rf"tells of {regions} regions of table t or more"):
        meta_of(rows).regions("t")


def test_scans_of_one_region_look_it_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_up: list[bytes] = []
    regions = [Region(b"t,,1.x.", b"", b"m", SERVER), Region(b"t,m,1.y.", b"m", b"", SERVER)]

    def regions_from(self: object, row: bytes) -> Any:
        looked_up.append(row)
        yield from (region for region in regions if region.has(row))

    monkeypatch.setattr(module._TablePlace, "_regions_from", regions_from)
    tables = Tables(None, ZNodes("/hbase"))  # type: ignore[arg-type]
    for row in (b"", b"a", b"l", b"m", b"z"):
        tables.place("t").locate(row, known=True)
    assert looked_up == [b"", b"m"]
    assert tables.place("t").locate(b"z") is regions[1]
    assert looked_up == [b"", b"m", b"z"]


def other_region(table: bytes, start: bytes, end: bytes, **fields: int) -> list[Cell]:
    namespace, _, qualifier = table.rpartition(b":")
    info = pb.RegionInfo(
        region_id=1, table_name=pb.TableName(namespace=namespace or b"default", qualifier=qualifier), start_key=start,
        end_key=end, **fields,
    )  # fmt: skip
    name = b"%s,%s,1.%032d." % (table, start, 1)
    return [
        Cell(name, b"info", b"regioninfo", 1, PUT, PBUF + info.SerializeToString()),
        Cell(name, b"info", b"server", 1, PUT, b"h:1"),
        Cell(name, b"info", b"serverstartcode", 1, PUT, (1).to_bytes(8)),
    ]


def state_of(table: bytes, value: bytes) -> list[Cell]:
    return [Cell(table, b"table", b"state", 1, PUT, value)]


@pytest.fixture
def all_of_meta(monkeypatch: pytest.MonkeyPatch) -> Any:
    """`all_of_meta(rows)` → Tables whose hbase:meta has these rows, each a list of cells, and counts the scans in `scans`."""

    def tables(rows: list[list[Cell]]) -> Tables:
        class Once(Meta):
            def call_for_cells(
                self, method: str, request: pb.ScanRequest, *_: object, **__: object
            ) -> tuple[pb.ScanResponse, memoryview]:
                tables.scans += request.HasField("scan")  # type: ignore[attr-defined]
                response = pb.ScanResponse(scanner_id=1, more_results=True, more_results_in_region=False)
                response.cells_per_result.extend(len(row) for row in rows)
                return response, memoryview(b"".join(cell.encode() for row in rows for cell in row))

        tables.scans = 0  # type: ignore[attr-defined]
        monkeypatch.setattr(module._MetaPlace, "locate", lambda self, row, known: Region(META_REGION, b"", b"", SERVER))
        monkeypatch.setattr(module._MetaPlace, "connection", lambda self, region: Once({}))
        return Tables(None, ZNodes("/hbase"))  # type: ignore[arg-type]

    return tables


def test_all_tables_are_read_in_one_scan_with_their_states(all_of_meta):
    rows = [
        *[other_region(b"ns:u", b"", b""), state_of(b"ns:u", b"\x08\x01")],
        *[other_region(b"other", b"", b""), state_of(b"other", b"\x08\x00")],
        *[other_region(b"t", b"m", b""), other_region(b"t", b"", b"m")],
        other_region(b"t", b"c", b"d", offline=True, split=True),
        [Cell(b"t,,0.%032d." % 0, b"rep_barrier", b"seqnumDuringOpen", 1, PUT, bytes(8))],
    ]
    found = all_of_meta(rows).all_tables(lambda table: table != "other")
    reported = {table: (each.state, [region.start for region in each.regions]) for table, each in found.items()}
    assert reported == {"ns:u": ("DISABLED", [b""]), "t": ("ENABLED", [b"", b"m"])}
    assert found["t"].regions[0].server == SERVER
    assert all_of_meta.scans == 1


@pytest.mark.parametrize("value", [b"", b"\x08\x09", b"\xff"])
def test_a_state_that_cannot_be_read_is_refused(all_of_meta, value):
    with pytest.raises(RegionUnavailable, match=r"has a row b't' that cannot be read"):
        all_of_meta([state_of(b"t", value)]).all_tables(lambda table: True)


@dataclass
class Block:
    """Rows of one column each, as they come in an answer."""

    names: list[bytes]
    cell: Cell

    def __len__(self) -> int:
        return len(self.names)

    def key(self, i: int) -> bytes:
        return self.names[i]

    def row(self, i: int) -> bytes:
        return replace(self.cell, row=self.names[i]).encode()


@pytest.mark.parametrize(
    ("family", "qualifier", "value", "wanted"),
    [
        (b"table", b"state", b"\x08\x00", True),  # of tables without any region
        (b"table", b"state", b"\x08\x00", False),
        (b"info", b"seqnumDuringOpen", bytes(8), True),
    ],
)
def test_what_a_peer_cluster_s_meta_tells_takes_bounded_memory(monkeypatch, family, qualifier, value, wanted):
    names = ([b"t%05d-%d" % (n, i) + b"x" * 30_000 for i in range(10)] for n in range(300))
    made = Cell(b"", family, qualifier, 1, PUT, value)
    monkeypatch.setattr(Tables, "scan", lambda self, table, spec: (Block(some, made) for some in names))
    monkeypatch.setattr(module, "MAX_REGION_BYTES", 1 << 20)
    tracemalloc.start()
    with suppress(TooManyRegions):
        Tables(None, ZNodes("/hbase")).all_tables(lambda table: wanted)  # type: ignore[arg-type]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    print(f"{peak / (1 << 20):.1f} MB")
    assert peak < 4 << 20


@pytest.mark.parametrize(("length", "known"), [(253, True), (30_000, False)])
def test_the_address_of_a_server_is_no_longer_than_a_host_s_name(all_of_meta, length, known):
    address = b"h" * length + b":1"
    server = [Cell(b"", b"info", name, 1, PUT, value) for name, value in ((b"server", address), (b"serverstartcode", bytes(8)))]
    region = [cell for cell in other_region(b"t", b"", b"") if cell.qualifier == b"regioninfo"]
    row = [replace(cell, row=region[0].row) for cell in (*region, *server)]
    ((found,),) = [each.regions for each in all_of_meta([row]).all_tables(lambda table: True).values()]
    assert (found.server is not None) == known


def test_no_end_of_states_of_tables_is_an_error(all_of_meta, monkeypatch):
    monkeypatch.setattr(module, "MAX_REGIONS", 3)
    with pytest.raises(TooManyRegions, match="of all tables"):
        all_of_meta([state_of(b"t%d" % i, b"\x08\x00") for i in range(9)]).all_tables(lambda table: True)


def test_regions_of_all_tables_have_one_bound(all_of_meta, monkeypatch):
    monkeypatch.setattr(module, "MAX_REGIONS", 3)
    rows = [other_region(b"t%d" % i, b"", b"") for i in range(9)]
    with pytest.raises(TooManyRegions, match="tells of 4 regions of all tables or more"):
        all_of_meta(rows).all_tables(lambda table: True)
    assert len(all_of_meta(rows).all_tables(lambda table: table < "t3")) == 3


def test_a_region_s_name_that_a_peer_cluster_has_made_up_writes_nothing_into_a_log():
    assert Region(b"t,,17.0123456789abcdef0123456789abcdef.", b"", b"", None).encoded_name == "0123456789abcdef0123456789abcdef"
    odd = Region(b"t,,17.a\nERROR \x1b[2J" + b"x" * 5000 + b".", b"", b"", None).encoded_name
    assert odd.isprintable()
    assert len(odd) < 200
