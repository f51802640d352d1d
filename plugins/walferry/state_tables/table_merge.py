"""The merge of one table of HBase: its new changes into its state.

    read which change files the state has not read yet                change_files.py
    tasks: read where their groups of rows begin and end              merging.read_footers
    divide the rows into ranges                                       ranges.py
    tasks: read a range, write what HBase shows of it by now          merging.merge, hbase_rules.py
    commit the markers, then the state                                tables.py

The state says up to which snapshot of the changes it has read, in the same commit as its cells. Killed at any step, the next
merge begins where the last commit was. Of two merges side by side, one can commit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table
from pyiceberg.types import TimestamptzType

from walferry.base.errors import WalferryError
from walferry.base.jobs import Backend, BackendFailed, Tell
from walferry.base.texts import one_line
from walferry.replication.sinks.iceberg.commits import check_copy_ended, other_feeds, positions_of
from walferry.replication.sinks.iceberg.data_files import ChangeFile, Target
from walferry.replication.sinks.iceberg.tables import LakeError
from walferry.replication.sinks.iceberg.typed_columns import row_bytes
from walferry.shipping.lake.catalog import Lake, identifier, is_file_of
from walferry.state_tables.change_files import data_files, files_since, valid_through
from walferry.state_tables.hbase_rules import FamilyRules
from walferry.state_tables.merging import DELETES, STATE, Footer, Footers, MergeAnswer, MergeTask, merge, read_footers
from walferry.state_tables.ranges import RowGroup, Rows, Window, by_files, dealt, most_ranges, ranges_of, windows_of
from walferry.state_tables.tables import Merged, StateTables, rows_of

TASKS_A_CORE = 4
FOOTERS_A_TASK = 20
ROUND_BYTES = 1 << 30  # of change files to merge before a commit, for each core
ROUND_FILES = 500  # of batches, which may all have rows of each range
PATIENCE_MS = 86_400_000  # a file is not written again for each cell that expires: readers see when it does
MAX_CHARS = 300


@dataclass(frozen=True)
class StateOutcome:
    """What a merge has done for one table of HBase."""

    table: str
    changes: int = 0  # that were read
    files: int = 0  # of the state that were written
    cells: int = 0  # in these
    problem: str = ""


@dataclass
class TableMerge:
    """The merge of one table."""

    lake: Lake
    name: str
    rules: Callable[[], tuple[FamilyRules, ...]]  # of the table's families now
    run_id: str
    on: Backend
    say: Tell = print

    def run(self) -> StateOutcome:
        """Merge, in rounds that each read the changes of some batches. Raises LakeError, BackendFailed, and what `rules` does.

        Each round ends with a commit, and the next one begins anew: a catalog may lend its storage for an hour only.
        """
        done = StateOutcome(self.name)
        try:
            while True:
                found, ended = self._round()
                done = StateOutcome(self.name, done.changes + found.changes, done.files + found.files, done.cells + found.cells)
                if ended:
                    return done
                self.say(f"table {self.name}: {done.changes:,} changes are merged, and there are more")
        except WalferryError:
            raise
        except Exception as error:  # of the catalog, or of files that it names
            raise LakeError(f"table {self.name} cannot be merged: {one_line(str(error), MAX_CHARS)}") from error

    def _round(self) -> tuple[StateOutcome, bool]:
        """Merge the changes of some batches. Returns what was done, and whether these were the last ones."""
        self._check_changes()
        self.lake.make(self.name)  # a mapping that the changes refuse does not change the state
        self.mapping = self.lake.mappings.get(self.name)
        self.tables = StateTables.opened(self.lake.catalog, self.name, self.mapping)
        merged, now = self.tables.merged, int(time.time() * 1000)
        changes = self.lake.make(self.name)  # after the state, which then has no later ones
        self._check_feed(changes)
        if merged is not None and merged.changes != str(changes.metadata.table_uuid):
            raise LakeError(
                f"{'.'.join(self.tables.state.name())} is the state of another table of changes, which was dropped",
                f"Drop it and {'.'.join(self.tables.deletes.name())}: the next merge makes them again",
            )
        new = files_since(changes, merged.snapshot if merged is not None else None, self.on.cores * ROUND_BYTES, ROUND_FILES)
        families = self.rules()  # after the files, which then have no cells of a family that is not known yet
        files = list(data_files(self.tables.state))
        columns = self.tables.columns_of(self.mapping)
        rows = [rows_of(file, self.tables.state) for file in files]
        anew, left = self._anew(merged, (families, columns), rows)
        due = anew | {number for number, file in enumerate(files) if _has_expired(file, self.tables.state, now)}
        if new is None and not due:
            return StateOutcome(self.name), True
        plan = _Plan(
            self.name, [file.file_path for file in files], [file.file_path for file in (new.files if new is not None else ())],
            [(file.file_path, rows_of(file, self.tables.deletes)) for file in data_files(self.tables.deletes)],
            families, now, due,
        )  # fmt: skip
        most, wanted = most_ranges(row_bytes(self.mapping)), max(1, self.on.cores * TASKS_A_CORE)
        windows = self._windows(changes, plan, rows, most, wanted)
        tasks = [plan.task(each) for each in dealt(windows, wanted, most)]
        answers = self._answers(changes, tasks)
        snapshot = new.snapshot if new is not None else merged.snapshot if merged is not None else 0
        noted = Merged(str(changes.metadata.table_uuid), snapshot, families, columns, left)
        done = self._commit(noted, files, tasks, answers, valid_through(changes, snapshot))
        return done, (new is None or new.last) and not left

    def _anew(
        self, merged: Merged | None, now: tuple[tuple[FamilyRules, ...], str], files: Sequence[Rows]
    ) -> tuple[frozenset[int], str]:
        """Return files that other rules or typed columns are to be applied to in this round, and from which row the next one
        goes on (`Merged.left`).

        Others may have grown a state to any size, and a round begins anew if it is killed.
        """
        if merged is None or ((merged.families, merged.columns) == now and not merged.left):
            return frozenset(), ""
        begin = bytes.fromhex(merged.left) if (merged.families, merged.columns) == now else b""
        wanted = [number for number, rows in enumerate(files) if rows.last is None or rows.last >= begin]
        found, size = list[int](), 0
        for number in sorted(wanted, key=lambda number: files[number].first):
            if size > self.on.cores * ROUND_BYTES and files[number].first > max(begin, files[found[-1]].first):
                return frozenset(found), files[number].first.hex()
            found.append(number)
            size += files[number].size
        return frozenset(found), ""

    def _windows(self, changes: Table, plan: _Plan, files: Sequence[Rows], most: int, tasks: int) -> list[Window]:
        """Divide the rows that are to be merged, for so many tasks with `most` ranges each. Raises LakeError, BackendFailed."""
        footers, markers = self._footers(changes, plan.change_files), [rows for _, rows in plan.marker_files]
        groups = [replace(group, file=number) for number, footer in enumerate(footers) for group in footer.groups]
        samples = [sample for footer in footers for sample in footer.samples]
        # Files of the state that others have written may have rows in common, and are then read together.
        mixed = [number for each in by_files(files) if len(each.files) > 1 for number in each.files]
        of_state = self._footers(self.tables.state, [plan.state_files[number] for number in mixed])
        samples += [sample for footer in of_state for sample in footer.samples]
        ranges = ranges_of(files, groups, samples, markers, plan.due)
        # A window is one task's. Files that are only written again have nothing to read in change files.
        return windows_of(ranges, groups, markers, max(1, min(most, -(-len(ranges) // tasks))))

    def _check_changes(self) -> None:
        """Raise LakeError unless there is a table of changes: none is to be made here."""
        at = identifier(self.name)
        if not self.lake.catalog.table_exists(at):
            raise LakeError(f"the lake has no {'.'.join(at)} yet", "A batch, or a first copy, makes it")

    def _check_feed(self, changes: Table) -> None:
        """Raise LakeError if no state can be made of the changes."""
        name, feed = ".".join(changes.name()), self.lake.feed
        if others := other_feeds(changes, feed):
            raise LakeError(
                f"{name} has edits of two feeds, {feed} and {one_line(others[0], MAX_CHARS)}, whose order nobody knows",
                "Let two peers, or two sources, feed two catalogs",
            )
        check_copy_ended(changes, positions_of(changes, feed).copied)

    def _footers(self, table: Table, paths: Sequence[str]) -> list[Footer]:
        """Return what there is of a table's files. Raises LakeError, BackendFailed."""
        some = [paths[first : first + FOOTERS_A_TASK] for first in range(0, len(paths), FOOTERS_A_TASK)]
        answers = self.on.run(partial(read_footers, Target.of(table)), some, Footers, lost=lambda _, why: Footers(error=why))
        for asked, answer in zip(some, answers, strict=True):
            if answer.error:
                raise LakeError(f"files of {'.'.join(table.name())} cannot be read: {one_line(answer.error, MAX_CHARS)}")
            if len(answer.files) != len(asked):
                raise BackendFailed(f"the answer for {len(asked)} files is one for {len(answer.files)}")
        return [footer for answer in answers for footer in answer.files]

    def _answers(self, changes: Table, tasks: Sequence[MergeTask]) -> list[MergeAnswer]:
        """Have the tasks run. Raises LakeError if one has failed, BackendFailed."""
        targets = Target.of(self.tables.state, self.mapping), Target.of(self.tables.deletes), Target.of(changes)
        answers = self.on.run(partial(merge, *targets), tasks, MergeAnswer, lost=_lost)
        for task, done in zip(tasks, answers, strict=True):
            if done.error:
                raise LakeError(f"table {self.name} cannot be merged: {one_line(done.error, MAX_CHARS)}")
            if why := self._why_wrong(task, done):
                raise BackendFailed(f"the answer for table {self.name} makes no sense: {one_line(why, MAX_CHARS)}")
        return answers

    def _why_wrong(self, task: MergeTask, answer: MergeAnswer) -> str:
        """Return what is wrong with a task's answer; empty if it may be committed."""
        if answer.table != self.name:
            return f"it is one for {answer.table}"
        if odd := [place for place in answer.replaced if not 0 <= place < len(task.ranges)]:
            return f"there is no range {odd[0]}"
        if any(not each.whole and place not in answer.replaced for place, each in enumerate(task.ranges)):
            return "a part of a file's rows is missing"
        for file in answer.files:
            if not is_file_of({STATE: self.tables.state, DELETES: self.tables.deletes}.get(file.table), file.path):
                return f"{file.path} is no file of the {file.table} table"
        return ""

    def _commit(
        self, merged: Merged, files: Sequence[DataFile], tasks: Sequence[MergeTask], answers: Sequence[MergeAnswer], through: str
    ) -> StateOutcome:
        by_path = {file.file_path: file for file in files}
        gone = {
            task.state_files[number]
            for task, answer in zip(tasks, answers, strict=True)
            for place in answer.replaced
            for number in task.ranges[place].files
        }
        written: dict[str, list[ChangeFile]] = {STATE: [], DELETES: []}
        for answer in answers:
            for file in answer.files:
                written[file.table].append(file)
        self.tables.commit(
            self.run_id, merged, markers=written[DELETES], added=written[STATE],
            removed=[by_path[path] for path in sorted(gone)], valid_through=through,
        )  # fmt: skip
        return StateOutcome(
            self.name, sum(each.changes for each in answers), len(written[STATE]), sum(each.rows for each in written[STATE])
        )


@dataclass(frozen=True)
class _Plan:
    """What tasks are made of: files by their places, and the places of those of the state that are written again in any case."""

    name: str
    state_files: Sequence[str]
    change_files: Sequence[str]
    marker_files: Sequence[tuple[str, Rows]]
    families: tuple[FamilyRules, ...]
    now: int
    due: frozenset[int]

    def task(self, windows: Sequence[Window]) -> MergeTask:
        """Return a task for windows, with the files that these need."""
        state, new, known = (
            {number: place for place, number in enumerate(sorted(numbers))}
            for numbers in (
                {number for window in windows for each in window.ranges for number in each.files},
                {group.file for window in windows for group in window.changes},
                {number for window in windows for number in window.markers},
            )
        )
        groups = dict[RowGroup, RowGroup]()  # each one once, also in the message to the task
        for group in (group for window in windows for group in window.changes):
            if group not in groups:
                groups[group] = replace(group, file=new[group.file])
        placed = tuple(
            Window(
                tuple(replace(each, files=tuple(state[number] for number in each.files)) for each in window.ranges),
                tuple(groups[group] for group in window.changes),
                tuple(known[number] for number in window.markers),
            )
            for window in windows
        )
        return MergeTask(
            self.name, placed, tuple(self.state_files[number] for number in state),
            tuple(self.change_files[number] for number in new), tuple(self.marker_files[number][0] for number in known),
            self.families, self.now, frozenset(state[number] for number in self.due & state.keys()),
        )  # fmt: skip


def _lost(task: MergeTask, why: str) -> MergeAnswer:
    return MergeAnswer(task.table, error=why)


def _has_expired(file: DataFile, state: Table, now: int) -> bool:
    """Return whether a file of the state may have cells that had expired a while before `now` (ms)."""
    column = state.schema().find_field("expires").field_id
    first = (file.lower_bounds or {}).get(column)
    if first is None:
        return (file.null_value_counts or {}).get(column) != file.record_count
    return int(from_bytes(TimestamptzType(), first)) < (now - PATIENCE_MS) * 1000
