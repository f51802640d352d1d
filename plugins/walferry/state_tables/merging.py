"""A task of a merge: reads ranges of rows of a state and of its new changes, and writes what HBase shows by then.

Nobody sees the files that a task writes until the driver commits them (table_merge.py).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.io import FileIO

from walferry.base.errors import text_of
from walferry.base.kernels.types import Ints
from walferry.base.records import Record
from walferry.replication.sinks.changes import SCHEMA as CHANGES
from walferry.replication.sinks.changes import times_of
from walferry.replication.sinks.iceberg.data_files import FILE_BYTES, ChangeFile, OpenTable, Target, upper_bound
from walferry.replication.sinks.iceberg.typed_columns import row_bytes
from walferry.state_tables.hbase_rules import MARKERS, FamilyRules, changes_in, shown
from walferry.state_tables.ranges import Range, RowGroup, Rows, Sample, Window, may_have
from walferry.state_tables.tables import DELETES_SCHEMA, STATE_SCHEMA

STATE, DELETES = "state", "deletes"  # the table of a file, in an answer
PUT = "Put"
CELL = "cell"
# An answer has 1 MiB at most through Spark Connect.
MOST_GROUPS = MOST_SAMPLES = 32  # of a file, there
BOUND_BYTES = 64  # of a group's first and last row, there
SAMPLE_ROWS = 1024  # from one to the next at least
STATE_BOUND_BYTES = 256  # of a file's first and last row, and of a sample: ranges begin there
_MARKERS = pa.array([kind.hbase_name for kind in MARKERS])
_READ = (*(name for name in STATE_SCHEMA.names if name != "expires"), "type", CELL)


@dataclass(frozen=True)
class Footer:
    """The groups of rows of a file, and samples of its rows."""

    groups: tuple[RowGroup, ...]
    samples: tuple[Sample, ...]


@dataclass(frozen=True)
class Footers(Record):
    """What there is of some files, or what is wrong with one of them."""

    files: tuple[Footer, ...] = ()
    error: str = ""


def read_footers(target: Target, paths: Sequence[str]) -> Footers:
    """Return the groups of rows of change files. A file's number is its place in `paths`."""
    try:
        io = OpenTable.of(target, ["row"]).io
        return Footers(tuple(_footer(io, number, path) for number, path in enumerate(paths)))
    except Exception as error:
        return Footers(error=text_of(error))


def _footer(io: FileIO, number: int, path: str) -> Footer:
    with io.new_input(path).open() as file:
        found = pq.ParquetFile(file)
        size = sum(found.metadata.row_group(group).total_byte_size for group in range(found.num_row_groups))
        return Footer(tuple(_groups(found, number)), tuple(_samples(found, size)))


def _groups(found: pq.ParquetFile, number: int) -> Iterator[RowGroup]:
    """Yield where the groups of rows of a file begin and end, about: by some bytes of the rows, and for MOST_GROUPS at most."""
    each_rows = _rows_of_groups(found)
    count = max(1, -(-len(each_rows) // MOST_GROUPS))
    for first in range(0, len(each_rows), count):
        some = each_rows[first : first + count]
        lasts = [rows.last for rows in some if rows.last is not None]
        last = max(lasts) if len(lasts) == len(some) else None
        yield RowGroup(number, first, len(some), Rows(min(rows.first for rows in some), last, sum(rows.size for rows in some)))


def _rows_of_groups(found: pq.ParquetFile) -> list[Rows]:
    column = found.schema_arrow.get_field_index("row")
    return [_rows(found.metadata.row_group(group), column) for group in range(found.num_row_groups)]


def _rows(group: pq.RowGroupMetaData, column: int) -> Rows:
    figures = group.column(column).statistics
    if figures is None or not figures.has_min_max:  # Parquet leaves them out if a row is long
        return Rows(b"", None, group.total_byte_size)
    return Rows(figures.min[:BOUND_BYTES], upper_bound(figures.max, BOUND_BYTES), group.total_byte_size)


def _samples(found: pq.ParquetFile, size: int) -> Iterator[Sample]:
    """Yield rows of a file at equal distances. `size` are the bytes of all its rows."""
    count = found.metadata.num_rows
    if not count:
        return
    step = max(SAMPLE_ROWS, -(-count // MOST_SAMPLES))
    wanted, before = iter(range(0, count, step)), 0
    at = next(wanted, None)
    for batch in found.iter_batches(columns=["row"]):
        while at is not None and at < before + batch.num_rows:
            yield Sample(batch["row"][at - before].as_py()[:STATE_BOUND_BYTES], size * min(step, count - at) // count)
            at = next(wanted, None)
        before += batch.num_rows


@dataclass(frozen=True)
class MergeTask:
    """Windows of a table for a task. They name files by their places in `state_files`, `change_files` and `marker_files`."""

    table: str
    windows: tuple[Window, ...]
    state_files: tuple[str, ...]
    change_files: tuple[str, ...]
    marker_files: tuple[str, ...]
    families: tuple[FamilyRules, ...]
    now: int  # ms
    due: frozenset[int]  # files of the state that are written again also without changes

    @property
    def ranges(self) -> list[Range]:
        """All ranges of the task, in their order."""
        return [each for window in self.windows for each in window.ranges]


@dataclass(frozen=True)
class MergeAnswer(Record):
    """What a task has written: files, and the places of the ranges that they replace."""

    table: str
    replaced: tuple[int, ...] = ()
    files: tuple[ChangeFile, ...] = ()
    changes: int = 0  # that were read
    error: str = ""


def merge(state: Target, deletes: Target, changes: Target, task: MergeTask) -> MergeAnswer:
    """Merge the ranges of a task. Raises no error."""
    try:
        return _Merge(task, OpenTable.of(state, STATE_SCHEMA.names), OpenTable.of(deletes, DELETES_SCHEMA.names),
                      OpenTable.of(changes, ["row"]).io).run()  # fmt: skip
    except Exception as error:
        return MergeAnswer(task.table, error=text_of(error))


@dataclass(frozen=True)
class _Merge:
    task: MergeTask
    state: OpenTable
    deletes: OpenTable
    changes: FileIO

    def run(self) -> MergeAnswer:
        replaced, read, place = list[int](), 0, 0
        state, markers = list[ChangeFile](), list[pa.Table]()
        for window in self.task.windows:
            new, known = self._new(window), self._known(window)
            read += new.num_rows
            for each in window.ranges:
                here = _sliced(new, each)
                if here.num_rows or not each.whole or not self.task.due.isdisjoint(each.files):
                    files, added = self._merged(each, here, _sliced(known, each))
                    state += files
                    markers += [added] if added.num_rows else []
                    replaced.append(place)
                place += 1
        found = self.deletes.write(DELETES, ((None, part) for part in _parts(pa.concat_tables(markers), 0))) if markers else []
        return MergeAnswer(self.task.table, tuple(replaced), (*state, *found), read)

    def _merged(self, each: Range, new: pa.Table, known: pa.Table) -> tuple[list[ChangeFile], pa.Table]:
        """Write what HBase shows of a range. Returns the files, and the markers that were not known."""
        names = [name for name in _READ if name in STATE_SCHEMA.names]
        old = [_with(read_rows(self.state.io, self.task.state_files[file], names, each), _READ) for file in each.files]
        cells = pa.concat_tables([new, *old, _with(known, _READ)])
        places, ends = shown(cells, self.task.families, self.task.now)
        parts = _parts(_as_state(cells.take(pa.array(places)), ends), row_bytes(self.state.mapping))
        files = self.state.write(STATE, ((None, part) for part in parts), STATE_BOUND_BYTES)
        return files, _unlike(new.filter(pc.is_in(new["type"], _MARKERS)).select(DELETES_SCHEMA.names), known)

    def _known(self, window: Window) -> pa.Table:
        """Return the known markers of a window, sorted by row."""
        paths, span = [self.task.marker_files[number] for number in window.markers], _span(window)
        found = [read_rows(self.deletes.io, path, DELETES_SCHEMA.names, span) for path in paths]
        return pa.concat_tables([_empty(DELETES_SCHEMA.names), *found]).sort_by("row")

    def _new(self, window: Window) -> pa.Table:
        """Return the changes of a window, sorted by row."""
        of_file: dict[int, list[int]] = {}
        for group in window.changes:
            of_file.setdefault(group.file, []).extend(range(group.first, group.first + group.count))
        paths, span = self.task.change_files, _span(window)
        found = [read_rows(self.changes, paths[file], _READ, span, groups) for file, groups in of_file.items()]
        return pa.concat_tables([_empty(_READ), *found]).sort_by("row")


def _span(window: Window) -> Range:
    return Range(window.ranges[0].start, window.ranges[-1].stop, ())


def _sliced(in_order: pa.Table, each: Range) -> pa.Table:
    """Return the rows of a range, of rows that are in order."""
    rows = in_order["row"]

    def place(row: bytes) -> int:
        return bisect_left(range(len(rows)), row, key=lambda at: rows[at].as_py())

    first = place(each.start)
    return in_order.slice(first, (len(rows) if each.stop is None else place(each.stop)) - first)


def _type_of(name: str) -> pa.DataType:
    return (STATE_SCHEMA if name in STATE_SCHEMA.names else CHANGES).field(name).type


def _empty(names: Sequence[str]) -> pa.Table:
    return pa.table({name: pa.array([], _type_of(name)) for name in names})


def _with(rows: pa.Table, names: Sequence[str]) -> pa.Table:
    """Return rows with all these columns. Cells of the state are puts, and markers have no value."""
    made = {"type": pa.scalar(PUT), "value": pa.scalar(b"", pa.binary())}
    for name in {*names} - {*rows.column_names}:
        rows = rows.append_column(name, pa.repeat(made.get(name, pa.scalar(None, _type_of(name))), rows.num_rows))
    return rows.select(names)


def read_rows(io: FileIO, path: str, columns: Sequence[str], within: Range, groups: Sequence[int] | None = None) -> pa.Table:
    """Return the rows of a file that lie in a range; of some groups of rows only, or of those that may have some."""
    with io.new_input(path).open() as file:
        found = pq.ParquetFile(file)
        if groups is None:
            groups = [number for number, rows in enumerate(_rows_of_groups(found)) if may_have(rows, within.start, within.stop)]
        rows = found.read_row_groups(list(groups), columns=list(columns))
    rows = pa.table({name: rows[name].cast(_type_of(name)) for name in columns})
    wanted = pc.greater_equal(rows["row"], pa.scalar(within.start, pa.binary()))
    if within.stop is not None:
        wanted = pc.and_(wanted, pc.less(rows["row"], pa.scalar(within.stop, pa.binary())))
    return rows.filter(wanted)


def _unlike(markers: pa.Table, known: pa.Table) -> pa.Table:
    """Return the markers that are not known, each one once, in the order of their rows."""
    key = ["row", "family", "qualifier", "timestamp", "type", "tags"]
    numbered = markers.append_column("number", pa.array(np.arange(markers.num_rows)))
    once = numbered.group_by(key).aggregate([("number", "min")])
    left = once.join(known.select(key), keys=key, join_type="left anti")
    return markers.take(left["number_min"].combine_chunks()).sort_by("row")


def _as_state(cells: pa.Table, ends: Ints) -> pa.Table:
    """Return cells with the columns of a state."""
    return pa.table({name: times_of(ends) if name == "expires" else cells[name] for name in STATE_SCHEMA.names})


def _parts(rows: pa.Table, more_bytes: int, file_bytes: int = FILE_BYTES) -> list[pa.Table]:
    """Return rows in equal parts of about `file_bytes`, with `more_bytes` more a row. All cells of a row are in one part."""
    if not rows.num_rows:
        return []
    starts = np.flatnonzero(changes_in(rows["row"]))
    count = max(1, round((rows.nbytes + rows.num_rows * more_bytes) / file_bytes))
    wanted = [rows.num_rows * number // count for number in range(count)]
    cuts = sorted({int(starts[np.searchsorted(starts, at, side="right") - 1]) for at in wanted})
    return [rows.slice(first, stop - first) for first, stop in zip(cuts, [*cuts[1:], rows.num_rows], strict=True)]
