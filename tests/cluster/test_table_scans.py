"""Walferry's own scans of real RegionServers, compared with HBase's client."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from embedded.client import GLOBAL, even_splits
from embedded.wire import Cell, CellType, delete_column, delete_row, put
from walferry.base.zk.client import connected
from walferry.hbase.layout import ZNodes
from walferry.hbase.tables.errors import MissingTable
from walferry.hbase.tables.rows import Rows
from walferry.hbase.tables.scan import ALL_VERSIONS, ScanSpec
from walferry.hbase.tables.tables import Tables
from walferry.hbase.wal.cells import split_cells

EVERYTHING = ScanSpec(max_versions=ALL_VERSIONS, raw=True)


@pytest.fixture
def source_tables(standalone_pair) -> Iterator[Tables]:
    with connected(standalone_pair.source.address.quorum) as zk, Tables(zk, ZNodes()) as tables:
        yield tables


def cells_of(blocks: Iterator[Rows]) -> list[Cell]:
    found = []
    for block in blocks:
        for i in range(len(block)):
            for cell in split_cells(block.row(i)):
                assert cell.row == block.key(i)
                timestamp = int.from_bytes(cell.data[cell._key_end - 9 : cell._key_end - 1])
                found.append(Cell(cell.row, *cell.column, timestamp, CellType(cell.type), cell.value, cell.tags))
    return found


def keys_of(blocks: Iterator[Rows]) -> list[bytes]:
    return [block.key(i) for block in blocks for i in range(len(block))]


def test_scans_return_what_hbases_client_returns(sides, source_tables, unique):
    table = unique("t")
    sides.source.create_table(table, {"f": GLOBAL, "g": GLOBAL}, [b"r3", b"r5"], versions=3)
    sides.source.write(table, [
        *[put(f"r{i}", {"f:a": b"one", "g:b": b"x" * 100}, timestamp=1000 + i, tags=[(64, b"tag")]) for i in range(8)],
        *[put(f"r{i}", {"f:a": b"two"}, timestamp=2000 + i) for i in range(8)],
        delete_row("r1", timestamp=3000), delete_column("r2", "f:a", timestamp=2002), delete_row("r4", timestamp=1),
    ], one_by_one=True)  # fmt: skip
    everything = sides.source.scan_all(table, raw=True)
    assert len(everything) > 24
    assert cells_of(source_tables.scan(table, EVERYTHING)) == everything
    assert cells_of(source_tables.scan(table, ScanSpec(max_versions=ALL_VERSIONS))) == sides.source.scan_all(table)
    of_g = ScanSpec(families=(b"g",), max_versions=ALL_VERSIONS, raw=True)
    assert cells_of(source_tables.scan(table, of_g)) == sides.source.scan_all(table, ["g"], raw=True)
    part = ScanSpec(start_row=b"r2", stop_row=b"r6", time_range=(1003, 2005), max_versions=ALL_VERSIONS, raw=True)
    assert cells_of(source_tables.scan(table, part)) == [
        cell for cell in everything if b"r2" <= cell.row < b"r6" and 1003 <= cell.timestamp < 2005
    ]
    newest = ScanSpec(start_row=b"r5", families=(b"f",))
    assert [(cell.row, cell.value) for cell in cells_of(source_tables.scan(table, newest))] == [
        (b"r5", b"two"), (b"r6", b"two"), (b"r7", b"two"),
    ]  # fmt: skip


def test_rows_that_come_in_part_are_put_together(sides, source_tables, unique):
    table = unique("t")
    sides.source.create_table(table, {"f": GLOBAL})
    wide = {f"f:q{i:03}": bytes([i]) * 3000 for i in range(200)}
    sides.source.write(table, [put("a", {"f:q": b"1"}), put("b", wide), put("c", {"f:q": b"1"}), put("d", wide)])
    spec = ScanSpec(answer_bytes=50_000)
    assert keys_of(source_tables.scan(table, spec)) == [b"a", b"b", b"c", b"d"]
    assert cells_of(source_tables.scan(table, spec)) == sides.source.scan_all(table)


def test_a_table_that_does_not_exist_is_named(source_tables, unique):
    table = unique("t")
    with pytest.raises(MissingTable, match=table):
        source_tables.regions(table)
    with pytest.raises(MissingTable, match=table):
        list(source_tables.scan(table, ScanSpec()))


def test_regions_are_listed_in_order_and_those_of_other_tables_left_out(sides, source_tables, unique):
    table = unique("t")
    for name in (table, table + "x", table + "-y"):
        sides.source.create_table(name, {"f": GLOBAL}, even_splits(4))
    found = source_tables.regions(table)
    assert [(r.encoded_name, r.start, r.end, str(r.server)) for r in found] == [
        (r.encoded_name, r.start_key, r.end_key, r.server) for r in sides.source.regions(table)
    ]


def test_regions_that_move_split_and_merge_in_mid_scan_cost_no_row_and_give_none_twice(distributed_pair, java_client, unique):
    address, table = distributed_pair.source.address, unique("t")
    client = java_client(address)
    client.create_table(table, {"f": GLOBAL}, even_splits(6))
    client.put_many(table, 6000, ["f:q"])
    client.flush(table)

    def move(number: int) -> None:
        region = client.regions(table)[number]
        client.move_region(region.encoded_name, next(s for s in client.region_servers() if s != region.server))

    def split(number: int, row: bytes) -> None:
        client.split_region(client.regions(table)[number].encoded_name, row)

    def merge(number: int) -> None:
        client.merge_regions(*[region.encoded_name for region in client.regions(table)[number : number + 2]])

    events = {
        300: lambda: move(0), 600: lambda: split(0, b"0800000000000000"), 1200: lambda: split(2, b"40"),
        2500: lambda: merge(4), 3500: lambda: move(4), 5000: lambda: merge(len(client.regions(table)) - 2),
    }  # fmt: skip
    found: list[bytes] = []
    with connected(address.quorum) as zk, Tables(zk, ZNodes(address.znode_parent)) as tables:
        for block in tables.scan(table, ScanSpec(answer_bytes=5000)):
            found += [block.key(i) for i in range(len(block))]
            for at in [at for at in events if at <= len(found)]:
                events.pop(at)()
        assert not events
        assert found == keys_of(tables.scan(table, ScanSpec()))
    assert len(found) == len(set(found)) == 6000
    assert found == sorted(found)
