"""Scanned rows as entries of a WAL."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.hbase.wal.encoder import DELETE_COLUMN, PUT, Cell
from walferry.base.protos import hbase_pb2 as pb
from walferry.hbase.tables.rows import Rows, index_rows
from walferry.hbase.wal.reader import plain
from walferry.hbase.wal.wal_batches import WalBatch
from walferry.shipping.rows import entry_of, repeated

CHOICES = [
    (None, [0, 3, 4, 5, 6, 7]),
    ([True, True, True], [0, 3, 4, 5, 6, 7]),
    ([True, False, True], [0, 3, 4, 7]),
    ([False, True, False], [5, 6]),
]


def cell(row: bytes, qualifier: bytes = b"q", timestamp: int = 5, kind: int = PUT, value: bytes = b"v") -> Cell:
    return Cell(row, b"f", qualifier, timestamp, kind, value)


CELLS = [
    cell(b"r1", value=b"newest"), cell(b"r1", value=b"older"), cell(b"r1", value=b"oldest"), cell(b"r1", timestamp=4),
    cell(b"r1", timestamp=4, kind=DELETE_COLUMN), cell(b"r2", timestamp=4), cell(b"r2", b"p", timestamp=4),
    cell(b"r3", b"p", 4),
]  # fmt: skip


def rows_of(cells: list[Cell]) -> Rows:
    return index_rows(b"".join(each.encode() for each in cells), len(cells))


def read(entry: bytes) -> WalBatch:
    found = plain(np.frombuffer(entry, dtype=np.uint8), 0)
    assert found.fault is None
    assert found.consumed == len(entry)
    return found.batch


@pytest.mark.parametrize(("chosen", "written"), CHOICES)
def test_of_equal_keys_only_the_newest_cell_is_written_and_all_else_of_the_chosen_rows_stays_as_it_is(
    chosen: list[bool] | None, written: list[int]
) -> None:
    rows = rows_of(CELLS)
    assert repeated(rows) == [1, 2]
    batch = read(entry_of("ns:t", [b"f", b"g"], rows, None if chosen is None else np.array(chosen)))
    index = batch.index
    assert batch.buf[int(index.cells_start[0]) : int(index.cells_end[0])].tobytes() == b"".join(
        CELLS[i].encode() for i in written
    )
    key = pb.WALKey.FromString(batch.buf[int(index.key_start[0]) : int(index.key_end[0])].tobytes())
    assert (key.table_name, key.following_kv_count) == (b"ns:t", len(written))
    assert [(scope.family, scope.scope_type) for scope in key.scopes] == [(b"f", 1), (b"g", 1)]


def test_one_cell_is_an_entry_too() -> None:
    rows = rows_of([cell(b"r")])
    assert repeated(rows) == []
    assert int(read(entry_of("t", [b"f"], rows)).index.cell_count[0]) == 1


def test_no_entry_is_written_if_no_row_is_chosen() -> None:
    assert entry_of("t", [b"f"], rows_of(CELLS), np.zeros(3, dtype=np.bool_)) == b""
