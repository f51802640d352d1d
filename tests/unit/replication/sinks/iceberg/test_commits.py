"""Files and positions are one commit: each edit is in the table once, whoever else writes, and whatever is killed."""

from __future__ import annotations

import os
import random
import time
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table
from sqlalchemy.exc import SQLAlchemyError

from tests.unit.hbase.wal.encoder import encode_entry
from walferry.replication.sinks.iceberg import commits as module
from walferry.replication.sinks.iceberg.commits import (
    BATCH,
    POSITIONS,
    Batch,
    FirstCopy,
    Positions,
    PositionsMoved,
    append,
    append_copy,
    positions_of,
)
from walferry.replication.sinks.iceberg.tables import LakeError, table_of

from .lake import BASE, WAL, catalog_in, changes, entry, files_of, put, rows_of

NAME = ("default", "t_changes")
FEED = "peer lake of a cluster"
NONE = Positions()
PART, OTHER = "a" * 32, "b" * 32  # of a copy
KILLS = int(os.environ.get("LAKE_KILLS", "12"))
ENTRIES = min(30 * KILLS, 1500)  # of the WAL that is fed while processes are killed
ENTRY = entry(put(b"row0000"))
SIZE = len(encode_entry(ENTRY))


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    return catalog_in(tmp_path)


@pytest.fixture
def table(catalog: SqlCatalog) -> Table:
    return table_of(catalog, NAME)


def feed(table: Table, row: bytes, until: int, name: str = "b", **options: Any) -> None:
    """Append one row, with which the table has all edits before `until`."""
    seen = positions_of(table, FEED)
    with_files = files_of(table, *changes([entry(put(row))]))
    append(table, Batch(FEED, name), with_files, seen=seen, moved={WAL.group: (WAL.name, until)}, **options)


def written_by_others(table: Table, row: bytes, replaced: bool = False) -> None:
    """Let somebody else append a row, or rewrite the whole table as that row."""
    (file,) = files_of(table, *changes([entry(put(row))]))
    with table.transaction() as transaction:
        snapshot = transaction.update_snapshot()
        with snapshot.overwrite() if replaced else snapshot.fast_append() as update:
            update.append_data_file(file.data_file(table.spec()))
            for task in table.scan().plan_files() if replaced else ():
                update.delete_data_file(task.file)


def rows(table: Table) -> list[bytes]:
    return [row["row"] for row in rows_of(table)]


def test_a_commit_brings_files_and_positions(table: Table) -> None:
    files = files_of(table, *changes([entry(put(b"r"))]))
    append(table, Batch(FEED, "run 1", 1_700_000_000_123), files, seen=NONE, moved={WAL.group: (WAL.name, 1234)})
    table.refresh()
    assert rows(table) == [b"r"]
    assert positions_of(table, FEED).groups == {WAL.group: (WAL.name, 1234)}
    summary: Any = table.current_snapshot().summary  # type: ignore[union-attr]
    assert (summary[BATCH], summary[module.FEED]) == ("run 1", FEED)
    assert summary[module.VALID_THROUGH] == "2023-11-14T22:13:20.123+00:00"


def test_without_files_nothing_is_committed(table: Table) -> None:
    append(table, Batch(FEED, "b"), [], seen=NONE, moved={WAL.group: (WAL.name, 5)})
    table.refresh()
    assert table.current_snapshot() is None
    assert positions_of(table, FEED) == NONE


def test_of_two_batches_with_the_same_edits_one_is_refused(catalog: SqlCatalog) -> None:
    one, other = table_of(catalog, NAME), table_of(catalog, NAME)
    feed(one, b"r", 100)
    with pytest.raises(PositionsMoved, match="another run has committed"):
        feed(other, b"r", 150)
    assert rows(one) == [b"r"]


def test_a_batch_whose_twin_has_committed_the_same_edits_adds_nothing(catalog: SqlCatalog) -> None:
    one, other = table_of(catalog, NAME), table_of(catalog, NAME)
    feed(one, b"r", 100)
    feed(other, b"r", 100)
    assert rows(one) == [b"r"]


def test_a_batch_that_began_on_an_empty_table_is_refused_as_well(catalog: SqlCatalog) -> None:
    one, other = table_of(catalog, NAME), table_of(catalog, NAME)
    files = files_of(other, *changes([entry(put(b"r"))]))
    feed(one, b"r", 100)
    with pytest.raises(PositionsMoved):
        append(other, Batch(FEED, "b"), files, seen=NONE, moved={WAL.group: (WAL.name, 150)})
    assert rows(one) == [b"r"]


def test_files_are_appended_on_top_of_what_others_have_written(catalog: SqlCatalog, table: Table) -> None:
    feed(table, b"a", 100)
    stale, others = table_of(catalog, NAME), table_of(catalog, NAME)
    written_by_others(others, b"theirs")
    feed(stale, b"b", 200)
    assert sorted(rows(table)) == [b"a", b"b", b"theirs"]


def test_another_feed_of_the_same_table_has_positions_of_its_own(catalog: SqlCatalog, table: Table) -> None:
    feed(table, b"a", 100)
    files = files_of(table, *changes([entry(put(b"b"))]))
    append(table, Batch("other", "b"), files, seen=NONE, moved={WAL.group: (WAL.name, 7)})
    table.refresh()
    assert positions_of(table, FEED).groups == {WAL.group: (WAL.name, 100)}
    assert positions_of(table, "other").groups == {WAL.group: (WAL.name, 7)}


def test_positions_outlive_snapshots_that_others_expire_and_rewrite(catalog: SqlCatalog, table: Table) -> None:
    feed(table, b"a", 100)
    feed(table, b"b", 200)
    others = table_of(catalog, NAME)
    written_by_others(others, b"a and b", replaced=True)
    old = [snapshot.snapshot_id for snapshot in others.snapshots() if snapshot != others.current_snapshot()]
    others.maintenance.expire_snapshots().by_ids(old).commit()
    left = table_of(catalog, NAME)
    (only,) = left.snapshots()
    assert BATCH not in only.summary.additional_properties  # type: ignore[union-attr]
    assert positions_of(left, FEED).groups == {WAL.group: (WAL.name, 200)}
    assert rows(left) == [b"a and b"]


def copied(table: Table, seen: Positions, copy: FirstCopy, *found: bytes) -> Positions:
    """Commit a part of a first copy with these rows."""
    files = files_of(table, *changes([entry(put(row)) for row in found])) if found else []
    return append_copy(table, Batch(FEED, "copy"), files, seen=seen, copied=copy)


def test_a_first_copy_commits_its_parts_one_by_one(catalog: SqlCatalog, table: Table) -> None:
    begun = copied(table, NONE, FirstCopy("try 1"))
    first = copied(table, begun, FirstCopy("try 1", (PART,), until=99), b"a")
    copied(table, first, FirstCopy("try 1", (PART, OTHER), until=99, whole=True), b"b")
    there = catalog.load_table(NAME)
    assert positions_of(there, FEED) == Positions(copied=FirstCopy("try 1", (PART, OTHER), until=99, whole=True))
    assert sorted(rows(there)) == [b"a", b"b"]


def test_an_earlier_try_of_a_copy_is_refused_once_a_later_one_has_begun(catalog: SqlCatalog, table: Table) -> None:
    late, begun = catalog.load_table(NAME), copied(table, NONE, FirstCopy("try 1"))
    late.refresh()
    again = copied(table, begun, FirstCopy("try 2"))
    with pytest.raises(PositionsMoved):
        copied(late, begun, FirstCopy("try 1", (PART,)), b"a")
    copied(table, again, FirstCopy("try 2", (OTHER,)), b"a")
    assert rows(table) == [b"a"]


def test_a_batch_that_knows_nothing_of_a_copy_is_refused(catalog: SqlCatalog, table: Table) -> None:
    late = catalog.load_table(NAME)
    seen = positions_of(late, FEED)
    copied(table, NONE, FirstCopy("try 1"))
    files = files_of(late, *changes([entry(put(b"a"))]))
    with pytest.raises(PositionsMoved):
        append(late, Batch(FEED, "b"), files, seen=seen, moved={WAL.group: (WAL.name, 5)})
    assert rows(table) == []


def test_a_copy_is_refused_once_a_batch_has_committed(catalog: SqlCatalog, table: Table) -> None:
    late = catalog.load_table(NAME)
    feed(table, b"a", 5)
    with pytest.raises(PositionsMoved):
        copied(late, NONE, FirstCopy("try 1"))


def test_a_batch_after_a_copy_keeps_what_is_known_of_the_copy(table: Table) -> None:
    copy = FirstCopy("try 1", (PART,), until=99, whole=True)
    copied(table, NONE, copy, b"a")
    feed(table, b"b", 5)
    assert positions_of(table, FEED) == Positions({WAL.group: (WAL.name, 5)}, copied=copy)


def test_a_part_whose_commit_was_answered_with_an_error_is_there_once(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = module._commit

    def lost(*args: Any) -> None:
        commit(*args)
        raise CommitFailedException("the answer was lost")

    monkeypatch.setattr(module, "_commit", lost)
    copied(table, NONE, FirstCopy("try 1", (PART,)), b"a")
    assert rows(table) == [b"a"]


def test_groups_that_are_gone_are_forgotten(table: Table) -> None:
    one, two, three = (f"rs{n}%2C16020%2C1" for n in (1, 2, 3))
    for group in (one, two, three):
        files = files_of(table, *changes([entry(put(group.encode()))]))
        seen = positions_of(table, FEED)
        append(table, Batch(FEED, "b"), files, seen=seen, moved={group: (f"{group}.17", 1)}, gone=seen.groups.keys() - {one})
        table.refresh()
    assert positions_of(table, FEED) == Positions({one: (f"{one}.17", 1), three: (f"{three}.17", 1)}, forgotten=1)


def test_a_driver_that_has_slept_while_its_group_was_forgotten_is_refused(catalog: SqlCatalog, table: Table) -> None:
    asleep = table_of(catalog, NAME)
    its_files = files_of(asleep, *changes([entry(put(b"r"))]))
    feed(table, b"r", 100)
    other = "rs2%2C16020%2C1"
    files = files_of(table, *changes([entry(put(b"other"))]))
    seen = positions_of(table, FEED)
    append(table, Batch(FEED, "b"), files, seen=seen, moved={other: (f"{other}.17", 1)}, gone=[WAL.group])
    with pytest.raises(PositionsMoved):
        append(asleep, Batch(FEED, "b"), its_files, seen=NONE, moved={WAL.group: (WAL.name, 100)})
    assert sorted(rows(table)) == [b"other", b"r"]


@pytest.mark.parametrize(
    "answer",
    [
        ConnectionError("the catalog has hung up"),
        # Such as a server's client that tries again what it has done.
        CommitFailedException("the table has changed"),
    ],
    ids=["lost", "failed"],
)
def test_a_commit_that_is_there_counts_whatever_the_answer_and_its_table_stays_sound(
    table: Table, monkeypatch: pytest.MonkeyPatch, answer: Exception
) -> None:
    commit = SqlCatalog.commit_table

    def commit_and_raise(self: SqlCatalog, *arguments: Any) -> Any:
        monkeypatch.setattr(SqlCatalog, "commit_table", commit)
        commit(self, *arguments)
        raise answer

    monkeypatch.setattr(SqlCatalog, "commit_table", commit_and_raise)
    feed(table, b"r", 100)
    table.refresh()
    assert rows(table) == [b"r"]
    assert positions_of(table, FEED).groups == {WAL.group: (WAL.name, 100)}
    feed(table, b"s", 200)
    assert sorted(rows(table)) == [b"r", b"s"]


def test_a_catalog_that_is_away_is_an_error_and_the_next_try_goes_on(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> Any:
        raise ConnectionError("no route to host")

    with monkeypatch.context() as away:
        away.setattr(SqlCatalog, "commit_table", refuse)
        with pytest.raises(LakeError, match=r"default\.t_changes cannot be written: no route to host"):
            feed(table, b"r", 100)
    assert rows(table) == []
    feed(table, b"r", 100)
    assert rows(table) == [b"r"]


def test_a_table_that_others_write_all_the_time_is_an_error_at_last(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> Any:
        raise CommitFailedException("branch main has changed")

    monkeypatch.setattr(module, "TRIES", 3)
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.0)
    monkeypatch.setattr(SqlCatalog, "commit_table", refuse)
    with pytest.raises(LakeError, match="3 commits in a row"):
        feed(table, b"r", 100)


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"g": 1}',
        '{"groups": {}}',
        '{"groups": {}, "forgotten": -1}',
        '{"groups": {"g": ["wal"]}, "forgotten": 0}',
        '{"groups": {"rs1%2C16020%2C1": ["rs1%2C16020%2C1.17", -1]}, "forgotten": 0}',
        '{"groups": {"rs1%2C16020%2C1": ["rs1%2C16020%2C1.17", true]}, "forgotten": 0}',
        '{"groups": {"rs1%2C16020%2C1": ["rs2%2C16020%2C1.17", 1]}, "forgotten": 0}',
        '{"groups": {"rs1%2C16020%2C1": ["nonsense", 1]}, "forgotten": 0}',
        '{"groups": {}, "forgotten": 0, "copied": {"by": "a"}}',
        '{"groups": {}, "forgotten": 0, "copied": {"by": "a", "parts": ["../x"], "until": 1, "whole": true}}',
        '{"groups": {}, "forgotten": 0, "copied": {"by": "a", "parts": [], "until": 1, "whole": 1}}',
        "[" * 99999,
    ],
)
def test_positions_that_make_no_sense_are_named(table: Table, text: str) -> None:
    with table.transaction() as transaction:
        transaction.set_properties({POSITIONS + FEED: text})
    with pytest.raises(LakeError, match=r"default\.t_changes: its property walferry\.positions\.peer lake"):
        positions_of(table, FEED)


def test_a_table_of_another_kind_is_refused(catalog: SqlCatalog, table: Table) -> None:
    import pyarrow as pa

    catalog.create_table(("default", "theirs"), pa.schema([("row", pa.string())]))
    with pytest.raises(LakeError, match="column row should be binary, and is string"):
        table_of(catalog, ("default", "theirs"))
    catalog.create_table(("default", "flat"), table.schema())
    with pytest.raises(LakeError, match="not by the day of write_time"):
        table_of(catalog, ("default", "flat"))


def keep_feeding(folder: Path) -> None:
    """Feed what the table lacks of the WAL, a few entries at a time, until it has all."""
    random.seed(os.getpid())
    while True:
        try:
            table = table_of(catalog_in(folder), NAME)
            seen = positions_of(table, FEED)
            first = (seen.groups[WAL.group][1] - BASE) // SIZE if seen.groups else 0
            if first == ENTRIES:
                return
            last = min(ENTRIES, first + random.randint(1, 3))
            some = [entry(put(b"row%04d" % n)) for n in range(first, last)]
            files = files_of(table, *changes(some, base=BASE + first * SIZE))
            append(
                table, Batch(FEED, "b"), files, seen=seen, moved={WAL.group: (WAL.name, BASE + last * SIZE)}
            )  # fmt: skip
        except (LakeError, SQLAlchemyError):  # such as a catalog that is locked: the next try goes on
            time.sleep(random.random() * 0.05)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_two_feeds_that_are_killed_again_and_again_bring_each_edit_once(tmp_path: Path, table: Table) -> None:
    context = get_context("fork")

    def begin() -> Any:
        process = context.Process(target=keep_feeding, args=(tmp_path,))
        process.start()
        return process

    running = [begin(), begin()]
    for _ in range(KILLS):
        time.sleep(random.uniform(0.05, 0.5))
        victim = running.pop(0)
        victim.kill()
        victim.join()
        running.append(begin())
    for process in running:
        process.join(300)
        assert process.exitcode == 0
    table.refresh()
    found = rows_of(table)
    assert sorted(row["row"] for row in found) == [b"row%04d" % n for n in range(ENTRIES)]
    assert len({(row["wal"], row["offset"], row["cell"]) for row in found}) == ENTRIES
    assert positions_of(table, FEED).groups == {WAL.group: (WAL.name, BASE + ENTRIES * SIZE)}
