"""Files of changes: what is written is what is read, sorted, by days, with figures that Iceberg prunes by."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from walferry.replication.sinks.changes import DAY_MS
from walferry.replication.sinks.iceberg import data_files as module
from walferry.replication.sinks.iceberg.commits import Batch, Positions, append
from walferry.replication.sinks.iceberg.data_files import DataFiles, Target
from walferry.replication.sinks.iceberg.tables import table_of

from .lake import WAL, catalog_in, changes, entry, files_of, put, rows_of

BATCH = Batch("peer", "b")
NAME = ("default", "t_changes")
MOVED = {WAL.group: (WAL.name, 9999)}


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    return catalog_in(tmp_path)


def test_what_is_written_is_what_another_engine_reads(catalog: SqlCatalog) -> None:
    table = table_of(catalog, NAME)
    found = changes([entry(*(put(f"r{n:03}".encode(), bytes([n])) for n in reversed(range(100))))])
    append(table, BATCH, files_of(table, *found), seen=Positions(), moved=MOVED)
    read = rows_of(table)
    assert [row["row"] for row in read] == [f"r{n:03}".encode() for n in range(100)]
    written = {row["row"]: row for each in found for row in each.rows.to_pylist()}
    assert {row["row"]: row for row in read} == written


def test_each_day_has_files_of_its_own_and_others_are_not_read(catalog: SqlCatalog) -> None:
    table = table_of(catalog, NAME)
    days = [entry(put(f"r{day}".encode()), write_time=day * DAY_MS) for day in (1, 2, 3)]
    files = files_of(table, *changes(days))
    append(table, BATCH, files, seen=Positions(), moved=MOVED)
    assert sorted(file.day for file in files if file.day) == [1, 2, 3]
    third = table.scan(row_filter="write_time >= '1970-01-04T00:00:00+00:00'")
    assert [task.file.record_count for task in third.plan_files()] == [1]
    assert [row["row"] for row in third.to_arrow().to_pylist()] == [b"r3"]


def test_an_entry_without_a_write_time_has_a_file_without_a_day(catalog: SqlCatalog) -> None:
    table = table_of(catalog, NAME)
    files = files_of(table, *changes([entry(put(b"r"), write_time=(1 << 64) - 1)]))
    append(table, BATCH, files, seen=Positions(), moved=MOVED)
    assert [file.day for file in files] == [None]
    assert [row["write_time"] for row in rows_of(table)] == [None]


def test_a_task_holds_no_more_than_its_memory(catalog: SqlCatalog) -> None:
    table = table_of(catalog, NAME)
    found = [each for n in range(10) for each in changes([entry(put(b"r%d" % n, b"x" * 1000))])]
    files = files_of(table, *found, memory_bytes=3000, file_bytes=1 << 20)
    assert len(files) >= 4
    append(table, BATCH, files, seen=Positions(), moved=MOVED)
    assert sorted(row["row"] for row in rows_of(table)) == sorted(b"r%d" % n for n in range(10))


def test_many_changes_become_several_files(catalog: SqlCatalog) -> None:
    table = table_of(catalog, NAME)
    files = files_of(table, *changes([entry(*(put(b"r%03d" % n, b"x" * 100) for n in range(100)))]), file_bytes=5000)
    append(table, BATCH, files, seen=Positions(), moved=MOVED)
    assert len(files) > 2
    assert len(rows_of(table)) == 100


def test_a_column_that_users_have_added_is_null(catalog: SqlCatalog) -> None:
    from pyiceberg.types import StringType

    table = table_of(catalog, NAME)
    with table.update_schema() as update:
        update.add_column("theirs", StringType())
    table = table_of(catalog, NAME)
    append(table, BATCH, files_of(table, *changes([entry(put(b"r"))])), seen=Positions(), moved=MOVED)
    (row,) = table.scan().to_arrow().to_pylist()
    assert row["row"] == b"r"
    assert row["theirs"] is None


def test_a_write_that_fails_leaves_the_changes_where_they_are(catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_of(catalog, NAME)
    writer = DataFiles({"t": Target.of(table)})
    for each in changes([entry(put(b"r"))]):
        writer.add(each)
    with monkeypatch.context() as full:
        full.setattr(module, "write_file", lambda *_: (_ for _ in ()).throw(OSError("No space left on device")))
        with pytest.raises(OSError, match="No space left"):
            writer.finish()
    assert [file.rows for file in writer.finish()] == [1]


def test_many_days_are_written_in_one_pass(catalog: SqlCatalog) -> None:
    table = table_of(catalog, NAME)
    days = [entry(put(b"r%d" % (day % 7)), write_time=day * DAY_MS) for day in range(300)]
    files = files_of(table, *changes(days))
    assert [file.day for file in files] == list(range(300))
    assert sum(file.rows for file in files) == 300


def test_a_task_is_not_told_the_positions_of_the_feed(catalog: SqlCatalog) -> None:
    table = table_of(catalog, NAME)
    append(table, BATCH, files_of(table, *changes([entry(put(b"r"))])), seen=Positions(), moved=MOVED)
    table.refresh()
    assert WAL.group not in Target.of(table).metadata


def test_what_the_driver_learns_of_a_file_is_short(catalog: SqlCatalog) -> None:
    table = table_of(catalog, NAME)
    (file,) = files_of(table, *changes([entry(put(b"r" * 300, b"v" * 300))]))
    assert len(file.to_json()) < 1500
