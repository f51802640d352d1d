"""Each row lies in one range, with all files that may have it."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walferry.state_tables.ranges import (
    CELL_BYTES,
    MOST_RANGES,
    Range,
    RowGroup,
    Rows,
    Sample,
    by_files,
    dealt,
    may_have,
    most_ranges,
    ranges_of,
    windows_of,
)

keys = st.binary(max_size=2)


@st.composite
def some_rows(draw: st.DrawFn) -> Rows:
    first, last = sorted([draw(keys), draw(keys)])
    return Rows(first, draw(st.sampled_from([last, last, last, None])), draw(st.integers(0, 100)))


@st.composite
def apart(draw: st.DrawFn) -> list[Rows]:
    """Files as merges write them: none has rows of another."""
    cuts = sorted(draw(st.lists(keys, max_size=8, unique=True)))
    return [Rows(first, last, 10) for first, last in zip(cuts[::2], cuts[1::2], strict=False)]


def has(each: Range, row: bytes) -> bool:
    return each.start <= row and (each.stop is None or row < each.stop)


@given(
    st.one_of(apart(), st.lists(some_rows(), max_size=6)), st.lists(some_rows(), max_size=12), st.lists(some_rows(), max_size=12),
    st.lists(st.builds(Sample, keys, st.integers(0, 100)), max_size=20), st.sets(st.integers(0, 5)), keys, st.integers(1, 200),
)  # fmt: skip
def test_a_row_is_in_one_range_with_all_files_that_may_have_it(
    files: list[Rows], changes: list[Rows], markers: list[Rows], samples: list[Sample], due: set[int], row: bytes, size: int
) -> None:
    new = [RowGroup(number, 0, 1, rows) for number, rows in enumerate(changes)]
    ranges = ranges_of(files, new, samples, markers, due, size)
    windows = windows_of(ranges, new, markers, MOST_RANGES, size)
    assert [each for window in windows for each in window.ranges] == ranges
    of_row = {number for number, rows in enumerate(files) if may_have(rows, row, row + b"\0")}
    changed = {group.file for group in new if may_have(group.rows, row, row + b"\0")}
    known = {number for number, rows in enumerate(markers) if may_have(rows, row, row + b"\0")}
    found = [(window, each) for window in windows for each in window.ranges if has(each, row)]
    assert len(found) <= 1
    if changed or due & of_row:
        ((window, each),) = found
        assert of_row <= {*each.files}
        assert changed <= {group.file for group in window.changes}
        assert known <= {*window.markers}
    for before, after in pairwise(ranges):
        assert before.stop is not None
        assert before.stop <= after.start
    for number in range(len(files)):
        parts = [each for each in ranges if number in each.files]
        if any(not part.whole for part in parts):  # all its rows are read then, though they are in several ranges
            assert not any(part.whole for part in parts)
            assert not may_have(files[number], b"", parts[0].start) or files[number].first >= parts[0].start
            assert parts[-1].stop is None or not may_have(files[number], parts[-1].stop, None)
            assert all(before.stop == after.start for before, after in pairwise(parts))
        else:
            assert len(parts) <= 1


@given(st.lists(some_rows(), max_size=6), st.lists(some_rows(), max_size=12))
def test_without_changes_there_is_nothing_to_merge(files: list[Rows], markers: list[Rows]) -> None:
    assert ranges_of(files, [], [], markers, range_bytes=1) == []


@given(apart())
def test_files_that_lie_apart_have_a_range_each(files: list[Rows]) -> None:
    assert [each.files for each in by_files(files) if each.files] == [(number,) for number in range(len(files))]


def test_a_range_with_much_to_read_is_divided_where_the_rows_are() -> None:
    """Batches bring files of which each has rows from everywhere."""
    groups = [RowGroup(number, 0, 1, Rows(b"00", b"99", 10)) for number in range(20)]
    samples = [Sample(b"%02d" % row, 1) for _ in groups for row in range(0, 100, 10)]
    ranges = ranges_of([], groups, samples, range_bytes=50)
    assert len(ranges) > 3
    assert max(each.size for each in ranges) <= 60
    assert [each.start for each in ranges] == [b"", *(each.stop for each in ranges[:-1])]


def test_small_ranges_are_read_together() -> None:
    files = [Rows(b"%02d" % n, b"%02d" % n, 10) for n in range(50)]
    groups = [RowGroup(0, 0, 1, Rows(b"00", b"99", 100))]
    (window,) = windows_of(ranges_of(files, groups, [Sample(b"00", 100)], range_bytes=1000), groups, [], MOST_RANGES, 1000)
    assert len(window.ranges) == 50
    assert len(window.changes) == 1


@pytest.mark.parametrize(("columns", "ranges"), [(0, 100), (20, 28), (200, 3), (500, 1)])
def test_an_answer_stays_small_however_many_typed_columns_make_the_files_smaller(columns: int, ranges: int) -> None:
    more = 10 * columns
    assert most_ranges(more) == ranges
    files_a_range = 3 * (CELL_BYTES + more) / CELL_BYTES
    assert ranges * files_a_range <= 3 * MOST_RANGES or ranges == 1


@given(st.lists(st.integers(0, 50), max_size=300), st.integers(1, 8), st.integers(1, 100))
def test_windows_are_dealt_out_in_their_order_and_none_is_left(sizes: list[int], tasks: int, size: int) -> None:
    ranges = [Range(b"%03d" % n, b"%03d" % (n + 1), (), each) for n, each in enumerate(sizes)]
    windows = windows_of(ranges, [], [], MOST_RANGES, size)
    parts = dealt(windows, tasks, MOST_RANGES)
    assert [each for part in parts for window in part for each in window.ranges] == ranges
    assert all(parts)
    assert all(sum(len(window.ranges) for window in part) <= MOST_RANGES for part in parts)
