"""Decoding to Arrow: the same cells, in tables of the documented columns."""

import re
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.hbase.wal.decoding import decode, decode_until_error
from tests.unit.hbase.wal.encoder import Entry, encode_wal
from tests.unit.hbase.wal.memory_file import MemoryFile
from tests.unit.hbase.wal.samples import SAMPLE, SAMPLE_BYTES, SAMPLE_STARTS
from tests.unit.hbase.wal.strategies import entries, rows
from walferry.hbase.wal import arrow
from walferry.hbase.wal.arrow import SCHEMA, read_batches


def test_the_documented_columns_are_those_of_the_schema() -> None:
    assert arrow.__doc__ is not None
    documented = re.findall(r"^    (\w+) +(string|int64|binary|list<string>)", arrow.__doc__, re.M)
    assert [name for name, _ in documented] == SCHEMA.names
    for name, kind in documented:
        assert str(SCHEMA.field(name).type).replace("element: string not null", "string") == kind
        assert not SCHEMA.field(name).nullable


@given(st.lists(entries(), max_size=6), st.integers(1, 3000), st.integers(1, 3000))
def test_the_cells_read_are_the_cells_written(written: list[Entry], wal_batch_bytes: int, batch_bytes: int) -> None:
    assert decode(encode_wal(written), wal_batch_bytes=wal_batch_bytes, batch_bytes=batch_bytes) == rows(written)


def test_reading_from_a_position_gives_the_cells_from_there_on() -> None:
    for i, start in enumerate(SAMPLE_STARTS):
        assert decode(SAMPLE_BYTES, start) == [row for row in rows(SAMPLE) if row["key_offset"] >= SAMPLE_STARTS[i]]


@pytest.mark.parametrize("batch_bytes", [0, -1, arrow.MAX_BATCH_BYTES + 1])
def test_a_batch_that_arrow_could_not_hold_is_refused(batch_bytes: int) -> None:
    with pytest.raises(ValueError, match="a batch may have"):
        next(read_batches(MemoryFile(SAMPLE_BYTES), "wal", batch_bytes=batch_bytes))


@pytest.mark.parametrize("flip", [0x01, 0x80, 0xFF])
def test_with_any_byte_flipped_the_cells_before_it_are_right(flip: int) -> None:
    expected = rows(SAMPLE)
    for at in range(SAMPLE_STARTS[0], SAMPLE_STARTS[-1]):
        broken = bytearray(SAMPLE_BYTES)
        broken[at] ^= flip
        found, error = decode_until_error(bytes(broken))
        assert error is None or error.offset >= max((row["next_offset"] for row in found), default=0)
        untouched = [row for row in expected if row["next_offset"] <= at]
        assert found[: len(untouched)] == untouched


def test_batches_are_tables_that_arrow_can_write(tmp_path: Any) -> None:
    batches = list(read_batches(MemoryFile(SAMPLE_BYTES), "wal"))
    table = pa.Table.from_batches(batches)
    with pa.ipc.new_file(tmp_path / "t.arrow", table.schema) as out:
        out.write_table(table)
    assert pa.ipc.open_file(tmp_path / "t.arrow").read_all().to_pylist() == rows(SAMPLE)
