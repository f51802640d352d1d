"""An HFile's cells in columns are the cells that were written."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from tests.unit.hbase.hfiles.models import random_cells
from tests.unit.hbase.hfiles.writing import CELLS, SETTINGS, write
from tests.unit.hbase.wal.encoder import Cell
from tests.unit.hbase.wal.memory_file import MemoryFile
from walferry.hbase.hfiles.arrow import columns_of
from walferry.hbase.hfiles.encodings import Encoding
from walferry.hbase.hfiles.file_cells import FileCells
from walferry.hbase.hfiles.opened import open_hfile
from walferry.hbase.hfiles.settings import FileSettings
from walferry.hbase.wal.cells import CellType

COLUMNS = ("row", "family", "qualifier", "timestamp", "type", "value", "tags")


def read(cells: list[Cell], settings: FileSettings, start: bytes = b"", stop: bytes = b"", piece: int = 2_000) -> list[tuple]:
    file = open_hfile(MemoryFile(write(cells, settings)[0]), "x")
    reading, found = FileCells(file, start, stop, piece), list[tuple]()
    while not reading.ended:
        reading.read_on()
        first, end = reading.take_until(None)
        columns = columns_of(reading.cells.data, reading.cells.starts[first:end], tags=file.has_tags)
        found += zip(*(columns[name].to_pylist() for name in COLUMNS), strict=True)
    return found


def as_row(cell: Cell) -> tuple:
    kind = CellType(cell.type).hbase_name
    return cell.row, cell.family, cell.qualifier, cell.timestamp, kind, cell.value, cell.tags


@settings(deadline=None)
@given(CELLS, SETTINGS)
def test_columns_have_the_cells_of_a_file_with_their_tags(cells: list[Cell], settings: FileSettings) -> None:
    assert read(cells, settings) == [as_row(cell) for cell in cells]


@pytest.mark.parametrize("encoding", Encoding)
def test_columns_have_the_cells_of_a_range_of_rows(encoding: Encoding) -> None:
    cells = random_cells(5, 3_000)
    rows = sorted({cell.row for cell in cells})
    start, stop = rows[len(rows) // 3], rows[2 * len(rows) // 3]
    found = read(cells, FileSettings(block_bytes=2_000, encoding=encoding), start, stop)
    assert found == [as_row(cell) for cell in cells if start <= cell.row < stop]
    assert found


def test_no_cells_are_columns_without_rows() -> None:
    found = columns_of(np.empty(0, np.uint8), np.empty(0, np.int64), tags=True)
    assert sorted(found) == sorted(COLUMNS)
    assert all(len(column) == 0 for column in found.values())
