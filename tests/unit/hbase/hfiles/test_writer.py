"""Files have the cells that were written, however these come.

That HBase would write the same bytes is shown in tests/embedded/test_store_files.py.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.hbase.hfiles.reading import read
from tests.unit.hbase.hfiles.writing import CELLS, ORIGIN, SETTINGS, write
from tests.unit.hbase.wal.encoder import Cell
from walferry.hbase.hfiles.settings import FileSettings
from walferry.hbase.hfiles.writer import write_file


@pytest.mark.slow
@given(CELLS, SETTINGS, st.sampled_from([1, 2, 1000]))
def test_a_file_has_the_cells_that_were_written(cells: list[Cell], settings: FileSettings, at_most: int) -> None:
    data, _ = write(cells, settings, at_most=at_most)
    file = read(data, slow_checksums=len(data) < 9_000)
    assert file.cells == cells
    assert file.trailer.entry_count == len(cells)
    assert file.trailer.compression_codec == settings.compression


@given(CELLS, SETTINGS)
def test_the_same_file_is_written_however_its_cells_come(cells: list[Cell], settings: FileSettings) -> None:
    assert write(cells, settings, at_most=1)[0] == write(cells, settings, at_most=3)[0] == write(cells, settings)[0]


def test_nothing_is_written_of_nothing() -> None:
    out = bytearray()
    assert write_file(out.extend, [np.empty(0, np.uint8)], FileSettings(), ORIGIN) is None
    assert not out
