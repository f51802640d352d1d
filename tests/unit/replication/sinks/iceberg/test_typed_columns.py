"""Typed columns beside the bytes: what a mapping says is there, and what it cannot read is named and counted."""

from __future__ import annotations

import json
import struct
import tracemalloc
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import DecimalType, DoubleType, LongType, NestedField, StringType

from tests.unit.hbase.wal.encoder import Cell
from walferry.replication.peers.column_mappings import ColumnMapping, ValueType, parse_mappings
from walferry.replication.sinks.iceberg import tables, typed_columns
from walferry.replication.sinks.iceberg.commits import Batch, Positions, append, positions_of
from walferry.replication.sinks.iceberg.data_files import ChangeFile, DataFiles, Target
from walferry.replication.sinks.iceberg.kinds import iceberg_type
from walferry.replication.sinks.iceberg.tables import LakeError, add_columns, table_of
from walferry.replication.sinks.iceberg.typed_columns import TypedColumns
from walferry.replication.sinks.iceberg.typed_values import Spans, read_values

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


def write(table: Table, mapping: ColumnMapping | None, *cells: Cell, seen: Positions = Positions()) -> list[ChangeFile]:  # noqa: B008
    """Write cells of families f and g as a task does, commit them, and return their files."""
    writer = DataFiles({"t": Target.of(table, mapping)})
    for each in changes([entry(*cells, families=(b"f", b"g"))]):
        writer.add(each)
    files = [ChangeFile.from_json(file.to_json()) for file in writer.finish()]
    append(table, Batch("peer", "b"), files, seen=seen, moved={WAL.group: (WAL.name, 9999 + 2 * len(seen.groups))})
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


def test_a_column_that_was_made_wider_gets_the_values(catalog: SqlCatalog) -> None:
    columns = {
        "n": {"cf": "f", "col": "n", "type": "int"}, "x": {"cf": "f", "col": "x", "type": "float"},
        "d": {"cf": "f", "col": "d", "type": "decimal(5,2)"},
    }  # fmt: skip
    mapping = mapping_of(columns)
    table = table_of(catalog, NAME, mapping)
    write(table, mapping, cell(b"a", b"f", b"n", struct.pack(">i", 7)))
    with table.update_schema() as update:
        for name, wider in (("n", LongType()), ("x", DoubleType()), ("d", DecimalType(20, 2))):
            update.update_column(name, wider)
    table = table_of(catalog, NAME, mapping)
    write(
        table, mapping, cell(b"b", b"f", b"n", struct.pack(">i", -8)), cell(b"c", b"f", b"x", struct.pack(">f", 0.5)),
        cell(b"d", b"f", b"d", struct.pack(">i", 1) + b"\x0f"), seen=positions_of(table, "peer"),
    )  # fmt: skip
    found = sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["row"])
    assert [(row["n"], row["x"], row["d"]) for row in found] == [
        (7, None, None), (-8, None, None), (None, 0.5, None), (None, None, Decimal("1.50")),
    ]  # fmt: skip


@pytest.mark.parametrize(("qualifier", "kind"), [("b", "double"), ("a", "double"), ("a", "float")])
def test_a_column_is_not_used_for_values_of_another_source(catalog: SqlCatalog, qualifier: str, kind: str) -> None:
    """Old rows would have values of one, and new rows those of the other."""
    table_of(catalog, NAME, MAPPING)
    coder = "Phoenix" if (qualifier, kind) == ("a", "double") else "PrimitiveType"
    mapping = mapping_of({"amount": {"cf": "f", "col": qualifier, "type": kind}}, rowkey="key", coder=coder)
    with pytest.raises(LakeError, match=r"typed column amount should (show|be)"):
        table_of(catalog, NAME, mapping)
    table = catalog.load_table(NAME)
    with table.update_schema() as update:
        update.delete_column("amount")
    assert table_of(catalog, NAME, mapping).schema().find_field("amount").doc == mapping.sources["amount"]


def test_a_comment_of_somebody_else_is_left_alone(catalog: SqlCatalog) -> None:
    with table_of(catalog, NAME, MAPPING).update_schema() as update:
        update.update_column("amount", doc="net")
    assert table_of(catalog, NAME, MAPPING).schema().find_field("amount").doc == "net"


def test_a_table_gets_no_more_columns_than_files_can_have(catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "MOST_COLUMNS", 18)
    with pytest.raises(LakeError, match="has 15 columns, and may have 18 with the mapping's"):
        table_of(catalog, NAME, MAPPING)


def test_a_target_has_the_present_columns_only(catalog: SqlCatalog) -> None:
    one = len(Target.of(table_of(catalog, NAME, MAPPING), MAPPING).metadata)
    for _ in range(5):
        with catalog.load_table(NAME).update_schema() as update:
            update.delete_column("amount")
        table = table_of(catalog, NAME, MAPPING)
    assert len(table.metadata.schemas) > 5
    assert len(Target.of(table, MAPPING).metadata) < one + 100
    write(table, MAPPING, cell(row(b"ab", 7), b"f", b"a", struct.pack(">d", 2.5)))
    assert table.scan().to_arrow()["amount"].to_pylist() == [2.5]


def test_answers_do_not_grow_with_typed_columns(catalog: SqlCatalog) -> None:
    mapping = mapping_of({f"c{n}": {"cf": "f", "col": str(n), "type": "int"} for n in range(400)}, rowkey="key")
    (file,) = write(table_of(catalog, NAME, mapping), mapping, cell(b"a", b"f", b"7", struct.pack(">i", 7)))
    (plain,) = write(table_of(catalog, ("default", "u_changes")), None, cell(b"a", b"f", b"7", struct.pack(">i", 7)))
    assert abs(len(file.to_json()) - len(plain.to_json())) < 50


def test_a_file_has_no_bounds_of_a_column_without_its_counts(catalog: SqlCatalog) -> None:
    """An engine would take it for a column without null."""
    table = table_of(catalog, NAME, MAPPING)
    with table.transaction() as transaction:
        transaction.set_properties({"write.metadata.metrics.column.amount": "full"})
    table = table_of(catalog, NAME, MAPPING)
    (file,) = write(table, MAPPING, cell(b"a", b"f", b"a", struct.pack(">d", 7)), cell(b"b", b"f", b"q", b""))
    column = str(table.schema().find_field("amount").field_id)
    assert [column in each for each in (*file.bounds.values(), *file.counts.values())] == [False] * 6
    assert table.scan(row_filter="amount >= 0").to_arrow().num_rows == 1


def test_only_columns_that_occur_are_read(catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    read = []

    def counted(type_: ValueType, spans: Spans) -> Any:
        read.append(type_.name)
        return read_values(type_, spans)

    monkeypatch.setattr(typed_columns, "read_values", counted)
    columns = {f"c{n}": {"cf": "f", "col": str(n), "type": "int"} for n in range(400)}
    mapping = mapping_of(columns, rowkey="key")
    write(table_of(catalog, NAME, mapping), mapping, *(cell(b"%d" % n, b"f", b"7", struct.pack(">i", n)) for n in range(9)))
    assert read == ["int"]


@pytest.mark.parametrize("kind", ["string", "binary"])
def test_large_values_and_row_keys_take_little_more_memory_than_they_have_bytes(kind: str) -> None:
    size, count = 30_000, 1500
    columns = {"key": {"cf": "rowkey", "col": "key", "type": kind}, "big": {"cf": "f", "col": "q", "type": kind}}
    mapping = mapping_of(columns, rowkey="key")
    data = [b"%05d" % n * (size // 5) for n in range(count)]
    each = {"row": pa.array(data), "family": pa.array([b"f"] * count), "qualifier": pa.array([b"q"] * count)}
    type_ = iceberg_type(pa.type_for_alias(kind))
    schema = Schema(NestedField(1, "key", type_), NestedField(2, "big", type_), NestedField(3, "unread", StringType()))
    rows, typed = pa.table({**each, "value": pa.array(data)}), TypedColumns(mapping, schema)
    tracemalloc.start()
    try:
        found = [(batch["big"], batch["key"]) for batch in typed.added(rows)]
        most = tracemalloc.get_traced_memory()[1]  # of Python and numpy
    finally:
        tracemalloc.stop()
    texts = [value if kind == "binary" else value.decode() for value in data]
    assert (
        [value for big, _ in found for value in big.to_pylist()]
        == texts
        == [key for _, keys in found for key in keys.to_pylist()]
    )
    assert most < 4 * typed_columns.BATCH_BYTES < size * count * 2


@pytest.mark.parametrize("size", [1, 3, 100])
def test_bytes_0_end_parts_of_row_keys_in_each_batch(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(typed_columns, "BATCH_ROWS", size)
    columns = {name: {"cf": "rowkey", "col": name, "type": "varchar"} for name in "ab"}
    keys = [b"%s\0%s" % (b"x" * (n % 4), b"y\0"[: n % 3]) for n in range(20)]
    others = {name: pa.array([b""] * len(keys)) for name in ("family", "qualifier", "value")}
    rows = pa.table({"row": pa.array(keys), **others}).slice(2)
    schema = Schema(*(NestedField(n, name, StringType()) for n, name in enumerate(("a", "b", "unread"), 1)))
    batches = list(TypedColumns(mapping_of(columns, "a:b", "Phoenix"), schema).added(rows))
    found = [(a, b) for batch in batches for a, b in zip(batch["a"].to_pylist(), batch["b"].to_pylist(), strict=True)]
    assert found == [tuple(part.decode() or None for part in key.split(b"\0", 1)) for key in keys[2:]]


@pytest.mark.parametrize(("name", "there"), [("amount", "amount"), ("amount", "AMOUNT")])
def test_a_column_of_another_type_or_with_other_capitals_is_refused(catalog: SqlCatalog, name: str, there: str) -> None:
    with table_of(catalog, NAME).update_schema() as update:
        update.add_column(there, LongType())
    with pytest.raises(
        LakeError, match=rf"default\.t_changes: typed column {name} should be double, and the table has {there} of type long"
    ):
        table_of(catalog, NAME, MAPPING)


def test_a_column_that_must_not_be_null_is_refused(catalog: SqlCatalog) -> None:
    with table_of(catalog, NAME).update_schema(allow_incompatible_changes=True) as update:
        update.add_column("amount", DoubleType(), required=True)
    with pytest.raises(LakeError, match="the table has amount of type double, which is required"):
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
