"""Files of two sides are compared: what is equal need not be scanned, and all that differs is."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace

import pytest

from tests.unit.hbase.hfiles.models import in_order, random_cells
from tests.unit.hbase.hfiles.writing import write
from tests.unit.hbase.wal.encoder import DELETE_COLUMN, PUT, Cell
from tests.unit.hbase.wal.memory_file import MemoryFile
from tests.unit.verification.test_digests import within
from walferry.hbase.hfiles.blocks import Compression
from walferry.hbase.hfiles.encodings import Encoding
from walferry.hbase.hfiles.errors import UnreadableHFile
from walferry.hbase.hfiles.opened import Block, open_hfile
from walferry.hbase.hfiles.settings import FileSettings
from walferry.hbase.tables.snapshots import SnapshotRegion, StoreFile
from walferry.verification.digests import FilesCompared, NeedsScan, Span
from walferry.verification.files import MOST_OPEN, FileCells, compare_cells, compare_files
from walferry.verification.job import Options, RangeFiles, SideFiles

PIECE = 3_000


def any_settings(dice: random.Random) -> FileSettings:
    return FileSettings(
        block_bytes=dice.choice([300, 2_000]), encoding=dice.choice(list(Encoding)), compression=dice.choice(list(Compression))
    )


def files(cells: Sequence[Cell], count: int, dice: random.Random, start: bytes = b"", stop: bytes = b"") -> list[FileCells]:
    """The cells, dealt out to some files with settings of their own."""
    numbers = dice.choices(range(count), k=len(cells))
    dealt = [[cell for cell, number in zip(cells, numbers, strict=True) if number == i] for i in range(count)]
    written = [write(each, any_settings(dice))[0] for each in dealt if each]
    return [FileCells(open_hfile(MemoryFile(data), f"file:/{i}"), start, stop, PIECE) for i, data in enumerate(written)]


def compared(
    ours: Sequence[Cell], theirs: Sequence[Cell], seed: int = 1, start: bytes = b"", stop: bytes = b"", **options: int
) -> FilesCompared:
    dice = random.Random(seed)
    source, peer_cluster = (files(cells, dice.randrange(1, 6), dice, start, stop) for cells in (ours, theirs))
    return compare_cells(source, peer_cluster, Options(**options))


def rows_with_puts(cells: Sequence[Cell]) -> int:
    return len({cell.row for cell in cells if cell.type == PUT})


@pytest.mark.parametrize("seed", range(5))
def test_equal_cells_are_equal_however_they_lie_in_files(seed: int) -> None:
    cells = random_cells(seed, 3_000, value=30)
    assert compared(cells, cells, seed) == FilesCompared(rows_with_puts(cells))
    assert compared([], [], seed) == FilesCompared()


@pytest.mark.parametrize("seed", range(10))
def test_each_difference_lies_in_a_span_and_most_other_rows_do_not(seed: int) -> None:
    dice = random.Random(seed)
    cells = random_cells(seed, 4_000, value=30)
    ours, theirs = list(cells), list(cells)
    rows = set()
    for _ in range(3):
        cell = theirs[dice.randrange(len(theirs))]
        rows.add(cell.row)
        change = dice.choice(["missing", "extra", "value", "time"])
        if change == "missing":
            theirs.remove(cell)
        elif change == "extra" and cell in ours:
            ours.remove(cell)
        elif change == "value":
            theirs[theirs.index(cell)] = replace(cell, value=cell.value + b"!")
        else:
            theirs[theirs.index(cell)] = replace(cell, timestamp=cell.timestamp + 1)
    found = compared(ours, in_order(theirs), seed)
    assert all(any(within(span, row) for span in found.spans) for row in rows)
    assert found.rows > rows_with_puts(cells) / 2
    left = [cell for cell in cells if not any(within(span, cell.row) for span in found.spans)]
    assert found.rows == rows_with_puts(left)
    assert all(
        one.stop is not None and two.start is not None and one.stop < two.start
        for one, two in zip(found.spans, found.spans[1:], strict=False)
    )


@pytest.mark.parametrize(("ours", "theirs"), [([], random_cells(1, 500)), (random_cells(1, 500), [])])
def test_a_side_without_cells_differs_everywhere(ours: list[Cell], theirs: list[Cell]) -> None:
    assert compared(ours, theirs) == FilesCompared(0, [Span(None, None)])


def test_only_the_rows_of_the_range_count() -> None:
    cells = random_cells(6, 3_000)
    start, stop = cells[700].row, cells[2_000].row
    inside = [cell for cell in cells if start <= cell.row < stop]
    found = compared(cells, inside, start=start, stop=stop)
    assert found == FilesCompared(rows_with_puts(inside))
    assert compared(cells, inside[:-1], start=start, stop=stop).spans[-1].stop is None


def test_only_the_times_that_are_asked_for_count() -> None:
    ours = [Cell(b"r%04d" % i, b"f", b"q", time, PUT, b"v%d" % time) for i in range(500) for time in (30, 20, 10)]
    theirs = [cell for cell in ours if cell.timestamp == 20]
    assert compared(ours, theirs, start_time=20, end_time=30) == FilesCompared(500)
    assert compared(ours, theirs, start_time=20).rows < 500
    assert compared(ours, theirs, end_time=30).rows < 500


def test_a_later_delete_counts_as_it_does_for_scans() -> None:
    cells = [Cell(b"r%04d" % i, b"f", b"q", 20, PUT, b"v") for i in range(500)]
    late = Cell(b"r0300", b"f", b"q", 40, DELETE_COLUMN, b"")
    found = compared(in_order([*cells, late]), cells, end_time=30)
    assert any(within(span, late.row) for span in found.spans)
    assert compared(in_order([*cells, replace(late, timestamp=10)]), cells, start_time=15) == FilesCompared(500)


def test_two_cells_of_one_key_are_left_to_scans() -> None:
    """The one that was written last counts, and files of both sides may have been written in another order."""
    cells = random_cells(8, 2_000, tags=False)
    twice = next(cell for cell in cells[1_000:] if cell.type == PUT)
    other = replace(twice, value=b"other")

    def side(*parts: Sequence[Cell]) -> list[FileCells]:
        return [FileCells(open_hfile(MemoryFile(write(part)[0]), "x"), b"", b"", PIECE) for part in parts]

    found = compare_cells(side(cells, [other]), side(in_order([*cells, other]), [twice]), Options())
    assert len(found.spans) == 1
    assert within(found.spans[0], twice.row)


def test_a_row_that_is_larger_than_many_pieces_is_compared() -> None:
    cells = [Cell(b"a", b"f", b"q%06d" % i, 1, PUT, b"v" * 100) for i in range(3_000)]
    cells += [Cell(b"b", b"f", b"q", 1, PUT, b"v")]
    assert compared(cells, cells) == FilesCompared(2)
    (span,) = compared(cells, cells[:-1]).spans
    assert within(span, b"b")


def test_a_row_that_is_too_large_for_memory_is_left_to_scans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("walferry.hbase.hfiles.file_cells.MAX_ROW_BYTES", 20_000)
    cells = [Cell(b"a", b"f", b"q%06d" % i, 1, PUT, b"v" * 100) for i in range(300)]
    with pytest.raises(UnreadableHFile, match=r"file:/. cannot be read: one of its rows has more than 20,000 bytes"):
        compared(cells, cells)


@pytest.mark.parametrize("broken", ["within a piece", "between pieces"])
def test_a_file_that_is_not_sorted_is_left_to_scans(broken: str) -> None:
    """The rows that differ would not be found where they are."""
    cells = random_cells(4, 400, tags=False)
    first, second = (list(open_hfile(MemoryFile(write(part)[0]), "x").data_blocks()) for part in (cells[:200], cells[200:]))
    joined = [Block(first[0].magic, second[0].data + first[0].data)]
    blocks = joined if broken == "within a piece" else [*second, *first]
    file = SimpleNamespace(has_tags=True, has_sequence_ids=False, cells=400, url="x", data_blocks=lambda *_: iter(blocks))
    sides = [FileCells(each, b"", b"", 1) for each in (file, open_hfile(MemoryFile(write(cells)[0]), "y"))]
    with pytest.raises(UnreadableHFile, match="x cannot be read: its cells are not sorted"):
        compare_cells(sides[:1], sides[1:], Options())


def test_a_file_that_lacks_cells_is_left_to_scans() -> None:
    cells = random_cells(4, 400)
    whole = open_hfile(MemoryFile(write(cells, FileSettings(block_bytes=500))[0]), "x")
    end = list(whole.data_blocks())[-1]
    file = SimpleNamespace(
        has_tags=True, has_sequence_ids=False, cells=400, url="x",
        data_blocks=lambda *_: (block for block in whole.data_blocks() if block != end),
    )  # fmt: skip
    with pytest.raises(UnreadableHFile, match=r"x cannot be read: it has \d+ cells, and not 400"):
        compare_cells([FileCells(file, b"", b"")], [], Options())


def test_cells_from_before_1970_count_unless_times_are_asked_for() -> None:
    ours = [Cell(b"r%03d" % i, b"f", b"q", 5, PUT, b"v") for i in range(99)]
    early = [replace(ours[50], timestamp=-5)]
    assert compared([*ours[:51], *early, *ours[51:]], ours).spans
    assert not compared([*ours[:51], *early, *ours[51:]], ours, end_time=9).spans


def test_files_that_need_too_much_memory_are_left_to_scans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("walferry.verification.files.MOST_HELD", 3_000)
    cells = random_cells(1, 500)
    with pytest.raises(NeedsScan, match="more than 3,000"):
        compared(cells, cells)


def region(*stored: StoreFile) -> SideFiles:
    return SideFiles("file:/no/root", (SnapshotRegion("t", "abc", b"", b"", stored),))


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ([StoreFile(b"f", "x.parent", 5, ("data/x",), reference=True)], "half of a file"),
        ([StoreFile(b"f", "x", 5, ("data/x",))], "is in none of file:/no/root/data/x"),
        ([StoreFile(b"f", "x", 5, ("data/x",))] * (MOST_OPEN + 1), f"has {MOST_OPEN + 1} files"),
    ],
)
def test_what_cannot_be_read_is_left_to_scans_with_the_reason(files: list[StoreFile], why: str) -> None:
    with pytest.raises(NeedsScan, match=why):
        compare_files(RangeFiles(region(), region(*files)), b"", b"", Options())
