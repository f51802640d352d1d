"""Rows survive the shuffle: as Arrow's batches, whatever their data."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from walferry.load.errors import BrokenRow
from walferry.shipping.bulkload.load_spread import COLUMNS as SPARK_COLUMNS
from walferry.shipping.bulkload.rows import (
    BATCH_BYTES,
    COLUMNS,
    MAX_ERROR_CHARS,
    NUMBERS,
    SCHEMA,
    Note,
    ShuffleRow,
    WalReport,
    batches,
    rows_in,
)

INT = st.integers(-(1 << 31), (1 << 31) - 1)


def row(data: bytes, wal: int = 1) -> ShuffleRow:
    return ShuffleRow(0, 0, 0, wal, 0, memoryview(data))


def plain(rows: Iterable[ShuffleRow]) -> list[tuple[object, ...]]:
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


@given(st.lists(st.builds(ShuffleRow, INT, INT, INT, INT, INT, st.binary(max_size=40).map(memoryview)), max_size=20))
def test_rows_are_the_same_behind_the_shuffle(rows: list[ShuffleRow]) -> None:
    assert plain(rows_in(sent(batches(rows)))) == plain(rows)


def test_rows_of_some_megabytes_and_empty_ones_are_the_same() -> None:
    rows = [row(bytes([number % 251]) * size, number) for number, size in enumerate([0, 9 << 20, 0, 0, 3 << 20, 3 << 20, 1, 0])]
    assert plain(rows_in(sent(batches(rows)))) == plain(rows)


def test_a_row_that_can_be_made_smaller_is_and_comes_out_whole() -> None:
    text = b"".join(b"row-%08d value of the row " % number for number in range(200_000))
    rows = [row(text, 1), row(text[:100], 2), row(random.Random(1).randbytes(1 << 20), 3)]
    through = sent(batches(rows))
    small, as_it_is, random_bytes = (data for batch in through for data in batch["data"].to_pylist())
    assert len(small) < len(text) / 3
    assert [as_it_is, random_bytes] == [bytes(rows[1].data), bytes(rows[2].data)]
    assert plain(rows_in(through)) == plain(rows)


TEXT = b"walferry " * 10_000


@pytest.mark.parametrize("data", [b"some bytes", TEXT], ids=["as they are", "compressed"])
@given(place=st.integers(0), bit=st.integers(0, 7))
def test_a_row_that_was_changed_on_its_way_is_refused_or_whole_again(data: bytes, place: int, bit: int) -> None:
    """A changed LZ4 block may stand for the same bytes."""
    (batch,) = batches([row(data, 7)])
    (through,) = batch["data"].to_pylist()
    changed = bytearray(through)
    changed[place % len(changed)] ^= 1 << bit
    column = pa.array([bytes(changed)], pa.binary())
    found, problem = None, ""
    try:
        (found,) = rows_in([batch.set_column(COLUMNS.index("data"), "data", column)])
    except BrokenRow as error:
        problem = str(error)
    if found is None:
        assert "row 0 of the load's WAL 7" in problem
    else:
        assert data is TEXT
        assert bytes(found.data) == TEXT


@pytest.mark.parametrize("name", [*NUMBERS, "crc"])
@given(bit=st.integers(0, 30))
def test_a_row_whose_numbers_were_changed_on_their_way_is_refused(name: str, bit: int) -> None:
    """It would go into another region or family, or be the newer of two equal cells."""
    (batch,) = batches([ShuffleRow(1, 2, 3, 4, 5, memoryview(b"some bytes"))])
    changed = pa.array([batch[name].to_pylist()[0] ^ 1 << bit], pa.int32())
    with pytest.raises(BrokenRow):
        list(rows_in([batch.set_column(COLUMNS.index(name), name, changed)]))


def test_a_row_that_lacks_its_last_byte_is_refused() -> None:
    for data in (b"some bytes", TEXT):
        (batch,) = batches([row(data, 7)])
        column = pa.array([batch["data"].to_pylist()[0][:-1]], pa.binary())
        with pytest.raises(BrokenRow, match="row 0 of the load's WAL 7"):
            list(rows_in([batch.set_column(COLUMNS.index("data"), "data", column)]))


@pytest.mark.parametrize("size", [-1, 0, 1, len(TEXT) - 1, len(TEXT) + 1, (1 << 31) - 1])
def test_a_row_of_another_size_is_refused(size: int) -> None:
    (batch,) = batches([row(TEXT, 7)])
    with pytest.raises(BrokenRow):
        list(rows_in([batch.set_column(COLUMNS.index("size"), "size", pa.array([size], pa.int32()))]))


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
