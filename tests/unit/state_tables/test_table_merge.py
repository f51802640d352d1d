"""A state has what HBase shows of all changes, however they are cut into batches and merges, and whoever else writes."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.table import Table
from pyiceberg.types import LongType, StringType

from tests.threads_backend import Threads
from tests.unit.hbase.wal.encoder import Cell
from tests.unit.replication.sinks.iceberg.lake import WAL, catalog_in, changes, entry, files_of, rows_of
from walferry.hbase.tables.scan import ScanSpec
from walferry.hbase.wal.cells import CellType, split_cells
from walferry.replication.peers.column_mappings import parse_mappings
from walferry.replication.sinks.changes import DAY_MS, SCHEMA, Changes
from walferry.replication.sinks.iceberg import commits
from walferry.replication.sinks.iceberg.commits import VALID_THROUGH, Batch, FirstCopy, append, append_copy, positions_of
from walferry.replication.sinks.iceberg.tables import LakeError
from walferry.shipping.lake.catalog import Lake
from walferry.state_tables import merging, ranges, table_merge
from walferry.state_tables.hbase_rules import NEVER, FamilyRules, shown
from walferry.state_tables.reading import StateFiles
from walferry.state_tables.table_merge import StateOutcome, TableMerge
from walferry.state_tables.tables import MERGED, StateTables

FEED = "peer lake of a cluster"
FAMILIES = (FamilyRules(b"f", versions=1000), FamilyRules(b"g", versions=1000))
KINDS = [CellType.PUT] * 6 + [CellType.DELETE, CellType.DELETE_COLUMN, CellType.DELETE_FAMILY, CellType.DELETE_FAMILY_VERSION]


class InLake:
    """A table of HBase with changes in a lake."""

    def __init__(self, folder: Path) -> None:
        self.lake = Lake(catalog_in(folder), UUID(int=5), FEED, UUID(int=6))
        self.changes = self.lake.make("t")
        self.offset = 1000

    def feed(self, *cells: Cell, valid_through: int | None = None) -> None:
        """Append an edit for each cell, in a batch of its own."""
        entries = [entry(cell, sequence_id=self.offset + n, families=(b"f", b"g")) for n, cell in enumerate(cells)]
        found = files_of(self.changes, *changes(entries, base=self.offset), file_bytes=2000)
        seen, self.offset = positions_of(self.changes, FEED), self.offset + 100_000
        append(self.changes, Batch(FEED, "b", valid_through), found, seen=seen, moved={WAL.group: (WAL.name, self.offset)})

    def merge(self, families: Sequence[FamilyRules] = FAMILIES) -> StateOutcome:
        return TableMerge(self.lake, "t", lambda: tuple(families), "run", Threads()).run()

    @property
    def tables(self) -> StateTables:
        return StateTables.opened(self.lake.catalog, "t")

    def state(self) -> list[tuple[Any, ...]]:
        """The state, as DuckDB reads it."""
        found = [(r["row"], r["family"], r["qualifier"], r["timestamp"], r["value"]) for r in rows_of(self.tables.state)]
        assert len(set(found)) == len(found)
        return sorted(found, key=lambda cell: (*cell[:3], -cell[3]))

    def expected(self, families: Sequence[FamilyRules] = FAMILIES, now: int = 10**12) -> list[tuple[Any, ...]]:
        """What the rules say of all changes at once."""
        rows = rows_of(self.changes)
        table = pa.Table.from_pylist([{**row, "write_time": None} for row in rows], schema=SCHEMA)
        places, _ = shown(table, families, now)
        return [tuple(rows[place][name] for name in ("row", "family", "qualifier", "timestamp", "value")) for place in places]


@pytest.fixture
def t(tmp_path: Path) -> InLake:
    return InLake(tmp_path)


def put(row: bytes, value: bytes = b"v", timestamp: int = 1, qualifier: bytes = b"q", family: bytes = b"f") -> Cell:
    return Cell(row, family, qualifier, timestamp, CellType.PUT, value, b"")


def marker(kind: CellType, row: bytes, timestamp: int = 1, qualifier: bytes = b"q", family: bytes = b"f") -> Cell:
    return Cell(row, family, qualifier, timestamp, kind, b"", b"")


def some(chance: random.Random, count: int) -> Iterator[Cell]:
    for _ in range(count):
        row, kind, at = b"r%02d" % chance.randrange(40), chance.choice(KINDS), chance.randrange(1, 30)
        family, qualifier = chance.choice([b"f", b"g"]), chance.choice([b"p", b"q"])
        if kind == CellType.PUT:
            yield put(row, b"%d" % chance.randrange(10**6), at, qualifier, family)
        else:
            of_family = kind in (CellType.DELETE_FAMILY, CellType.DELETE_FAMILY_VERSION)
            yield marker(kind, row, at, b"" if of_family else qualifier, family)


@pytest.fixture(params=["as they are", "in small pieces"])
def pieces(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "in small pieces":
        monkeypatch.setattr(merging._parts, "__defaults__", (1500,))
        for function in (ranges.ranges_of, ranges.windows_of):
            monkeypatch.setattr(function, "__defaults__", (*(function.__defaults__ or ())[:-1], 500))
        monkeypatch.setattr(merging, "SAMPLE_ROWS", 3)
        monkeypatch.setattr(table_merge, "ROUND_BYTES", 1000)


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 6))])
def test_any_batches_and_merges_end_at_what_hbase_shows(t: InLake, pieces: None, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(12):
        t.feed(*some(chance, chance.randrange(1, 60)))
        if chance.random() < 0.5:
            t.merge()
            assert t.state() == t.expected()
    t.merge()
    assert t.state() == t.expected()
    assert t.state()


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
def test_a_state_answers_as_a_scan_of_hbase_does(t: InLake, pieces: None, seed: int) -> None:
    chance = random.Random(seed)
    t.feed(*some(chance, 200))
    t.merge()
    whole = t.state()
    for scan in (
        ScanSpec(max_versions=1000),
        ScanSpec(),
        ScanSpec(b"r10", b"r20", max_versions=2),
        ScanSpec(b"", b"", (b"g",), (5, 20), 1),
        ScanSpec(b"x"),
    ):
        files = StateFiles.of(t.lake, "t").within(scan.start_row, scan.stop_row)
        answered = [
            (cell.row, *cell.column, cell.timestamp, cell.value)
            for block in files.scan("t", scan)
            for row in range(len(block))
            for cell in split_cells(block.row(row))
        ]
        first, end = scan.time_range or (0, NEVER)
        in_scan = [
            cell for cell in whole
            if scan.start_row <= cell[0] and (not scan.stop_row or cell[0] < scan.stop_row)
            and (not scan.families or cell[1] in scan.families) and first <= cell[3] < end
        ]  # fmt: skip
        newest = [
            cell for n, cell in enumerate(in_scan) if n < scan.max_versions or in_scan[n - scan.max_versions][:3] != cell[:3]
        ]
        assert answered == newest


def test_a_state_that_is_not_there_is_not_read(t: InLake) -> None:
    with pytest.raises(LakeError, match=r"the lake has no default\.t yet"):
        StateFiles.of(t.lake, "t")


def test_a_merge_leaves_files_alone_whose_rows_have_not_changed(t: InLake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging._parts, "__defaults__", (800,))
    t.feed(*(put(b"r%02d" % n) for n in range(60)))
    t.merge()
    before = {task.file.file_path for task in t.tables.state.scan().plan_files()}
    t.feed(put(b"r00", b"new", 2))
    done = t.merge()
    after = {task.file.file_path for task in t.tables.state.scan().plan_files()}
    assert len(before) > 3
    assert len(before - after) == 1
    assert (done.changes, done.files) == (1, 1)
    assert t.state() == t.expected()


def test_a_marker_that_comes_first_hides_what_comes_in_a_later_merge(t: InLake) -> None:
    t.feed(marker(CellType.DELETE_COLUMN, b"r", 10))
    t.merge()
    assert t.state() == []
    t.feed(put(b"r", timestamp=10), put(b"r", timestamp=11))
    t.merge()
    assert [cell[3] for cell in t.state()] == [11]


def test_a_merge_without_new_changes_commits_nothing(t: InLake) -> None:
    t.feed(put(b"r"))
    t.merge()
    before = t.tables.state.current_snapshot()
    assert t.merge() == StateOutcome("t")
    assert t.tables.state.current_snapshot() == before


def test_changes_that_hide_nothing_and_show_nothing_are_merged_once(t: InLake) -> None:
    t.feed(marker(CellType.DELETE_FAMILY, b"r", 5, b""))
    t.merge()
    t.feed(put(b"r", timestamp=3))
    assert t.merge().changes == 1
    assert t.merge().changes == 0
    assert t.state() == []


def test_a_marker_is_noted_once(t: InLake) -> None:
    for _ in range(2):
        t.feed(marker(CellType.DELETE_COLUMN, b"r", 10), marker(CellType.DELETE_COLUMN, b"r", 10))
        t.merge()
    assert len(rows_of(t.tables.deletes)) == 1


def test_cells_that_expire_are_gone_a_day_later_and_say_before_when(t: InLake, monkeypatch: pytest.MonkeyPatch) -> None:
    rules, day = (FamilyRules(b"f", versions=5, ttl=1000),), 86_400_000
    t.feed(put(b"r", timestamp=5_000_000), put(b"s", timestamp=5_000_500))
    at = 5_000_100.0
    monkeypatch.setattr(table_merge.time, "time", lambda: at / 1000)
    t.merge(rules)
    assert [int(row["expires"].timestamp() * 1000) for row in rows_of(t.tables.state)] == [5_001_000, 5_001_500]
    at = 5_002_000.0
    assert t.merge(rules) == StateOutcome("t")
    at = 5_001_200.0 + day
    assert t.merge(rules).cells == 0
    assert t.state() == []
    t.feed(put(b"r", timestamp=int(at)), put(b"r", timestamp=5_000_000))
    t.merge(rules)
    assert [cell[3] for cell in t.state()] == [at]


def test_other_rules_count_for_all_rows(t: InLake) -> None:
    t.feed(*(put(b"r", timestamp=n) for n in range(1, 5)), put(b"s", family=b"g"))
    t.merge()
    rules = (FamilyRules(b"f", versions=2),)
    t.merge(rules)
    assert [cell[3] for cell in t.state()] == [4, 3]
    assert t.merge(rules) == StateOutcome("t")


@pytest.mark.parametrize("lost", ["deletes", "state"])
def test_a_merge_that_is_killed_is_done_again(t: InLake, monkeypatch: pytest.MonkeyPatch, lost: str) -> None:
    t.feed(*some(random.Random(3), 50))
    with monkeypatch.context() as killed:
        from walferry.state_tables import tables as module

        original = module.commit_once

        def die(table: Table, *arguments: Any, **named: Any) -> None:
            if table.name()[-1].endswith("_deletes") is (lost == "deletes"):
                raise KeyboardInterrupt
            original(table, *arguments, **named)

        killed.setattr(module, "commit_once", die)
        with suppress(KeyboardInterrupt):
            t.merge()
    assert t.state() == []
    t.merge()
    assert t.state() == t.expected()


def test_of_two_merges_side_by_side_one_commits(t: InLake, monkeypatch: pytest.MonkeyPatch) -> None:
    t.feed(put(b"r"), put(b"s"))
    t.merge()
    t.feed(put(b"r", b"new", 2))

    class Meanwhile(Threads):
        def run(self, function: Any, items: Any, result: Any, *others: Any, **named: Any) -> Any:
            found = super().run(function, items, result, *others, **named)
            if result is merging.MergeAnswer:
                t.merge()
            return found

    with pytest.raises(LakeError, match=r"default\.t cannot be written"):
        TableMerge(t.lake, "t", lambda: FAMILIES, "other", Meanwhile()).run()
    t.merge()
    assert t.state() == t.expected()


def test_changes_whose_snapshots_have_expired_are_read_again_as_a_whole(t: InLake) -> None:
    chance = random.Random(4)
    t.feed(*some(chance, 30))
    t.merge()
    first = t.changes.current_snapshot()
    t.feed(*some(chance, 30))
    t.feed(*some(chance, 30))
    assert first is not None
    t.changes.refresh()
    t.changes.maintenance.expire_snapshots().by_id(first.snapshot_id).commit()
    t.merge()
    assert t.state() == t.expected()


def expire_all_but_the_newest(table: Table) -> None:
    table.refresh()
    old = [each.snapshot_id for each in table.snapshots() if each != table.current_snapshot()]
    table.maintenance.expire_snapshots().by_ids(old).commit()


@pytest.mark.parametrize("compacted", [False, True])
def test_a_first_merge_reads_also_what_snapshots_that_have_expired_have_brought(t: InLake, compacted: bool) -> None:
    for row in (b"a", b"b", b"c"):
        t.feed(put(row))
    if compacted:
        compact(t.changes)
    expire_all_but_the_newest(t.changes)
    t.merge()
    assert [cell[0] for cell in t.state()] == [b"a", b"b", b"c"]


def test_markers_that_were_dropped_come_back_although_their_snapshots_have_expired(t: InLake) -> None:
    t.feed(marker(CellType.DELETE_COLUMN, b"z", 10))
    t.merge()
    t.feed(put(b"a"))
    expire_all_but_the_newest(t.changes)
    t.lake.catalog.drop_table(("default", "t_deletes"))
    t.feed(put(b"z", timestamp=5))
    t.merge()
    assert [cell[0] for cell in t.state()] == [b"a"]


def test_a_state_that_others_compact_and_expire_is_not_read_again(t: InLake) -> None:
    t.feed(put(b"a"), put(b"b"))
    t.merge()
    t.tables.state.overwrite(t.tables.state.scan().to_arrow())
    expire_all_but_the_newest(t.tables.state)
    t.feed(put(b"c"))
    assert t.merge().changes == 1


def test_a_rollback_behind_what_has_expired_is_found(t: InLake) -> None:
    t.feed(put(b"a"))
    t.merge()
    state = t.tables.state
    state.overwrite(state.scan().to_arrow())
    compacted = state.current_snapshot()
    assert compacted is not None
    t.feed(put(b"b"))
    t.merge()
    state.refresh()
    old = [each.snapshot_id for each in state.snapshots() if each.sequence_number < compacted.sequence_number]
    state.maintenance.expire_snapshots().by_ids(old).commit()
    state.manage_snapshots().set_current_snapshot(snapshot_id=compacted.snapshot_id).commit()
    t.feed(put(b"c"))
    t.merge()
    assert [cell[0] for cell in t.state()] == [b"a", b"b", b"c"]


def test_markers_that_a_killed_merge_has_left_count_when_they_are_rolled_back(t: InLake, monkeypatch: pytest.MonkeyPatch) -> None:
    from walferry.state_tables import tables as module

    t.feed(put(b"a"), marker(CellType.DELETE_COLUMN, b"x", 1))
    t.merge()
    before = t.tables.deletes.current_snapshot()
    assert before is not None
    t.feed(marker(CellType.DELETE_COLUMN, b"z", 10))
    with monkeypatch.context() as killed:
        original = module.commit_once

        def die(table: Table, *arguments: Any, **named: Any) -> None:
            if table.name()[-1] == "t":
                raise KeyboardInterrupt
            original(table, *arguments, **named)

        killed.setattr(module, "commit_once", die)
        with suppress(KeyboardInterrupt):
            t.merge()
    t.merge()
    t.tables.deletes.manage_snapshots().set_current_snapshot(snapshot_id=before.snapshot_id).commit()
    t.feed(put(b"z", timestamp=5))
    t.merge()
    assert [cell[0] for cell in t.state()] == [b"a"]


def test_rows_that_begin_alike_are_divided(t: InLake, pieces: None) -> None:
    alike = b"com.example.www/" * 5
    t.feed(*(put(alike + b"%03d" % n) for n in range(100)))
    t.merge()
    t.feed(*(put(alike + b"%03d" % n, b"new", 2) for n in range(0, 100, 7)))
    t.merge()
    assert t.state() == t.expected()


def test_a_state_whose_files_are_broken_is_an_error_of_its_table(t: InLake) -> None:
    t.feed(put(b"r"))
    t.merge()
    snapshot = t.tables.state.current_snapshot()
    assert snapshot is not None
    Path(snapshot.manifest_list.removeprefix("file://")).unlink()
    with pytest.raises(LakeError, match="the state of table t cannot be read"):
        StateFiles.of(t.lake, "t")


def test_a_compaction_of_the_changes_by_others_brings_nothing_twice(t: InLake) -> None:
    chance = random.Random(5)
    t.feed(*some(chance, 30))
    t.merge()
    t.feed(*some(chance, 30))
    compact(t.changes)
    assert t.merge().changes < 60
    assert t.state() == t.expected()


def compact(table: Table) -> None:
    """Rewrite a table of changes as one file, as others do."""
    (batch,) = pa.Table.from_pylist(rows_of(table), schema=SCHEMA).combine_chunks().to_batches()
    (file,) = files_of(table, Changes("t", batch, np.full(batch.num_rows, 1_700_000_000_000 // DAY_MS)))
    table.refresh()
    with table.transaction() as transaction, transaction.update_snapshot().overwrite() as update:
        update.append_data_file(file.data_file(table.spec()))
        for task in table.scan().plan_files():
            update.delete_data_file(task.file)


def test_a_compaction_of_the_state_by_others_is_no_trouble(t: InLake, pieces: None) -> None:
    chance = random.Random(6)
    t.feed(*some(chance, 60))
    t.merge()
    t.tables.state.overwrite(t.tables.state.scan().to_arrow())
    t.feed(*some(chance, 60))
    t.merge()
    assert t.state() == t.expected()


def long(first: bytes) -> bytes:
    """A row that Parquet leaves out of its figures."""
    return first * 5000


def in_small_groups(t: InLake) -> None:
    """Let Parquet have a few rows a group, as it has 65,536 otherwise."""
    for table in (t.tables.state, t.tables.deletes, t.changes):
        with table.transaction() as transaction:
            transaction.set_properties({"write.parquet.row-group-limit": "10"})


def test_rows_that_parquet_leaves_out_of_its_figures_are_found(t: InLake, pieces: None) -> None:
    in_small_groups(t)
    some_rows = [b"a%02d" % n for n in range(10)], [b"ma%02d" % n for n in range(9)], [b"n%02d" % n for n in range(10)]
    rows = [*some_rows[0], long(b"m"), *some_rows[1], *some_rows[2], long(b"z")]
    t.feed(*(put(row) for row in rows))
    t.merge()
    assert t.state() == t.expected()
    t.feed(put(b"ma03", b"newer"), marker(CellType.DELETE_COLUMN, b"ma05", 9))
    t.merge()
    assert t.state() == t.expected()
    t.feed(*(marker(CellType.DELETE_COLUMN, row, 10) for row in [*some_rows[0], b"c05", long(b"z")]))
    t.merge()
    t.feed(put(b"c05", timestamp=5), put(long(b"z"), timestamp=5), put(b"c06", timestamp=5))
    t.merge()
    assert t.state() == t.expected()


def test_a_long_row_leaves_the_other_files_alone(t: InLake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging._parts, "__defaults__", (800,))
    t.feed(*(put(b"r%02d" % n) for n in range(60)), put(long(b"\x01")))
    t.merge()
    before = len(list(t.tables.state.scan().plan_files()))
    t.feed(put(b"r30", b"new", 2))
    assert t.merge().files == 1
    assert before > 4


def test_markers_are_read_as_groups_of_rows_and_count_for_the_size_of_a_range(
    t: InLake, monkeypatch: pytest.MonkeyPatch, pieces: None
) -> None:
    for number in range(4):
        rows = [b"q%02d" % (40 * number + n) for n in range(40)]
        t.feed(*(put(row) for row in rows), *(marker(CellType.DELETE_COLUMN, row) for row in rows))
        t.merge()
        assert t.state() == []
    t.feed(*(put(b"q%02d" % n) for n in range(0, 160, 3)), put(b"q999"))
    t.merge()
    assert [cell[0] for cell in t.state()] == [b"q999"]


def test_a_family_that_is_new_while_a_merge_begins_is_not_lost(t: InLake, monkeypatch: pytest.MonkeyPatch) -> None:
    known = [FAMILIES[:1]]
    original = table_merge.files_since

    def and_then_a_family_comes(*arguments: Any) -> Any:
        t.feed(put(b"r", family=b"g"))
        known[0] = FAMILIES
        return original(*arguments)

    t.feed(put(b"r"))
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(table_merge, "files_since", and_then_a_family_comes)
        TableMerge(t.lake, "t", lambda: known[0], "run", Threads()).run()
    t.merge()
    assert t.state() == t.expected()


@pytest.mark.parametrize("which", ["state", "deletes"])
def test_a_table_that_was_rolled_back_gets_all_changes_again(t: InLake, which: str) -> None:
    chance = random.Random(7)
    for _ in range(2):
        t.feed(*some(chance, 30))
        t.merge()
    table = getattr(t.tables, which)
    table.manage_snapshots().set_current_snapshot(snapshot_id=table.current_snapshot().parent_snapshot_id).commit()
    t.feed(*some(chance, 30))
    t.merge()
    assert t.state() == t.expected()
    assert t.merge() == StateOutcome("t")


def test_markers_that_were_dropped_come_back(t: InLake) -> None:
    t.feed(marker(CellType.DELETE_COLUMN, b"r", 10))
    t.merge()
    t.lake.catalog.drop_table(("default", "t_deletes"))
    t.feed(put(b"r", timestamp=5))
    t.merge()
    assert t.state() == []


def test_a_state_whose_snapshots_expire_is_not_read_again(t: InLake) -> None:
    for number in range(3):
        t.feed(put(b"r%d" % number), marker(CellType.DELETE_COLUMN, b"r%d" % number, 0))
        t.merge()
    for table in (t.tables.state, t.tables.deletes):
        old = [each.snapshot_id for each in table.snapshots() if each != table.current_snapshot()]
        table.maintenance.expire_snapshots().by_ids(old).commit()
    t.feed(put(b"r", b"new"))
    assert t.merge().changes == 1


def test_a_broken_table_is_an_error_that_names_it(t: InLake) -> None:
    t.feed(put(b"r"))
    t.merge()
    snapshot = t.tables.state.current_snapshot()
    assert snapshot is not None
    Path(snapshot.manifest_list.removeprefix("file://")).unlink()
    t.feed(put(b"s"))
    with pytest.raises(LakeError, match=r"table t cannot be merged: .*avro"):
        t.merge()


def test_changes_of_two_feeds_are_refused(t: InLake) -> None:
    t.feed(put(b"r"))
    append_copy(t.changes, Batch("another feed", "c"), [], seen=commits.Positions(), copied=FirstCopy("a" * 32))
    with pytest.raises(LakeError, match=r"default\.t_changes has edits of two feeds"):
        t.merge()


def test_many_batches_are_merged_in_rounds(t: InLake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_merge, "ROUND_BYTES", 1)
    chance = random.Random(8)
    for _ in range(4):
        t.feed(*some(chance, 30))
    assert t.merge().changes == 120
    assert len(t.tables.state.snapshots()) == 4
    assert t.state() == t.expected()


def test_a_task_that_is_lost_is_an_error_of_its_table(t: InLake) -> None:
    class Dying(Threads):
        def run(self, function: Any, items: Any, result: Any, lost: Any = None, progress: Any = None) -> Any:
            return [lost(item, "its process has died") for item in items]

    t.feed(put(b"r"))
    with pytest.raises(LakeError, match="its process has died"):
        TableMerge(t.lake, "t", lambda: FAMILIES, "run", Dying()).run()


def mapped(t: InLake, type_: str | None) -> None:
    """Let cells of f:q have a typed column of that type, or none."""
    columns = {"id": {"cf": "rowkey", "col": "key", "type": "string"}, f"as_{type_}": {"cf": "f", "col": "q", "type": type_}}
    given = {"table": {"name": "t"}, "rowkey": "key", "columns": columns}
    t.lake = replace(t.lake, mappings=parse_mappings(json.dumps(given)) if type_ else {})


def test_a_state_has_typed_columns_and_a_mapping_that_changes_writes_them_anew(t: InLake) -> None:
    t.feed(put(b"r", b"\0\0\0\7"), put(b"s", b"x", qualifier=b"p"))

    def shown(*names: str) -> list[tuple[Any, ...]]:
        assert t.state() == t.expected()
        found = t.tables.state.scan().to_arrow().to_pylist()
        return sorted((tuple(row[name] for name in ("row", *names)) for row in found), key=repr)

    t.merge()
    mapped(t, "int")
    assert t.merge().changes == 0
    assert shown("id", "as_int", "unread") == [(b"r", "r", 7, None), (b"s", "s", None, None)]
    t.feed(put(b"r", b"no int", timestamp=2))
    t.merge()
    assert shown("as_int", "unread") == [(b"r", 7, None), (b"r", None, "as_int"), (b"s", None, None)]
    before = t.tables.state.current_snapshot()
    t.merge()
    assert t.tables.state.current_snapshot() == before, "nothing has changed"
    mapped(t, "string")
    t.merge()
    assert shown("as_int", "as_string", "unread") == [
        (b"r", None, "\0\0\0\7", None), (b"r", None, "no int", None), (b"s", None, None, None),
    ]  # fmt: skip
    mapped(t, None)
    t.merge()
    assert shown("id", "as_string") == [(b"r", None, None), (b"r", None, None), (b"s", None, None)]


@pytest.mark.parametrize("change", ["dropped", "renamed", "wider"])
def test_a_typed_column_of_the_state_that_others_change_comes_back_whole(t: InLake, change: str) -> None:
    t.feed(put(b"r", b"\0\0\0\7"))
    mapped(t, "int")
    t.merge()
    with t.tables.state.update_schema() as update:
        if change == "dropped":
            update.delete_column("as_int")
        elif change == "renamed":
            update.rename_column("as_int", "old_int")
        else:
            update.update_column("as_int", LongType())
    t.merge()
    assert t.tables.state.scan().to_arrow()["as_int"].to_pylist() == [7]


def test_a_typed_column_of_the_state_may_show_something_else_from_then_on(t: InLake) -> None:
    t.feed(put(b"r", b"\0\0\0\7"), put(b"s", b"\0\0\0\x08", qualifier=b"p"))
    t.merge()
    ids: list[int] = []
    for qualifier, type_, wanted in (("q", "int", [7, None]), ("p", "int", [None, 8]), ("q", "string", ["\0\0\0\7", None])):
        given = {"table": {"name": "t"}, "rowkey": "key", "columns": {"n": {"cf": "f", "col": qualifier, "type": type_}}}
        t.lake = replace(t.lake, mappings=parse_mappings(json.dumps(given)))
        if "n" in (of_changes := t.lake.catalog.load_table(("default", "t_changes"))).schema().column_names:
            with of_changes.update_schema() as update:
                update.delete_column("n")
        t.merge()
        found = sorted(t.tables.state.scan().to_arrow().to_pylist(), key=lambda row: row["row"])
        assert [row["n"] for row in found] == wanted
        ids.append(t.tables.state.schema().find_field("n").field_id)
    assert len({*ids}) == 3, "files that are not written anew yet show no values of the other cell"


def test_files_that_are_only_written_anew_are_dealt_out_to_all_tasks(t: InLake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging._parts, "__defaults__", (1500,))
    t.feed(*(put(b"r%03d" % n, b"%04d" % n) for n in range(300)))
    t.merge()
    assert len(list(t.tables.state.scan().plan_files())) > 6
    tasks: list[int] = []

    def counted(self: TableMerge, changes: Any, some: Sequence[Any]) -> Any:
        tasks.append(len(some))
        return answers(self, changes, some)

    answers = TableMerge._answers
    monkeypatch.setattr(TableMerge, "_answers", counted)
    mapped(t, "int")
    t.merge()
    assert tasks[0] > 3


def test_a_mapping_that_the_changes_refuse_does_not_change_the_state(t: InLake) -> None:
    t.feed(put(b"r", b"\0\0\0\7"))
    mapped(t, "int")
    t.merge()
    before = t.tables.state.metadata
    given = {"table": {"name": "t"}, "rowkey": "key", "columns": {"as_int": {"cf": "f", "col": "other", "type": "int"}}}
    t.lake = replace(t.lake, mappings=parse_mappings(json.dumps(given)))
    with pytest.raises(LakeError, match="typed column as_int should show HBase: f:other"):
        t.lake.make("t")
    with pytest.raises(LakeError, match="typed column as_int should show HBase: f:other"):
        t.merge()
    assert t.tables.state.metadata == before


def test_a_large_state_is_written_anew_in_several_commits_and_goes_on_where_it_was(
    t: InLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merging._parts, "__defaults__", (1500,))
    chance = random.Random(3)
    t.feed(*(put(b"r%03d" % n, b"%04d" % n) for n in range(300)))
    t.merge()
    monkeypatch.setattr(table_merge, "ROUND_BYTES", 1000)
    before = {task.file.file_path for task in t.tables.state.scan().plan_files()}
    assert len(before) > 6

    def commits() -> int:
        return len(t.tables.state.snapshots())

    def shown_by_row() -> list[int | None]:
        found = t.tables.state.scan().to_arrow()
        some = sorted(zip(found["row"].to_pylist(), found["as_int"].to_pylist(), strict=True))
        return [value for _, value in some]

    mapped(t, "int")
    commit = StateTables.commit
    done: list[str] = []

    def killed(self: StateTables, *args: Any, **named: Any) -> None:
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(args[1].left)
        commit(self, *args, **named)

    with monkeypatch.context() as one_run:
        one_run.setattr(StateTables, "commit", killed)
        with pytest.raises(KeyboardInterrupt):
            t.merge()
    assert done[0] < done[1]
    some = shown_by_row()
    half = some.index(None)
    assert 0 < half < 300
    assert some == [*(int.from_bytes(b"%04d" % n) for n in range(half)), *[None] * (300 - half)]
    kept = {task.file.file_path for task in t.tables.state.scan().plan_files()}
    written = commits()
    t.feed(*some_of(chance, 20))
    t.merge()
    assert commits() > written + 1
    assert None not in shown_by_row()
    assert t.state() == t.expected()
    assert kept & {task.file.file_path for task in t.tables.state.scan().plan_files()}, "nothing is written twice"
    assert t.tables.merged is not None
    assert t.tables.merged.left == ""


def some_of(chance: random.Random, count: int) -> Iterator[Cell]:
    for _ in range(count):
        number = chance.randrange(280, 300)
        yield put(b"r%03d" % number, b"%04d" % number, timestamp=chance.randrange(2, 1000))


def test_a_state_says_up_to_when_it_has_all_edits(t: InLake) -> None:
    def through() -> str | None:
        summary: Any = t.tables.state.current_snapshot().summary  # type: ignore[union-attr]
        return summary.get(VALID_THROUGH)

    t.feed(put(b"r"))
    t.merge()
    assert through() is None
    t.feed(put(b"s"), valid_through=1_700_000_000_000)
    t.feed(put(b"t"))  # its batch did not know
    t.merge()
    assert through() == "2023-11-14T22:13:20.000+00:00"


def test_a_state_with_another_column_of_that_name_is_refused(t: InLake) -> None:
    t.feed(put(b"r"))
    t.merge()
    with t.tables.state.update_schema() as update:
        update.add_column("as_int", StringType())
    mapped(t, "int")
    with pytest.raises(LakeError, match=r"column as_int should be int, and the table has as_int of type string"):
        t.merge()


def test_a_first_copy_that_was_not_ended_is_waited_for(t: InLake) -> None:
    begun = FirstCopy("a" * 32)
    seen = append_copy(t.changes, Batch(FEED, "c"), [], seen=commits.Positions(), copied=begun)
    with pytest.raises(LakeError, match="a part of a first copy"):
        t.merge()
    append_copy(t.changes, Batch(FEED, "c"), [], seen=seen, copied=replace(begun, whole=True))
    t.merge()


def test_a_state_of_changes_that_were_dropped_is_refused(t: InLake) -> None:
    t.feed(put(b"r"))
    t.merge()
    t.lake.catalog.drop_table(("default", "t_changes"))
    t.changes = t.lake.make("t")
    t.feed(put(b"s"))
    with pytest.raises(LakeError, match="the state of another table of changes"):
        t.merge()
    for name in ("t", "t_deletes"):
        t.lake.catalog.drop_table(("default", name))
    t.merge()
    assert [cell[0] for cell in t.state()] == [b"s"]


def test_tables_of_others_are_left_alone(tmp_path: Path) -> None:
    t = InLake(tmp_path)
    t.lake.catalog.create_table(("default", "t"), pa.schema([("row", pa.binary())]))
    with pytest.raises(LakeError, match=r"table default\.t is not a table of Walferry's"):
        t.merge()


@pytest.mark.parametrize("name", ["t_changes", "shop:t_deletes"])
def test_a_table_whose_state_would_lie_where_other_tables_do_gets_none(tmp_path: Path, name: str) -> None:
    with pytest.raises(LakeError, match="gets no table of state"):
        StateTables.opened(catalog_in(tmp_path), name)


def test_a_property_that_makes_no_sense_is_named(t: InLake) -> None:
    t.feed(put(b"r"))
    t.merge()
    with t.tables.state.transaction() as transaction:
        transaction.set_properties({MERGED: "{}"})
    with pytest.raises(LakeError, match=r"its property walferry\.merged is '{}'"):
        t.merge()


def test_a_file_that_is_missing_is_named_and_nothing_is_committed(t: InLake) -> None:
    t.feed(put(b"r"))
    (path,) = [task.file.file_path.removeprefix("file://") for task in t.changes.scan().plan_files()]
    Path(path).rename(f"{path}.away")
    with pytest.raises(LakeError, match=path):
        t.merge()
    Path(f"{path}.away").rename(path)
    t.merge()
    assert t.state() == t.expected()


def test_a_lake_without_changes_of_the_table_says_so(tmp_path: Path) -> None:
    lake = Lake(catalog_in(tmp_path), UUID(int=5), FEED, UUID(int=6))
    with pytest.raises(LakeError, match=r"the lake has no default\.t_changes yet"):
        TableMerge(lake, "t", lambda: FAMILIES, "run", Threads()).run()
