"""Runs are merged as sorting all of their cells in plain Python would do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.hbase.hfiles.models import TYPES, numbered, sort_key, split_stored, stored
from tests.unit.hbase.wal.encoder import PUT, Cell, encode_tags
from tests.unit.hbase.wal.memory_file import MemoryFile
from walferry.hbase.hfiles import merge
from walferry.hbase.hfiles.errors import BrokenRun, TooManyRuns
from walferry.hbase.hfiles.merge import merge_runs

Numbered = tuple[Cell, int] | tuple[Cell, int, int]
TTL = encode_tags([(8, (1000).to_bytes(8))])
TAGS = st.sampled_from([b"", b"", encode_tags([(70, b"x")]), TTL, encode_tags([(1, b"acl"), (8, bytes(8))])])
CELLS = st.builds(
    Cell,
    row=st.one_of(st.sampled_from([b"r", b"s"]), st.binary(min_size=1, max_size=30)),
    family=st.just(b"fam"),
    qualifier=st.sampled_from([b"", b"q", b"a-qualifier-of-more-than-eight-bytes", b"a-qualifier-of-more-than-eight-byteS"]),
    timestamp=st.integers(0, 2),
    type=st.sampled_from(TYPES),
    value=st.binary(max_size=40),
    tags=TAGS,
)
RUNS = st.lists(st.lists(st.tuples(CELLS, st.integers(0, 3)), max_size=12), max_size=9)


def encoded(cells: Sequence[Numbered]) -> bytes:
    """A run of these cells with their sequence ids and write times: of those with one key and id, the last comes first."""
    order = sorted(range(len(cells)), key=lambda i: (sort_key(cells[i][0]), -cells[i][1], -i))
    latest_first = [cells[i] for i in order]
    return b"".join(numbered(*each) for each in latest_first)


def expected(runs: Sequence[Sequence[Numbered]]) -> list[Cell]:
    """Of the cells with one key: the latest, and the latest of an earlier edit as long as the one before can expire."""
    everything = [(cell, number, r, i) for r, cells in enumerate(runs) for i, (cell, number, *_) in enumerate(cells)]
    everything.sort(key=lambda found: (sort_key(found[0]), -found[1], -found[2], -found[3]))
    written = []
    for _, same in groupby(everything, key=lambda found: sort_key(found[0])):
        before = None
        for cell, number, *_ in same:
            if number == before:
                continue
            written.append(cell)
            before = number
            if cell.tags not in (TTL, encode_tags([(1, b"acl"), (8, bytes(8))])):
                break
    return written


def held(*runs: bytes) -> list[MemoryFile]:
    return [MemoryFile(memoryview(run)) for run in runs]


def merged(runs, **sizes: int) -> list[Cell]:
    return [cell for chunk in merge_runs(runs, **sizes) for cell in split_stored(chunk.tobytes())]


@given(RUNS, st.sampled_from([1, 64, 300, 1 << 20]), st.sampled_from([1, 200, 1 << 20]))
def test_a_merge_is_the_sorted_sum_of_its_runs(runs: list[list[Numbered]], part_bytes: int, chunk_bytes: int) -> None:
    with patch.object(merge, "MIN_PART_BYTES", part_bytes), patch.object(merge, "MAX_PART_BYTES", part_bytes):
        assert merged(held(*map(encoded, runs)), chunk_bytes=chunk_bytes) == expected(runs)


@given(RUNS)
def test_chunks_have_whole_cells_and_the_size_that_was_asked_for(runs: list[list[Numbered]]) -> None:
    for chunk in merge_runs(held(*map(encoded, runs)), chunk_bytes=150):
        cells = split_stored(chunk.tobytes())
        assert cells
        assert b"".join(map(stored, cells)) == chunk.tobytes()
        assert len(chunk) <= 150 or len(cells) == 1


def test_a_run_that_was_cut_into_pieces_is_merged_like_the_whole() -> None:
    cells = [(Cell(b"row%04d" % i, b"f", b"q", 1, PUT, bytes(i % 50)), 1) for i in range(3_000)]
    pieces = [encoded(cells[i : i + 7]) for i in range(0, len(cells), 7)]
    assert merged(held(*reversed(pieces)), memory_bytes=1 << 20) == [cell for cell, _ in cells]


class Spilled:
    """A run in a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.asked: list[int] = []

    @property
    def size(self) -> int:
        return self.path.stat().st_size

    def read_at(self, offset: int, length: int) -> bytes:
        self.asked.append(length)
        with self.path.open("rb") as file:
            file.seek(offset)
            return file.read(length)


def test_runs_in_files_are_read_once_and_in_parts(tmp_path: Path) -> None:
    runs: list[Spilled] = []
    for r in range(3):
        path = tmp_path / str(r)
        path.write_bytes(encoded([(Cell(b"%05d" % (3 * i + r), b"f", b"", 1, PUT, bytes(90)), 1) for i in range(2_000)]))
        runs.append(Spilled(path))
    assert [cell.row for cell in merged(runs, memory_bytes=48 << 10)] == [b"%05d" % i for i in range(6_000)]
    for run in runs:
        assert max(run.asked) == 16 << 10
        assert sum(run.asked) == run.size


def test_a_cell_that_is_longer_than_a_part_is_read_whole() -> None:
    long = Cell(b"m", b"f", b"", 1, PUT, bytes(3_000_000))
    runs = [[(Cell(b"a", b"f", b"", 1, PUT, b""), 1), (long, 1), (Cell(b"z", b"f", b"", 1, PUT, b""), 1)], [(long, 2)], []]
    assert merged(held(*map(encoded, runs)), memory_bytes=1) == expected(runs)


def test_nothing_gives_nothing() -> None:
    assert list(merge_runs([])) == []
    assert list(merge_runs(held(b"", b"", b""))) == []


def test_what_a_cell_replaces_in_its_own_edit_is_gone_even_if_the_cell_expires() -> None:
    """A memstore gives all cells of an edit one number, and has one cell with a key and a number."""
    first, expiring, earlier = (Cell(b"r", b"f", b"q", 1, PUT, v, tags) for v, tags in ((b"1", b""), (b"2", TTL), (b"0", b"")))
    assert merged(held(encoded([(earlier, 6), (first, 7), (expiring, 7)]))) == [expiring, earlier]
    assert merged(held(encoded([(first, 7)]), encoded([(expiring, 7)]), encoded([(earlier, 6)]))) == [expiring, earlier]


def test_the_later_of_two_chunks_does_not_repeat_what_the_last_cell_of_the_one_before_hides() -> None:
    cell = Cell(b"r", b"f", b"q", 1, PUT, b"old")
    new = Cell(b"r", b"f", b"q", 1, PUT, b"new")
    assert merged(held(encoded([(cell, 1)]), encoded([(new, 2)])), chunk_bytes=len(stored(new))) == [new]


SOUND = encoded([(Cell(b"row%d" % i, b"f", b"q", 1, PUT, b"value"), 1) for i in range(5)])
CELL = len(SOUND) // 5


def broken() -> Iterator[tuple[bytes, int, str]]:
    """Runs that are none, with the offset and the problem that the error tells."""
    yield SOUND[:-1], 4 * CELL, "ends within a cell"
    yield SOUND[: CELL + 3], CELL, "ends within a cell"
    for at, value in ((0, -1), (0, 11), (0, 1 << 30), (4, -1), (4, (1 << 31) - 1)):
        lie = SOUND[: 2 * CELL + at] + (value & 0xFFFFFFFF).to_bytes(4) + SOUND[2 * CELL + at + 4 :]
        yield lie, 2 * CELL, "no cell here"
    yield SOUND[: CELL + 8] + b"\xff\xff" + SOUND[CELL + 10 :], CELL, "no cell here"  # the length of its row
    yield SOUND[: CELL + 14] + b"\xff" + SOUND[CELL + 15 :], CELL, "no cell here"  # of its family
    yield SOUND[: 2 * CELL - 18] + b"\xff\xff" + SOUND[2 * CELL - 16 :], CELL, "no cell here"  # of its tags


@pytest.mark.parametrize(("data", "offset", "problem"), list(broken()))
def test_a_run_that_is_none_is_an_error_with_its_number_and_offset(data: bytes, offset: int, problem: str) -> None:
    with pytest.raises(BrokenRun, match=f"sorted run 1 at byte {offset}: .*{problem}"):
        list(merge_runs(held(SOUND, data)))


def test_a_cell_that_claims_to_be_longer_than_its_run_is_not_waited_for_in_memory() -> None:
    lie = (24).to_bytes(4) + (200 << 20).to_bytes(4) + SOUND[8:]
    with pytest.raises(BrokenRun, match="ends within a cell"):
        list(merge_runs(held(lie)))


def test_a_file_that_gives_less_than_it_has_is_an_error() -> None:
    class Short(MemoryFile):
        def read_at(self, offset: int, length: int) -> memoryview:
            return super().read_at(offset, length - 1)

    with pytest.raises(OSError, match="sorted run 0 gave"):
        list(merge_runs([Short(memoryview(SOUND))]))


def test_more_runs_than_can_be_merged_at_once_are_refused() -> None:
    with pytest.raises(TooManyRuns, match="16,385 sorted runs are more than the 16,384 that are merged at once"):
        list(merge_runs(held(*[SOUND] * (merge.MAX_RUNS + 1))))


def test_chunks_stay_as_they_are_when_the_merge_goes_on() -> None:
    cells = [(Cell(b"row%04d" % i, b"f", b"q", 1, PUT, bytes(20)), 1) for i in range(500)]
    chunks = list(merge_runs(held(encoded(cells)), chunk_bytes=1000))
    assert len(chunks) > 10
    assert np.concatenate(chunks).tobytes() == b"".join(stored(cell) for cell, _ in cells)
