"""Mappings of typed columns: what is read of catalogs of hbase-connectors, and what is refused, with its name."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walferry.replication.peers.column_mappings import (
    MAX_MAPPINGS_BYTES,
    MOST_COLUMNS,
    OWN_NAMES,
    ROW_KEY,
    UNREAD,
    Coder,
    KeyPart,
    MappedColumn,
    ValueType,
    parse_mappings,
)
from walferry.replication.sinks.changes import SCHEMA
from walferry.replication.sinks.iceberg import tables
from walferry.state_tables.tables import DELETES_SCHEMA, STATE_SCHEMA

PRIMITIVE, PHOENIX = Coder.PRIMITIVE, Coder.PHOENIX
# From the README of hbase-connectors and the documentation of HBaseTableCatalog.
THEIRS = """{
    "table":{"namespace":"default", "name":"table1"},
    "rowkey":"key",
    "columns":{
    "col0":{"cf":"rowkey", "col":"key", "type":"string"},
    "col1":{"cf":"cf1", "col":"col1", "type":"boolean"},
    "col2":{"cf":"cf2", "col":"col2", "type":"double"},
    "col3":{"cf":"cf3", "col":"col3", "type":"float"},
    "col4":{"cf":"cf4", "col":"col4", "type":"int"},
    "col5":{"cf":"cf5", "col":"col5", "type":"bigint"},
    "col6":{"cf":"cf6", "col":"col6", "type":"smallint"},
    "col7":{"cf":"cf7", "col":"col7", "type":"string"},
    "col8":{"cf":"cf8", "col":"col8", "type":"tinyint"}
    }}"""


def a(**given: Any) -> dict[str, Any]:
    """A mapping of table t, with a row key that no column shows, unless `given` says otherwise."""
    return {"table": {"name": "t"}, "rowkey": "key", "columns": {"c": {"cf": "f", "col": "q", "type": "int"}}, **given}


def of(*columns: tuple[str, str, str, str], rowkey: str = "key", coder: str = "PrimitiveType", **more: Any) -> dict[str, Any]:
    """A mapping with columns of a name, a family, a qualifier and a type."""
    each = {name: {"cf": cf, "col": col, "type": kind, **more} for name, cf, col, kind in columns}
    return a(rowkey=rowkey, columns=each, table={"name": "t", "tableCoder": coder})


def test_a_catalog_of_hbase_connectors_is_read_as_it_is() -> None:
    (mapping,) = parse_mappings(THEIRS).values()
    assert (mapping.table, mapping.key) == ("table1", (KeyPart("col0", ValueType(PRIMITIVE, "string", None)),))
    assert mapping.columns[0] == MappedColumn("col1", ValueType(PRIMITIVE, "boolean", 1), b"cf1", b"col1")
    assert [each.type.size for each in mapping.columns] == [1, 8, 4, 4, 8, 2, None, 1]


def test_a_text_may_have_the_mappings_of_several_tables_or_none() -> None:
    other = a(table={"namespace": "shop", "name": "items", "version": "2.0"})
    assert list(parse_mappings(json.dumps([a(), other]))) == ["t", "shop:items"]
    assert parse_mappings(" ") == {}


def test_a_row_key_has_its_parts_in_order_and_a_row_key_without_columns_is_not_shown() -> None:
    parts = of(("b", "rowkey", "second", "string"), ("a", "rowkey", "first", "long"), rowkey="first:second")
    assert [part.name for part in parse_mappings(json.dumps(parts))["t"].key] == ["a", "b"]
    assert parse_mappings(json.dumps(a()))["t"].key == ()


def test_a_column_without_a_family_is_a_part_of_the_row_key() -> None:
    """As hbase-connectors has it."""
    given = a(columns={"id": {"col": "key", "type": "long"}})
    assert parse_mappings(json.dumps(given))["t"].key == (KeyPart("id", ValueType(PRIMITIVE, "bigint", 8)),)


def test_phoenix_s_parts_of_any_length_end_by_themselves() -> None:
    parts = [("a", "rowkey", "a", "varchar"), ("b", "rowkey", "b", "decimal(10,2)"), ("c", "rowkey", "c", "varbinary")]
    mapping = parse_mappings(json.dumps(of(*parts, rowkey="a:b:c", coder="Phoenix")))["t"]
    assert [part.type.name for part in mapping.key] == ["varchar", "decimal", "varbinary"]


def test_a_qualifier_may_have_any_bytes() -> None:
    mapping = parse_mappings(json.dumps(of(("c", "0", r"\x80\x0B", "integer"), coder="Phoenix")))["t"]
    assert mapping.columns == (MappedColumn("c", ValueType(PHOENIX, "integer", 4), b"0", b"\x80\x0b"),)


@pytest.mark.parametrize(
    ("coder", "text", "expected"),
    [
        (PRIMITIVE, "LONG", ValueType(PRIMITIVE, "bigint", 8)),
        (PRIMITIVE, "Decimal(18, 2)", ValueType(PRIMITIVE, "decimal", None, 18, 2)),
        (PRIMITIVE, "decimal(5)", ValueType(PRIMITIVE, "decimal", None, 5, 0)),
        (PHOENIX, "int", ValueType(PHOENIX, "integer", 4)),
        (PHOENIX, "CHAR(8)", ValueType(PHOENIX, "char", 8)),
        (PHOENIX, "varchar(8)", ValueType(PHOENIX, "varchar", None)),
        (PHOENIX, "timestamp", ValueType(PHOENIX, "timestamp", 12)),
    ],
)
def test_types_have_the_names_of_spark_and_of_phoenix(coder: Coder, text: str, expected: ValueType) -> None:
    assert ValueType.parse(coder, text) == expected


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("{", "not JSON"),
        ("[" * 50_000, "too deep"),
        ('{"table": {"name": "t"}, "table": {"name": "u"}}', "'table' is there twice"),
        ("7", "the mapping is 7"),
        (json.dumps([a(), 7]), "mapping 2 of 2 is 7"),
        (a(avro="x"), "the mapping has 'avro'"),
        ({"table": {"name": "t"}, "columns": {}}, "the mapping has no rowkey"),
        (a(table="t"), "the mapping's table is 't'"),
        (a(table={}), "the mapping's table has no name"),
        (a(table={"name": "t", "regions": 3}), "'regions'"),
        (a(table={"name": "a b"}), "'a b' is no name of a table"),
        (a(table={"name": "t" * 2000}), "is no name of a table"),
        (a(table={"name": "shop:t"}), "has name 'shop:t' and namespace 'default': neither of the two has a colon"),
        (a(table={"name": "t", "tableCoder": "Avro"}), "tableCoder 'Avro', which is none of PrimitiveType, Phoenix"),
        (a(columns={}), "0 columns"),
        (a(columns={f"c{n}": {"cf": "f", "col": f"{n}", "type": "int"} for n in range(MOST_COLUMNS + 1)}), "501 columns"),
        (a(columns={"c": 7}), "column c is 7"),
        (a(columns={"a b": {"cf": "f", "col": "q", "type": "int"}}), "'a b' is no name of a column"),
        (of(("_file", "f", "q", "int")), "'_file' is no name of a column"),
        (of(("Value", "f", "q", "int")), "a lake uses the name value itself"),
        (of(("c", "f", "q", "int"), ("C", "f", "r", "int")), "two columns C, as most engines ignore capitals"),
        (of(("c", "f", "q", "int"), ("d", "f", "q", "long")), "column c is of the same column of HBase as another one"),
        (of(("c", "f", "q", "int"), serdes="x"), "column c has 'serdes', which is not read"),
        (of(("c", "f", "q", "varchar")), "column c: the type 'varchar' is none of boolean, tinyint"),
        (of(("c", "f", "q", "string(4)")), 'no such length or precision; a string\'s length is "length": "10"'),
        (of(("c", "f", "q", "decimal")), "a decimal needs its precision and scale"),
        (of(("c", "f", "q", "decimal(39,2)")), "a precision from 1 to 38"),
        (of(("c", "f", "q", "decimal(5,6)")), "no larger scale"),
        (of(("c", "f", "q", "int"), length="5"), "length 5, and int has 4 bytes"),
        (of(("c", "f", "q", "string"), length="0"), "length '0', which should be a whole number from 1 to 32,767"),
        (of(("c", "f", "q", "binary"), length=[]), "length []"),
        (a(columns={"c": {"cf": "f", "col": "", "type": "int"}}), "column c has col ''"),
        (a(columns={"c": {"cf": "f", "col": "q"}}), "column c has no type"),
        (a(columns={"c": {"cf": "f", "col": "\\x8", "type": "int"}}), "table t: column c: \\x5Cx8: two hex digits"),
        (of(("a", "rowkey", "k", "int"), ("b", "rowkey", "k", "int"), rowkey="k"), "the same part of the row key as a"),
        (of(("a", "rowkey", "x", "int"), rowkey="x:y"), "its rowkey is 'x:y', and its columns with cf rowkey show 'x'"),
        (of(("a", "rowkey", "x", "int"), rowkey="x:x"), "its rowkey is 'x:x'"),
        (of(*((f"p{n}", "rowkey", f"{n}", "int") for n in range(33)), rowkey=":".join(map(str, range(33)))), "has 33 parts"),
        (of(("a", "rowkey", "x", "string"), ("b", "rowkey", "y", "int"), rowkey="x:y"), "column a is not the last part"),
        (of(("a", "rowkey", "x", "char"), ("b", "rowkey", "y", "int"), rowkey="x:y", coder="Phoenix"), "needs a length"),
    ],
)  # fmt: skip
def test_a_mapping_that_makes_no_sense_is_refused(given: object, why: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the text is what matters
        parse_mappings(given if isinstance(given, str) else json.dumps(given))
    assert why in str(caught.value)


def test_mappings_of_two_tables_must_be_of_two_and_fit_into_a_peer() -> None:
    with pytest.raises(ValueError, match="table t has two mappings"):
        parse_mappings(json.dumps([a(), a()]))
    with pytest.raises(ValueError, match="bytes, and may have 65,536"):
        parse_mappings(json.dumps(a()) + " " * MAX_MAPPINGS_BYTES)


def test_no_typed_column_has_the_name_of_a_column_that_the_tables_have() -> None:
    partitions = [field.name for field in tables._DAY.fields]
    assert {*SCHEMA.names, *STATE_SCHEMA.names, *DELETES_SCHEMA.names, *partitions, UNREAD, ROW_KEY} == OWN_NAMES


def test_the_source_of_a_typed_column_says_what_it_shows() -> None:
    columns = [("a", "rowkey", "x", "char(3)"), ("b", "rowkey", "y", "varchar"), ("c", "f", r"\x80\x0B", "decimal(5,2)")]
    parts = of(*columns, rowkey="x:y", coder="phoenix")
    assert parse_mappings(json.dumps(parts))["t"].sources == {
        "a": "HBase: part 1 of the row key of Phoenix char(3), Phoenix varchar",
        "b": "HBase: part 2 of the row key of Phoenix char(3), Phoenix varchar",
        "c": r"HBase: f:\x80\x0B, Phoenix decimal(5,2)",
    }


def test_texts_of_a_hostile_table_are_shown_harmlessly() -> None:
    given = of(("row", "f", "q", "int"))
    given["table"]["name"] = "t\x9b31m\u202e"
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the text is what matters
        parse_mappings(json.dumps(given))
    assert str(caught.value).isprintable()


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(), lambda each: st.lists(each) | st.dictionaries(st.text(), each)
    )
)
def test_any_json_is_read_or_refused(given: object) -> None:
    with suppress(ValueError):
        assert isinstance(parse_mappings(json.dumps(given)), dict)
