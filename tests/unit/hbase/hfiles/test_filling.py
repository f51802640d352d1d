"""Blocks end where they are full, but never between equal keys, and take no cells that cannot be in a file."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.hbase.hfiles.models import stored
from tests.unit.hbase.hfiles.reading import cells_of, read
from tests.unit.hbase.hfiles.writing import CELLS, ORIGIN, put, write
from tests.unit.hbase.wal.encoder import PUT, Cell
from walferry.hbase.hfiles.errors import BadCells
from walferry.hbase.hfiles.settings import FileSettings
from walferry.hbase.hfiles.writer import write_file


@given(CELLS, st.sampled_from([1, 100, 300]))
def test_a_block_ends_with_the_cell_that_fills_it(cells: list[Cell], block_bytes: int) -> None:
    *full, last = read(write(cells, FileSettings(block_bytes=block_bytes))[0], slow_checksums=False).data_blocks
    for block in full:
        assert len(block.data) - len(stored(cells_of(block)[-1])) < block_bytes <= len(block.data)
    assert len(last.data) - len(stored(cells_of(last)[-1])) < block_bytes


def test_cells_with_equal_keys_stay_in_one_block() -> None:
    cells = [put(b"a", b"1" * 300), put(b"a", b"2" * 300), put(b"a", b"3"), put(b"b", b"4")]
    file = read(write(cells, FileSettings(block_bytes=100), at_most=2)[0])
    assert [len(cells_of(block)) for block in file.data_blocks] == [3, 1]
    assert file.cells == cells


@pytest.mark.parametrize("at_most", [1, 5])
@pytest.mark.parametrize(
    ("third", "problem"),
    [
        (stored(put(b"a")), "sorts before"),
        (stored(put(b"c", qualifier=b"p")), "sorts before"),
        (stored(Cell(b"d", b"mam", b"q", 1, PUT, b"")), "another family"),
        (stored(Cell(b"d", b"family", b"q", 1, PUT, b"")), "another family"),
        (stored(put(b"d"))[:-1], "lengths contradict"),
        (b"\xff" * 40, "lengths contradict"),
        (b"x", "lengths contradict"),
    ],
)
def test_cells_that_cannot_be_in_a_file_are_an_error(third: bytes, problem: str, at_most: int) -> None:
    first = [stored(put(b"b")), stored(put(b"c"))]
    parts = [*first, third] if at_most == 1 else [b"".join([*first, third])]
    with pytest.raises(BadCells, match=f"cell 2 of an HFile: .*{problem}"):
        write_file(lambda data: None, [np.frombuffer(part, np.uint8) for part in parts], FileSettings(), ORIGIN)
