"""Divides the rows of a table into ranges, of which each is merged by itself, and these into windows that are read at once.

    the state's files      ── ─────  ───       rows of none lie within the rows of another
    ranges              |─────|──────|─────|   each begins with the first row of a file
    windows             |────────────|─────|   ranges that follow each other, with little to read
    change files         ─────  ────── ─   ─   in groups of rows (Parquet's row groups), which overlap

A range with much to read is divided again, by samples of the rows that are to be read.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from itertools import accumulate

RANGE_BYTES = 32 << 20  # of change files to read at once: some ten times as much in memory
MOST_RANGES = 100  # of a window, and of a task: each writes some three files, whose figures are in the task's answer
CELL_BYTES = 80  # of a state's row in memory, about, without typed columns


@dataclass(frozen=True)
class Rows:
    """Rows from `first` up to `last`, with both (None: no limit), and the bytes that they take."""

    first: bytes
    last: bytes | None
    size: int = 0


@dataclass(frozen=True)
class RowGroup:
    """Groups of rows of a file that follow each other: the file's number, the first group within it, and how many there are."""

    file: int
    first: int
    count: int
    rows: Rows


@dataclass(frozen=True)
class Sample:
    """A row of a file, and the bytes of the file up to the next sample."""

    row: bytes
    size: int


@dataclass(frozen=True)
class Range:
    """The rows from `start` to before `stop` (None: the end), the numbers of the state's files with some of them, and the bytes
    of changes to read for them, about.

    `whole` says that these files have no other rows, so that they may stay as they are.
    """

    start: bytes
    stop: bytes | None
    files: tuple[int, ...]
    size: int = 0
    whole: bool = True


@dataclass(frozen=True)
class Window:
    """Ranges that follow each other, and what may have some of their rows: groups of change files, and files of markers."""

    ranges: tuple[Range, ...]
    changes: tuple[RowGroup, ...]
    markers: tuple[int, ...]


def may_have(rows: Rows, start: bytes, stop: bytes | None) -> bool:
    """Return whether there may be rows from `start` to before `stop` (None: the end) among some rows."""
    return (stop is None or rows.first < stop) and (rows.last is None or rows.last >= start)


def ranges_of(
    files: Sequence[Rows], changes: Sequence[RowGroup] = (), samples: Iterable[Sample] = (), markers: Sequence[Rows] = (),
    due: AbstractSet[int] = frozenset(), range_bytes: int = RANGE_BYTES,
) -> list[Range]:  # fmt: skip
    """Divide all rows into ranges. Returns those that are to be merged, in the order of their rows.

    `files` are those of the state, of which those that are `due` are written again in any case. `samples` are of the files that
    are to be read: change files, and files of the state that have rows in common. `markers` are the files of markers.
    """
    overlaps, to_read = _Overlaps(changes), _Samples([*samples, *(Sample(rows.first, rows.size) for rows in markers)])
    found = list[Range]()
    for each in by_files(files):
        # What is not written again must not be divided.
        if overlaps.any_within(each.start, each.stop) or not due.isdisjoint(each.files):
            found += _divided(each, files, to_read, range_bytes)
    return found


def most_ranges(more_bytes: int) -> int:
    """Return how many ranges a task may have at most, if typed columns add so many bytes to each row, and so make more files."""
    return max(1, MOST_RANGES * CELL_BYTES // (CELL_BYTES + more_bytes))


def windows_of(
    ranges: Iterable[Range], changes: Sequence[RowGroup], markers: Sequence[Rows], most: int, window_bytes: int = RANGE_BYTES
) -> list[Window]:
    """Join ranges to windows of `most` at most, with about `window_bytes` to read."""
    overlaps, some, size, found = _Overlaps(changes), list[Range](), 0, list[Window]()

    def close() -> None:
        if some:
            start, stop = some[0].start, some[-1].stop
            known = tuple(number for number, rows in enumerate(markers) if may_have(rows, start, stop))
            found.append(Window(tuple(some), tuple(overlaps.within(start, stop)), known))

    for each in ranges:
        if some and (size + each.size > window_bytes or len(some) >= most):
            close()
            some, size = [], 0
        some.append(each)
        size += each.size
    close()
    return found


def by_files(files: Sequence[Rows]) -> list[Range]:
    """Return a range for each file of the state, or for several if these have rows in common."""
    found = list[tuple[bytes, list[int]]]()
    last: bytes | None = b""
    for number in sorted(range(len(files)), key=lambda number: files[number].first):
        each = files[number]
        if found and (last is None or each.first <= last):
            found[-1][1].append(number)
            last = None if last is None or each.last is None else max(last, each.last)
        else:
            found.append((each.first, [number]))
            last = each.last
    if not found:
        return [Range(b"", None, ())]
    starts = [b"", *(first for first, _ in found[1:])]
    return [
        Range(start, stop, tuple(sorted(numbers)))
        for start, stop, (_, numbers) in zip(starts, [*starts[1:], None], found, strict=True)
    ]


class _Overlaps:
    """Groups of rows, to find those with rows of a range."""

    def __init__(self, groups: Sequence[RowGroup]) -> None:
        self._groups = sorted(groups, key=lambda group: group.rows.first)
        self._firsts = [group.rows.first for group in self._groups]
        self._reach = list[bytes | None]()  # the last row of this group and of those before it
        reach: bytes | None = b""
        for group in self._groups:
            reach = None if reach is None or group.rows.last is None else max(reach, group.rows.last)
            self._reach.append(reach)

    def any_within(self, start: bytes, stop: bytes | None) -> bool:
        """Return whether there may be rows from `start` to before `stop` in any group."""
        return next(self._within(start, stop), None) is not None

    def within(self, start: bytes, stop: bytes | None) -> list[RowGroup]:
        """Return the groups that may have rows from `start` to before `stop`."""
        return list(self._within(start, stop))

    def _within(self, start: bytes, stop: bytes | None) -> Iterator[RowGroup]:
        end = len(self._firsts) if stop is None else bisect_left(self._firsts, stop)
        begin = bisect_left(self._reach, True, hi=end, key=lambda reach: reach is None or reach >= start)
        return (self._groups[at] for at in range(begin, end) if may_have(self._groups[at].rows, start, stop))


class _Samples:
    """Samples of rows that are to be read, in their order."""

    def __init__(self, samples: Iterable[Sample]) -> None:
        in_order = sorted(samples, key=lambda sample: sample.row)
        self.rows = [sample.row for sample in in_order]
        self.before = [0, *accumulate(sample.size for sample in in_order)]  # bytes before each of them

    def size(self, start: bytes, stop: bytes | None) -> int:
        """Return the bytes of the samples from `start` to before `stop`."""
        return self.before[self._end(stop)] - self.before[bisect_left(self.rows, start)]

    def cuts(self, start: bytes, stop: bytes | None, most: int) -> Iterator[bytes]:
        """Yield rows between `start` and `stop`, with about `most` bytes from one to the next."""
        begin, end, last = bisect_left(self.rows, start), self._end(stop), start
        while begin < end:
            begin = bisect_left(self.before, self.before[begin] + most, lo=begin + 1, hi=end + 1)
            if begin < end and self.rows[begin] > last:
                last = self.rows[begin]
                yield last

    def _end(self, stop: bytes | None) -> int:
        return len(self.rows) if stop is None else bisect_left(self.rows, stop)


def _divided(whole: Range, files: Sequence[Rows], to_read: _Samples, range_bytes: int) -> Iterator[Range]:
    """Yield a range in parts, if there is much to read."""
    cuts = list(to_read.cuts(whole.start, whole.stop, range_bytes))
    for start, stop in zip([whole.start, *cuts], [*cuts, whole.stop], strict=True):
        here = tuple(number for number in whole.files if may_have(files[number], start, stop))
        yield replace(whole, start=start, stop=stop, files=here, size=to_read.size(start, stop), whole=not cuts)


def dealt(windows: Iterable[Window], tasks: int, most: int) -> list[list[Window]]:
    """Deal windows out to tasks with about as much to read each, or to more if they have many ranges: a task has `most`."""
    some = list(windows)
    costs = [sum(1 + each.size for each in window.ranges) for window in some]
    total, spent, parts, count = sum(costs), 0, list[list[Window]](), 0
    for window, cost in zip(some, costs, strict=True):
        if not parts or spent * tasks >= total * len(parts) or count + len(window.ranges) > most:
            parts.append([])
            count = 0
        parts[-1].append(window)
        spent += cost
        count += len(window.ranges)
    return parts
