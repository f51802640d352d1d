"""Typed columns beside the bytes: what a mapping says is there, and what it cannot read is named and counted."""

from __future__ import annotations

import json
import struct
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table
from pyiceberg.types import LongType

from tests.unit.hbase.wal.encoder import Cell
from walferry.replication.peers.column_mappings import ColumnMapping, parse_mappings
from walferry.replication.sinks.iceberg import typed_columns
from walferry.replication.sinks.iceberg.commits import Batch, Positions, append
from walferry.replication.sinks.iceberg.data_files import ChangeFile, DataFiles, Target
from walferry.replication.sinks.iceberg.tables import LakeError, add_columns, table_of

from .lake import WAL, catalog_in, changes, entry, rows_of

NAME = ("default", "t_changes")
COLUMNS: dict[str, Any] = {
    "customer": {"cf": "rowkey", "col": "customer", "type": "string", "length": "2"},
    "id": {"cf": "rowkey", "col": "id", "type": "int"},
    "amount": {"cf": "f", "col": "a", "type": "double"},
    "at": {"cf": "g", "col": "a", "type": "timestamp"},
}


def mapping_of(columns: dict[str, Any] = COLUMNS, rowkey: str = "customer:id", coder: str = "PrimitiveType") -> ColumnMapping:
    given = {"table": {"name": "t", "tableCoder": coder}, "rowkey": rowkey, "columns": columns}
    return parse_mappings(json.dumps(given))["t"]


MAPPING = mapping_of()


def row(customer: bytes, number: int) -> bytes:
    return customer + struct.pack(">i", number)


def cell(row: bytes, family: bytes, qualifier: bytes, value: bytes, kind: int = 4) -> Cell:
    return Cell(row, family, qualifier, 1, kind, value, b"")


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    return catalog_in(tmp_path)


def write(table: Table, mapping: ColumnMapping | None, *cells: Cell) -> list[ChangeFile]:
    """Write cells of families f and g as a task does, commit them, and return their files."""
    writer = DataFiles({"t": Target.of(table, mapping)})
    for each in changes([entry(*cells, families=(b"f", b"g"))]):
        writer.add(each)
    files = [ChangeFile.from_json(file.to_json()) for file in writer.finish()]
    seen = Positions()
    append(table, Batch("peer", "b"), files, seen=seen, moved={WAL.group: (WAL.name, 9999)})
    return files


def typed(table: Table, *names: str) -> list[tuple[Any, ...]]:
    """The rows, as another engine reads them."""
    return [tuple(each[name] for name in names) for each in rows_of(table)]


def test_each_row_has_the_parts_of_its_row_key_and_its_own_column(catalog: SqlCatalog) -> None:
    table = table_of(catalog, NAME, MAPPING)
    (file,) = write(
        table, MAPPING,
        cell(row(b"ab", 7), b"f", b"a", struct.pack(">d", 2.5)),
        cell(row(b"ab", 8), b"f", b"a", b"", kind=8),  # a delete marker
        cell(row(b"cd", -1), b"g", b"a", struct.pack(">q", 1_700_000_000_123)),
        cell(row(b"cd", 0), b"g", b"other", b"\1"),
    )  # fmt: skip
    assert typed(table, "customer", "id", "amount", "at", "unread") == [
        ("ab", 7, 2.5, None, None),
        ("ab", 8, None, None, None),
        ("cd", 0, None, None, None),
        ("cd", -1, None, datetime(2023, 11, 14, 22, 13, 20, 123000, UTC), None),
    ]
    assert rows_of(table)[0]["value"] == struct.pack(">d", 2.5)
    assert file.unread == 0


def test_what_cannot_be_read_is_named_and_counted_and_its_bytes_are_there(catalog: SqlCatalog) -> None:
    table = table_of(catalog, NAME, MAPPING)
    (file,) = write(
        table, MAPPING,
        cell(row(b"ab", 7), b"f", b"a", b"2.5"),
        cell(b"b" + b"\xff" * 5, b"f", b"a", struct.pack(">d", 2.5)),
        cell(b"c", b"g", b"a", b"x"),
        cell(row(b"d ", 7) + b"more", b"g", b"other", b"x"),
        cell(row(b"e ", 7), b"g", b"a", b""),
    )  # fmt: skip
    assert typed(table, "row", "customer", "id", "amount", "at", "unread", "value") == [
        (row(b"ab", 7), "ab", 7, None, None, "amount", b"2.5"),
        (b"b" + b"\xff" * 5, None, None, 2.5, None, "rowkey", struct.pack(">d", 2.5)),
        (b"c", None, None, None, None, "rowkey,at", b"x"),
        (row(b"d ", 7) + b"more", None, None, None, None, "rowkey", b"x"),
        (row(b"e ", 7), "e ", 7, None, None, None, b""),
    ]
    assert file.unread == 4


def test_a_phoenix_row_key_has_parts_of_any_length_and_may_lack_the_last_ones(catalog: SqlCatalog) -> None:
    columns = {
        "org": {"cf": "rowkey", "col": "org", "type": "varchar"},
        "id": {"cf": "rowkey", "col": "id", "type": "bigint"},
        "name": {"cf": "rowkey", "col": "name", "type": "varchar"},
        "note": {"cf": "rowkey", "col": "note", "type": "varchar"},
    }
    mapping = mapping_of(columns, "org:id:name:note", "Phoenix")
    table = table_of(catalog, NAME, mapping)
    seven = struct.pack(">Q", 7 | 1 << 63)
    rows = [
        b"acme\0" + seven + b"b\0c",
        b"acme\0" + seven + b"bb",
        b"acme\0" + seven,
        b"acme\0" + seven + b"\0d",
        b"\0" + seven + b"b",
        b"acme\0" + seven[:5],
    ]
    write(table, mapping, *(cell(each, b"f", b"q", b"") for each in rows))
    found = {each["row"]: each for each in rows_of(table)}
    assert [tuple(found[each][name] for name in ("org", "id", "name", "note", "unread")) for each in rows] == [
        ("acme", 7, "b", "c", None),
        ("acme", 7, "bb", None, None),
        ("acme", 7, None, None, None),
        ("acme", 7, None, "d", None),
        (None, 7, "b", None, None),
        (None, None, None, None, "rowkey"),
    ]


def test_a_table_gets_the_columns_that_it_lacks_and_old_rows_have_none(catalog: SqlCatalog) -> None:
    table = table_of(catalog, NAME)
    write(table, None, cell(row(b"ab", 7), b"f", b"a", struct.pack(">d", 2.5)))
    few = mapping_of({name: COLUMNS[name] for name in ("customer", "id", "amount")})
    table = table_of(catalog, NAME, few)
    (old,) = table.scan().to_arrow().to_pylist()
    assert (old["value"], old["customer"], old["amount"], old["unread"]) == (struct.pack(">d", 2.5), None, None, None)
    more = table_of(catalog, NAME, MAPPING)
    assert [each.name for each in more.schema().fields][-5:] == ["customer", "id", "amount", "unread", "at"]
    assert table_of(catalog, NAME, MAPPING).metadata.current_schema_id == more.metadata.current_schema_id, "nothing to add"


def test_columns_that_no_mapping_has_any_more_stay_empty(catalog: SqlCatalog) -> None:
    table = table_of(catalog, NAME, MAPPING)
    write(table, None, cell(row(b"ab", 7), b"f", b"a", struct.pack(">d", 2.5)))
    assert typed(table, "customer", "amount") == [(None, None)]


@pytest.mark.parametrize(("name", "there"), [("amount", "amount"), ("amount", "AMOUNT")])
def test_a_column_of_another_type_or_with_other_capitals_is_refused(catalog: SqlCatalog, name: str, there: str) -> None:
    with table_of(catalog, NAME).update_schema() as update:
        update.add_column(there, LongType())
    with pytest.raises(
        LakeError, match=rf"default\.t_changes: typed column {name} should be double, and the table has {there} of type long"
    ):
        table_of(catalog, NAME, MAPPING)


def test_two_runs_may_add_the_same_columns(catalog: SqlCatalog) -> None:
    stale = catalog.load_table(table_of(catalog, NAME).name())
    table_of(catalog, NAME, MAPPING)
    add_columns(stale, MAPPING)
    assert [each.name for each in stale.schema().fields].count("amount") == 1


def test_a_catalog_that_never_takes_the_columns_is_told(catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_of(catalog, NAME)
    monkeypatch.setattr(type(table), "_do_commit", lambda *_, **__: (_ for _ in ()).throw(CommitFailedException("others")))
    with pytest.raises(CommitFailedException, match="others"):
        add_columns(table, MAPPING)


def test_rows_are_read_batch_by_batch(catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(typed_columns, "BATCH_ROWS", 3)
    table = table_of(catalog, NAME, MAPPING)
    cells = [cell(row(b"ab", n), b"f", b"a", struct.pack(">d", n) if n % 4 else b"odd") for n in range(10)]
    (file,) = write(table, MAPPING, *cells)
    assert typed(table, "id", "amount", "unread") == [(n, *((float(n), None) if n % 4 else (None, "amount"))) for n in range(10)]
    assert file.unread == 3
