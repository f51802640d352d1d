"""The cells that the filters keep are the rows of a table of changes."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.hbase.wal.encoder import Cell, Entry
from tests.unit.hbase.wal.strategies import TYPE_NAMES, cells
from walferry.hbase.wal.cells import split_cells
from walferry.replication.filters.entry_filter import filter_batch, table_name
from walferry.replication.sinks import changes as module
from walferry.replication.sinks.changes import DAY_MS, LATEST_MS, NO_DAY, SCHEMA

from .iceberg.lake import RULES, WAL, changes, entry, put, wal_batch

OF_ENTRIES = ("write_time", "wal_group", "wal", "offset", "cell")  # null for cells of a first copy
families = st.sampled_from([b"f", b"g", b"h"])
times = st.one_of(st.integers(0, LATEST_MS), st.integers(0, (1 << 64) - 1))


@st.composite
def entries(draw: st.DrawFn) -> Entry:
    """An entry of which the peer gets the cells of some families."""
    body = [
        type(cell)(cell.row, draw(families), cell.qualifier, cell.timestamp, cell.type, cell.value, cell.tags)
        for cell in draw(st.lists(cells, max_size=5))
    ]
    table = draw(st.sampled_from([b"t", b"ns:u", b"hbase:meta"]))
    return entry(*body, table=table, write_time=draw(times), families=draw(st.lists(families, unique=True)))


def expected(written: list[Entry]) -> list[tuple[str, int, bytes]]:
    """What the filters keep: table, the entry's place, and the cell as it is in the WAL."""
    batch = wal_batch(written)
    kept = filter_batch(batch, RULES, WAL.path)
    return [
        (table_name(batch, i).decode(), batch.entry_offset(i), cell.data)
        for i in range(len(batch.index))
        for span in kept.spans(batch, i)
        for cell in split_cells(span)
    ]


def as_in_the_wal(row: dict[str, Any]) -> bytes:
    (kind,) = (code for code, name in TYPE_NAMES.items() if name == row["type"])
    return Cell(row["row"], row["family"], row["qualifier"], row["timestamp"], kind, row["value"], row["tags"]).encode()


@given(st.lists(entries(), max_size=6), st.integers(1, 2000))
def test_the_rows_are_the_cells_that_the_filters_keep(written: list[Entry], batch_bytes: int) -> None:
    found = []
    for each in changes(written, batch_bytes=batch_bytes):
        each.rows.validate(full=True)
        assert each.rows.schema.equals(SCHEMA)
        assert len(each.days) == each.rows.num_rows > 0
        found += [(each.table, row["offset"], as_in_the_wal(row)) for row in each.rows.to_pylist()]
    assert sorted(found) == sorted(expected(written))


@given(st.lists(entries(), max_size=6))
def test_offset_and_cell_name_a_cell(written: list[Entry]) -> None:
    names = [(row["wal"], row["offset"], row["cell"]) for each in changes(written) for row in each.rows.to_pylist()]
    assert len(set(names)) == len(names)


def test_a_cell_keeps_its_number_in_the_entry_when_cells_before_it_are_left_out() -> None:
    (found,) = changes([entry(put(b"a", family=b"local"), put(b"b"), put(b"c"))])
    assert [(row["row"], row["cell"]) for row in found.rows.to_pylist()] == [(b"b", 1), (b"c", 2)]


def test_a_row_has_what_the_entry_says() -> None:
    (found,) = changes([entry(put(b"r"), table=b"ns:u", write_time=LATEST_MS, sequence_id=7)])
    (row,) = found.rows.to_pylist()
    assert found.table == "ns:u"
    assert row["type"] in TYPE_NAMES.values()
    assert (row["region"], row["sequence_id"], row["wal_group"], row["wal"]) == ("r" * 32, 7, WAL.group, WAL.name)
    assert row["write_time"].isoformat() == "9999-12-31T23:59:59.999000+00:00"
    assert found.days.tolist() == [LATEST_MS // DAY_MS]


@pytest.mark.parametrize("write_time", [LATEST_MS + 1, (1 << 63) - 1, (1 << 64) - 1])
def test_a_write_time_that_is_none_is_null(write_time: int) -> None:
    (found,) = changes([entry(put(b"r"), write_time=write_time)])
    assert found.rows.to_pylist()[0]["write_time"] is None
    assert found.days.tolist() == [NO_DAY]


def test_the_documented_columns_are_those_of_the_schema() -> None:
    kinds = {"binary": "binary", "long": "int64", "string": "string", "timestamptz": "timestamp[us, tz=UTC]"}
    documented = dict(re.findall(r"^    (\w+) +(binary|long|string|timestamptz|list<string>)", str(module.__doc__), re.M))
    assert [*documented] == SCHEMA.names
    for field in SCHEMA:
        said: Any = documented[field.name]
        assert kinds.get(said, "list<element: string not null>") == str(field.type)
        assert field.nullable == (field.name in OF_ENTRIES)
