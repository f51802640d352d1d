"""First copies into a lake: with the feed, each cell of a raw scan is there once, whatever is written or killed meanwhile."""

from __future__ import annotations

import json
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from typing import Any

import pytest

from embedded.wire import put
from tests.cluster.feeds import Fed, create_table, deadly, lake, unfed, write
from tests.cluster.walferry_runs import roll
from walferry.base.errors import WalferryError
from walferry.base.jobs import JobOutcome
from walferry.engine.summary import Status
from walferry.hbase.cluster import master as active_master
from walferry.hbase.rpc import master
from walferry.initial_snapshot import into_lake, lake_pieces, lake_rows
from walferry.initial_snapshot.job import CopyRun
from walferry.jobs.workers import LocalProcesses
from walferry.load.errors import CopyRefused
from walferry.replication.source.session import open_session
from walferry.shipping.lake.catalog import open_catalog

__all__ = ["unfed"]  # fixtures

KILLS = int(os.environ.get("LAKE_KILLS", "6"))


@pytest.fixture
def fed(unfed: Fed) -> Iterator[Fed]:
    """A peer that is made after its tables have got rows, of which some are in older WALs, and some in files."""
    write(unfed, random.Random(1), 60, 0)
    unfed.sides.source.flush(unfed.tables[0])
    unfed.sides.source.roll_wals()
    write(unfed, random.Random(2), 30, 60)
    unfed.begin()
    yield unfed
    unfed.sides.source.remove_peer(unfed.peer)


def request(fed: Fed, *tables: str, run_id: str = "copy", **options: Any) -> CopyRun:
    return CopyRun(source=fed.sides.at, peer_id=fed.peer, run_id=run_id, tables=tables, **options)


def copy(fed: Fed, *tables: str, processes: int = 2, **options: Any) -> JobOutcome:
    return request(fed, *tables, **options).run(LocalProcesses(processes), print)


def whole(fed: Fed, *tables: str, **options: Any) -> None:
    """Copy, and check that the copy is whole."""
    outcome = copy(fed, *tables, **options)
    assert (outcome.failed, outcome.errors) == (False, ())


@contextmanager
def in_small_steps(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let a task copy one region, and commit after each one if there is one process."""
    with monkeypatch.context() as small:
        small.setattr(lake_pieces, "TASK_BYTES", 1)
        small.setattr(into_lake, "TASKS_A_CORE", 1)
        yield


class Killed(BaseException):
    """Stands for kill -9: nothing handles it."""


def test_a_copy_and_the_feed_bring_each_cell_once(fed: Fed) -> None:
    write(fed, random.Random(3), 30, 90)
    whole(fed)
    copied = len(fed.changes(fed.tables[0]))
    assert copied > 0
    assert {row["wal"] for row in fed.changes(fed.tables[0])} == {None}
    write(fed, random.Random(4), 30, 120)
    assert {s.status for s in fed.batch()} == {Status.DONE}
    fed.is_complete()
    assert len(fed.changes(fed.tables[0])) > copied
    with open_session(fed.sides.at) as session, master.connect(active_master(session.zk, session.nodes)) as source:
        assert not [name for name in master.completed_snapshots(source) if fed.peer in name]


def test_edits_that_are_written_during_the_copy_arrive_once(fed: Fed, monkeypatch: pytest.MonkeyPatch) -> None:
    ended, begin = threading.Event(), into_lake.begin_tables

    def keep_writing() -> None:
        number = 0
        while not ended.is_set():
            write(fed, random.Random(number), 5, 1000 + 5 * number)
            number += 1

    def begin_tables(*arguments: Any) -> Any:
        time.sleep(1)  # so that there are edits before the border, and between it and the snapshots
        return begin(*arguments)

    monkeypatch.setattr(into_lake, "begin_tables", begin_tables)
    writer = threading.Thread(target=keep_writing)
    writer.start()
    try:
        whole(fed)
        fed.batch(run_id="during")
    finally:
        ended.set()
        writer.join()
    fed.batch(run_id="after")
    fed.is_complete()


def test_a_batch_waits_while_the_copy_is_not_whole(fed: Fed, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as killed, suppress(Killed):
        killed.setattr(into_lake, "append_copy", dies_after(2, into_lake.append_copy))
        copy(fed)
    with pytest.raises(WalferryError, match="its initial snapshot, begun by run copy, is not complete"):
        fed.batch()
    whole(fed, run_id="again")
    fed.batch()
    fed.is_complete()


def dies_after(count: int, step: Callable[..., Any]) -> Callable[..., Any]:
    """A step that is carried out `count` times, and then ends the process that it is of."""
    calls: list[None] = []

    def either(*arguments: Any, **named: Any) -> Any:
        if len(calls) == count:
            raise Killed
        calls.append(None)
        return step(*arguments, **named)

    return either


@pytest.mark.parametrize("step", range(8))
def test_a_copy_that_is_killed_between_two_commits_goes_on(fed: Fed, monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    with in_small_steps(monkeypatch), monkeypatch.context() as killed, suppress(Killed):
        name = ("append_copy", "write_parts")[step % 2]
        killed.setattr(into_lake, name, dies_after(step // 2 + 1, getattr(into_lake, name)))
        copy(fed, processes=1)
    write(fed, random.Random(3), 30, 90)
    whole(fed, run_id="again")
    write(fed, random.Random(4), 30, 120)
    fed.batch()
    fed.is_complete()


def test_a_task_that_has_written_many_files_leaves_the_rest_to_another_one(fed: Fed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lake_rows, "MOST_FILES", 0)
    monkeypatch.setattr(lake_rows, "PIECE_BYTES", 1)
    said = list[str]()
    fed.sides.source.flush(fed.tables[0])
    outcome = request(fed).run(InThisProcess(), said.append)
    assert not outcome.failed, outcome.errors
    assert json.loads(outcome.result)["regions"] > 8, "more parts than regions"
    write(fed, random.Random(3), 30, 90)
    fed.batch()
    fed.is_complete()


class InThisProcess(LocalProcesses):
    """A backend without processes, whose functions see what a test has changed."""

    def __init__(self) -> None:
        super().__init__(1)

    def run(self, function: Any, items: Any, *_: Any, **__: Any) -> Any:
        return [function(item) for item in items]


def test_a_family_that_the_peer_gets_during_the_copy_is_not_left_out_in_silence(
    fed: Fed, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = fed.tables[0]
    with in_small_steps(monkeypatch), monkeypatch.context() as killed, suppress(Killed):
        killed.setattr(into_lake, "append_copy", dies_after(3, into_lake.append_copy))
        copy(fed, table, processes=1)
    fed.sides.source.alter_family(table, "l", {"REPLICATION_SCOPE": "1"})
    with pytest.raises(CopyRefused, match=f"the copy of table {table} in the lake was begun without family l"):
        copy(fed, table, run_id="again")
    lake().drop_table(("default", f"{table}_changes"))
    whole(fed, table, run_id="anew")
    assert {row["family"] for row in fed.changes(table)} == {b"f", b"l"}


def test_one_table_s_trouble_does_not_keep_the_others_from_being_copied(fed: Fed, monkeypatch: pytest.MonkeyPatch) -> None:
    bad, good = sorted(fed.tables)

    def refused(table: str, _: object) -> None:
        if table == bad:
            raise CopyRefused(f"table {bad} is odd")

    with monkeypatch.context() as odd:
        odd.setattr(into_lake, "check_chain", refused)
        outcome = copy(fed)
    assert (outcome.failed, outcome.errors) == (True, (f"table {bad} is odd",))
    assert fed.changes(good)
    with pytest.raises(WalferryError, match="is not complete"):
        fed.batch()
    whole(fed, run_id="again")
    write(fed, random.Random(3), 30, 90)
    fed.batch()
    fed.is_complete()


def test_a_peer_that_gets_fewer_families_and_then_more_has_no_gap_in_silence(fed: Fed, monkeypatch: pytest.MonkeyPatch) -> None:
    table = fed.tables[0]
    fed.sides.source.alter_family(table, "l", {"REPLICATION_SCOPE": "1"})
    with in_small_steps(monkeypatch), monkeypatch.context() as killed, suppress(Killed):
        killed.setattr(into_lake, "append_copy", dies_after(3, into_lake.append_copy))
        copy(fed, table, processes=1)
    fed.sides.source.alter_family(table, "l", {"REPLICATION_SCOPE": "0"})
    whole(fed, table, run_id="fewer")
    fed.sides.source.alter_family(table, "l", {"REPLICATION_SCOPE": "1"})
    with pytest.raises(CopyRefused, match=f"the copy of table {table} in the lake was begun without family l"):
        copy(fed, table, run_id="again")


def test_regions_that_split_while_snapshots_are_taken_have_them_taken_again(fed: Fed, monkeypatch: pytest.MonkeyPatch) -> None:
    names, splits = into_lake._names, []

    def after_a_split(tables: Any, table: str) -> set[str]:
        if not splits:
            splits.append(table)
            fed.sides.source.split_region(fed.sides.source.regions(table)[0].encoded_name, b"row05")
        return names(tables, table)

    monkeypatch.setattr(into_lake, "_names", after_a_split)
    whole(fed)
    write(fed, random.Random(3), 30, 90)
    fed.batch()
    fed.is_complete()


def test_a_copy_goes_on_after_regions_were_split_and_merged(fed: Fed, monkeypatch: pytest.MonkeyPatch) -> None:
    with in_small_steps(monkeypatch), monkeypatch.context() as killed, suppress(Killed):
        killed.setattr(into_lake, "append_copy", dies_after(4, into_lake.append_copy))
        copy(fed, processes=1)
    source, (table, other) = fed.sides.source, fed.tables
    regions = source.regions(table)
    source.split_region(regions[0].encoded_name, b"row05")
    source.merge_regions(regions[2].encoded_name, regions[3].encoded_name)
    source.split_region(source.regions(other)[1].encoded_name, b"row15")
    write(fed, random.Random(3), 40, 90)
    whole(fed, run_id="again")
    write(fed, random.Random(4), 40, 130)
    fed.batch()
    fed.is_complete()


def test_a_copy_reads_halves_of_files_after_a_split(fed: Fed) -> None:
    source, table = fed.sides.source, fed.tables[0]
    source.switch_compaction(table, False)
    source.flush(table)
    source.split_region(source.regions(table)[0].encoded_name, b"row05")
    whole(fed)
    write(fed, random.Random(4), 30, 120)
    fed.batch()
    fed.is_complete()


def test_cells_with_tags_keep_them(fed: Fed) -> None:
    tag = (100, b"data")
    fed.sides.source.write(fed.tables[0], [put("tagged", {"f:a": b"v"}, timestamp=5, tags=[tag])])
    whole(fed)
    fed.sides.source.write(fed.tables[0], [put("tagged", {"f:a": b"v"}, timestamp=6, tags=[tag])])
    fed.batch()
    fed.is_complete()
    copied, later = sorted((r for r in fed.changes(fed.tables[0]) if r["row"] == b"tagged"), key=lambda row: row["timestamp"])
    assert copied["tags"] == later["tags"] != b""
    assert (copied["wal"], copied["write_time"], copied["cell"]) == (None, None, None)
    assert copied["sequence_id"] < later["sequence_id"]


def test_a_table_that_was_truncated_while_it_was_copied_is_refused(fed: Fed, monkeypatch: pytest.MonkeyPatch) -> None:
    table = fed.tables[0]
    with in_small_steps(monkeypatch), monkeypatch.context() as killed, suppress(Killed):
        killed.setattr(into_lake, "append_copy", dies_after(3, into_lake.append_copy))
        copy(fed, table, processes=1)
    fed.sides.source.drop_table(table)
    create_table(fed.sides, table)
    fed.sides.source.write(table, [put("new", {"f:a": b"v"})])
    assert "may have been truncated, dropped or restored" in str(copy(fed, table, run_id="again").errors)
    open_catalog("lake").drop_table(("default", f"{table}_changes"))
    whole(fed, run_id="anew")
    fed.batch()
    assert {row["row"] for row in fed.changes(table)} == {b"new"}


def test_a_table_that_is_made_anew_after_its_copy_gets_all_its_edits_though_it_counts_from_one_again(fed: Fed) -> None:
    table = fed.tables[0]
    whole(fed)
    copied = len(fed.changes(table))
    fed.sides.source.drop_table(table)
    create_table(fed.sides, table)
    fed.sides.source.write(table, [put(f"row{n:02}", {"f:a": b"new"}) for n in range(40)])
    fed.batch()
    assert len(fed.changes(table)) == copied + 40


def test_a_table_with_edits_of_the_feed_is_not_copied(fed: Fed) -> None:
    write(fed, random.Random(2), 20, 5000)
    fed.batch()
    with pytest.raises(CopyRefused, match="_changes of the lake has edits of this peer already"):
        copy(fed)
    lake().drop_table(("default", f"{fed.tables[0]}_changes"))
    whole(fed, fed.tables[0])
    write(fed, random.Random(3), 20, 90)
    fed.batch(run_id="later")
    table, other = ({(row["row"], row["value"], row["timestamp"]) for row in fed.changes(each)} for each in fed.tables)
    assert len(table) > len(other), "the other one lacks what was written before the peer"


def test_a_table_that_is_copied_is_not_copied_again(fed: Fed) -> None:
    whole(fed, fed.tables[0])
    whole(fed, run_id="both")
    assert len(fed.changes(fed.tables[1])) > 0
    with pytest.raises(CopyRefused, match="the lake has all of these tables already"):
        copy(fed, run_id="third")
    with pytest.raises(CopyRefused, match="Leave out allow_not_empty"):
        copy(fed, run_id="fourth", allow_not_empty=True)
    fed.batch()
    fed.is_complete()


def test_a_peer_that_is_made_again_brings_nothing_again(fed: Fed) -> None:
    whole(fed)
    fed.sides.source.remove_peer(fed.peer)
    fed.begin()
    write(fed, random.Random(3), 30, 90)
    fed.batch()
    fed.is_complete()


def test_a_record_of_a_part_that_is_gone_stops_wals_with_edits_that_the_copy_may_have(
    fed: Fed, monkeypatch: pytest.MonkeyPatch
) -> None:
    find_border = into_lake.find_border

    def after_edits(*arguments: Any) -> Any:
        write(fed, random.Random(3), 30, 90)
        return find_border(*arguments)

    monkeypatch.setattr(into_lake, "find_border", after_edits)
    whole(fed)
    with open_session(fed.sides.at) as session:
        session.zk.delete(session.own.lake_copies(fed.peer), recursive=True)
    assert "drop the table of changes, and run initial_snapshot" in str({s.error for s in fed.batch() if s.failed})


def test_a_table_whose_files_cannot_be_read_is_refused(fed: Fed) -> None:
    fed.sides.source.alter_family(fed.tables[0], "f", {"IS_MOB": "true", "MOB_THRESHOLD": "100"})
    with pytest.raises(CopyRefused, match=f"table {fed.tables[0]} cannot be copied into a lake: values of family f lie in MOB"):
        copy(fed)
    whole(fed, fed.tables[1])


def keep_copying(fed: Fed, run_id: str, seed: int) -> None:
    """Copy and ship again and again, and die by chance at each step that changes anything."""
    chance = random.Random(seed)

    for name in ("append_copy", "write_parts", "begin_tables", "forget_parts"):
        setattr(into_lake, name, deadly(getattr(into_lake, name), chance, 0.08))  # of this process
    lake_pieces.TASK_BYTES, into_lake.TASKS_A_CORE = 1, 1
    while True:
        with suppress(WalferryError):
            if not request(fed, run_id=run_id).run(LocalProcesses(1), lambda line: None).failed:
                return
        time.sleep(0.2)


@pytest.mark.timeout(900)
def test_copies_that_are_killed_again_and_again_bring_each_cell_once(fed: Fed) -> None:
    context, chance = get_context("fork"), random.Random(5)
    for number in range(KILLS):
        write(fed, chance, 10, 1000 + 10 * number)
        process = context.Process(target=keep_copying, args=(fed, f"copy {number}", number))
        process.start()
        process.join(chance.uniform(1.0, 8.0))
        process.kill()
        process.join()
    with suppress(CopyRefused):  # it has ended by then
        whole(fed, run_id="last")
    write(fed, chance, 10, 9000)
    roll(fed.sides.at, fed.peer)
    fed.batch()
    fed.is_complete()
