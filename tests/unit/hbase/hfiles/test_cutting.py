"""Runs are cut at a row as plain Python would do it, and the parts are runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.hbase.hfiles.models import numbered, split_run
from tests.unit.hbase.hfiles.test_merge import CELL, CELLS, SOUND, Spilled, broken, encoded, held, merged
from tests.unit.hbase.wal.encoder import PUT, Cell
from tests.unit.hbase.wal.memory_file import MemoryFile
from walferry.hbase.hfiles.cutting import RunPart, cut
from walferry.hbase.hfiles.errors import BrokenRun

ROWS = st.one_of(st.sampled_from([b"", b"r", b"r\0", b"s", b"\xff"]), st.binary(max_size=30))
SIZES = st.sampled_from([0, 1, 60, 100, 300, 1 << 20])
RUNS = st.lists(st.tuples(CELLS, st.integers(0, 3)), max_size=20).map(encoded)


def put(row: bytes, value: bytes = b"value") -> Cell:
    return Cell(row, b"f", b"q", 1, PUT, value)


@given(RUNS, ROWS, SIZES)
def test_what_lies_before_a_cut_has_the_rows_before_it_and_what_follows_the_others(data: bytes, row: bytes, size: int) -> None:
    at = cut(MemoryFile(memoryview(data)), row, chunk_bytes=size)
    cells = split_run(data)
    assert split_run(data[:at]) == [each for each in cells if each[0].row < row]
    assert split_run(data[at:]) == [each for each in cells if each[0].row >= row]


@given(RUNS, st.lists(ROWS, max_size=4).map(sorted), SIZES)
def test_a_run_is_divided_into_the_shares_of_several_regions(data: bytes, rows: list[bytes], size: int) -> None:
    rest: MemoryFile | RunPart = MemoryFile(memoryview(data))
    shares = []
    for row in rows:
        at = cut(rest, row, chunk_bytes=size)
        shares.append(RunPart(rest, 0, at))
        rest = RunPart(rest, at, rest.size)
    cells = [cell for share in (*shares, rest) for cell in merged([share], chunk_bytes=100)]
    assert cells == merged(held(data))
    for row, share in zip(rows, shares, strict=True):
        assert all(cell.row < row for cell in merged([share]))


@given(st.binary(max_size=30), st.data())
def test_a_part_is_read_like_the_bytes_that_it_has(data: bytes, draw: st.DataObject) -> None:
    start, end = sorted((draw.draw(st.integers(0, len(data))), draw.draw(st.integers(0, len(data)))))
    part, own = RunPart(MemoryFile(memoryview(data)), start, end), data[start:end]
    offset, length = draw.draw(st.integers(0, 40)), draw.draw(st.integers(0, 40))
    assert part.size == len(own)
    assert bytes(part.read_at(offset, length)) == own[offset : offset + length]


@pytest.mark.parametrize(("start", "end"), [(-1, 3), (3, 2), (0, 6), (6, 6)])
def test_a_part_lies_within_its_run(start: int, end: int) -> None:
    with pytest.raises(ValueError, match="a run of 5 bytes has no part"):
        RunPart(MemoryFile(memoryview(bytes(5))), start, end)


def test_a_cell_that_is_longer_than_what_is_read_at_once_is_passed_over() -> None:
    data = encoded([(put(b"a"), 1), (put(b"m", bytes(3_000_000)), 1), (put(b"z"), 1)])
    run = MemoryFile(memoryview(data))
    assert cut(run, b"n", chunk_bytes=1) == len(data) - len(numbered(put(b"z"), 1))
    assert cut(run, b"m", chunk_bytes=1) == len(numbered(put(b"a"), 1))


def test_a_run_in_a_file_is_read_in_parts_and_no_further_than_the_row(tmp_path: Path) -> None:
    (tmp_path / "run").write_bytes(encoded([(put(b"%05d" % i, bytes(90)), 1) for i in range(2_000)]))
    run = Spilled(tmp_path / "run")
    assert cut(run, b"00500", chunk_bytes=10_000) * 4 == run.size
    assert max(run.asked) == 10_000
    assert run.size // 4 <= sum(run.asked) < run.size // 3


def test_runs_that_can_be_written_to_are_cut_too() -> None:
    assert cut(MemoryFile(memoryview(bytearray(SOUND))), b"row3") == 3 * CELL


@pytest.mark.parametrize("size", [1, CELL, 1 << 20])
@pytest.mark.parametrize(("data", "offset", "problem"), list(broken()))
def test_a_run_that_is_none_is_an_error_with_its_offset(data: bytes, offset: int, problem: str, size: int) -> None:
    with pytest.raises(BrokenRun, match=f"sorted run at byte {offset}: .*{problem}"):
        cut(MemoryFile(memoryview(data)), b"z", chunk_bytes=size)


def test_what_follows_the_row_is_not_looked_at() -> None:
    assert cut(MemoryFile(memoryview(SOUND[: 2 * CELL] + bytes(100))), b"row1") == CELL


def test_a_file_that_gives_less_than_it_has_is_an_error() -> None:
    class Short(MemoryFile):
        def read_at(self, offset: int, length: int) -> memoryview:
            return super().read_at(offset, length - 1)

    with pytest.raises(OSError, match="a sorted run gave"):
        cut(Short(memoryview(SOUND)), b"z")
