"""Rows survive the shuffle: as Arrow's batches, whatever their data."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from walferry.bulkload.rows import BATCH_BYTES, COLUMNS, MAX_ERROR_CHARS, SCHEMA, Note, Row, WalReport, batches, rows_in
from walferry.spark.load_tasks import COLUMNS as SPARK_COLUMNS

INT = st.integers(-(1 << 31), (1 << 31) - 1)


def row(data: bytes, wal: int = 1) -> Row:
    return Row(0, 0, 0, wal, 0, memoryview(data))


def plain(rows: Iterable[Row]) -> list[tuple[object, ...]]:
    return [(row.partition, row.region, row.family, row.wal, row.number, bytes(row.data)) for row in rows]


def sent(some: Iterable[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """The batches as another process gets them."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, SCHEMA) as writer:
        for batch in some:
            batch.validate(full=True)
            writer.write_batch(batch)
    with pa.ipc.open_stream(sink.getvalue()) as reader:
        return list(reader)


def test_spark_is_told_of_the_columns_that_there_are() -> None:
    kinds = {"int": pa.int32(), "binary": pa.binary()}
    assert pa.schema([(name, kinds[kind]) for name, kind in SPARK_COLUMNS.items()]) == SCHEMA
    assert tuple(SPARK_COLUMNS) == COLUMNS


@given(st.lists(st.builds(Row, INT, INT, INT, INT, INT, st.binary(max_size=40).map(memoryview)), max_size=20))
def test_rows_are_the_same_behind_the_shuffle(rows: list[Row]) -> None:
    assert plain(rows_in(sent(batches(rows)))) == plain(rows)


def test_rows_of_some_megabytes_and_empty_ones_are_the_same() -> None:
    rows = [row(bytes([number % 251]) * size, number) for number, size in enumerate([0, 9 << 20, 0, 0, 3 << 20, 3 << 20, 1, 0])]
    assert plain(rows_in(sent(batches(rows)))) == plain(rows)


@pytest.mark.parametrize(
    "sizes", [[], [0], [0] * 5000, [BATCH_BYTES], [BATCH_BYTES + 1] * 3, [1 << 20] * 30, [1, BATCH_BYTES, 1]]
)
def test_a_batch_is_bounded_unless_one_row_is_larger(sizes: list[int]) -> None:
    data = bytes(max(sizes, default=0))
    found = list(batches(row(data[:size]) for size in sizes))
    assert sum(batch.num_rows for batch in found) == len(sizes)
    for batch in found:
        assert batch.num_rows == 1 or sum(map(len, batch["data"].to_pylist())) <= BATCH_BYTES


def test_batches_that_spark_has_cut_are_read_too() -> None:
    """A slice begins within its buffers."""
    rows = [row(bytes([number]) * number, number) for number in range(20)]
    (batch,) = batches(rows)
    assert plain(rows_in([batch.slice(0, 3), batch.slice(3, 0), batch.slice(3)])) == plain(rows)


def test_notes_and_reports_are_read_as_they_were_written() -> None:
    note = Note(3, 7, "why\nnot", {"ns:t": "labels", "caf\\xe9": "x"})
    assert Note.from_json(note.to_json()) == Note(3, 7, "why not", note.unfit)
    assert len(Note.from_json(Note(error="x" * 1_000_000).to_json()).error) == MAX_ERROR_CHARS
    report = WalReport(3, 1 << 40, False, 5, 6, {"loaded": 1}, 7, {"t": [1, 2, 3, 4]}, True)
    assert WalReport.from_json(report.to_json()) == report
