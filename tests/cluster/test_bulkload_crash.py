"""Runs that load files die at each step, or come late: nothing is lost, and no old edits lie above newer ones."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from embedded import wire
from embedded.client import GLOBAL
from tests.cluster import walferry_runs
from tests.cluster.conftest import Sides
from tests.cluster.loads import Mortal, create_keeping_table, die_after, die_before, folders_left, mortal_run, records_left
from tests.cluster.local_spread import LocalSpread
from tests.cluster.test_hfiles import ROWS, counted, repeated
from tests.cluster.walferry_runs import plan, roll, ship, source_of
from walferry.engine.summary import Status
from walferry.hbase.files.clients import local_path
from walferry.hbase.rpc import bulk_load
from walferry.load.records import LoadFolder
from walferry.replication.peers.settings import SinkKind
from walferry.replication.queues.lease import Lease
from walferry.shipping.bulkload import driver, peer_load, reading
from walferry.shipping.bulkload.job import LoadJob
from walferry.shipping.bulkload.loading import ShareOutcome
from walferry.shipping.bulkload.shares import Share

pytestmark = pytest.mark.parametrize("sink", [SinkKind.HFILES], indirect=True)

STEPS = {
    "before its record": die_before(peer_load, "begin_load"),
    "before a WAL is read": die_before(reading, "batches_of_closed"),
    "while WALs are read": die_before(reading, "batches_of_closed", 2),
    "before a folder is noted": die_before(LoadFolder, "note"),
    "before a load": die_before(bulk_load, "load"),
    "once one region is loaded": die_after(bulk_load, "load"),
    "before the last regions are loaded": die_before(bulk_load, "load", 4),
    "before a folder is deleted": die_before(bulk_load, "cleanup"),
    "before it is noted what is loaded": die_before(peer_load, "note_done"),
    "once it is noted": die_after(peer_load, "note_done"),
    "between two WALs that leave the queue": die_after(Lease, "remove_wal"),
    "once all WALs have left it": die_before(walferry_runs, "forget_finished"),
}


@pytest.fixture
def table(sides: Sides, unique: Callable[[str], str]) -> str:
    name = unique("load")
    create_keeping_table(sides.source, sides.peer_cluster, name)
    return name


def write(sides: Sides, table: str, chance: random.Random, *, ttls: bool = True) -> None:
    """Write edits of few keys into two WALs. Of two cells with one key, of which one has a TTL, requests may keep only one."""

    def some(count: int) -> list[wire.Mutation]:
        return [edit if ttls else replace(edit, ttl_ms=None) for edit in repeated(chance, count)]

    for _ in range(2):
        sides.source.write(table, some(200))
        sides.source.write(table, some(40), one_by_one=True)
        sides.source.write(table, counted(chance, 20), one_by_one=True)
        sides.source.roll_wals()


def check_same(sides: Sides, table: str) -> None:
    compared = sides.source.compare(table, sides.peer_cluster, raw=True)
    assert compared.same, compared.examples
    assert compared.left > ROWS


@pytest.mark.parametrize("then", [SinkKind.HFILES, SinkKind.DIRECT])
def test_a_run_may_be_killed_at_each_step(sides, table, peer, then: SinkKind) -> None:
    chance = random.Random(8)
    for number, (step, deaths) in enumerate(STEPS.items()):
        print(step)
        write(sides, table, chance, ttls=then is SinkKind.HFILES)
        with mortal_run(deaths) as mortal:
            ship(sides.at, peer, run_id=f"killed{number}", roll_first=False)
        assert mortal.dead, step
        summaries = ship(source_of(sides.source_cluster.address, then), peer, run_id=f"killed{number}")
        assert {s.status for s in summaries} <= {Status.DONE}, [s.error for s in summaries]
        assert not plan(sides.at, peer).to_ship
        check_same(sides, table)
        assert records_left(sides.at, peer) == []
        left = folders_left(sides.peer_hbase.address, table)
        assert [folder for folder, files in left.items() if files] == []
        assert len(left) <= 1  # a folder that the peer cluster made and no task noted is empty


class HeldLoad:
    """Holds the first call of a function until it is let go, and keeps the call's result."""

    def __init__(self, call: Callable[..., Any]) -> None:
        self._call = call
        self._lock = threading.Lock()
        self._calls = 0
        self.reached, self.go_on = threading.Event(), threading.Event()
        self.result: object = None

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        with self._lock:
            self._calls += 1
            first = self._calls == 1
        if not first:
            return self._call(*arguments, **options)
        self.reached.set()
        assert self.go_on.wait(120)
        try:
            self.result = self._call(*arguments, **options)
        except Exception as error:
            self.result = error
            raise
        return self.result


def test_a_file_that_the_peer_cluster_opens_late_lies_below_what_was_written_since_it_got_its_number(
    sides, unique, tmp_path: Path
) -> None:
    """So a load of a killed run that the peer cluster is still carrying out puts nothing on top of edits that the next run
    ships."""
    table, peer_cluster = unique("late"), sides.peer_cluster
    peer_cluster.create_table(table, {"f": GLOBAL})
    peer_cluster.bulk_load(table, [wire.put(row, {"f:q": b"old"}, timestamp=5) for row in ("row", "other")], tmp_path.as_uri())
    (region,) = peer_cluster.regions(table)
    store = Path(f"{local_path(sides.peer_hbase.address.wal_root)}/data/default/{table}/{region.encoded_name}/f")
    files = [file for file in store.iterdir() if "_SeqId_" in file.name]  # with its checksums
    for file in files:
        file.rename(tmp_path / file.name)  # the number is given, and the server has not opened the file yet
    peer_cluster.alter_family(table, "f", {"VERSIONS": "2"})
    assert peer_cluster.scan_all(table) == []
    peer_cluster.write(table, [wire.put("row", {"f:q": b"new"}, timestamp=5)])
    for file in files:
        (tmp_path / file.name).rename(file)
    peer_cluster.alter_family(table, "f", {"VERSIONS": "1"})  # reopens the region
    assert {cell.row: cell.value for cell in peer_cluster.scan_all(table)} == {b"row": b"new", b"other": b"old"}
    peer_cluster.major_compact(table)
    assert {cell.row: cell.value for cell in peer_cluster.scan_all(table)} == {b"row": b"new", b"other": b"old"}


@pytest.mark.parametrize("then", [SinkKind.HFILES, SinkKind.DIRECT])
@pytest.mark.parametrize("held", ["check", "load"])
def test_a_late_task_of_a_killed_run_loads_nothing(sides, table, peer, held: str, then: SinkKind) -> None:
    """When the task goes on, its driver is gone, and another run has shipped newer edits of the same cells."""

    def edits(value: bytes) -> list[wire.Mutation]:
        return [wire.put(f"row{i:02}", {"f:0": value, "g:0": value}, timestamp=5) for i in range(ROWS)]

    sides.source.write(table, edits(b"old"))
    roll(sides.at, peer)
    with ThreadPoolExecutor(1) as pool, pytest.MonkeyPatch.context() as patch:
        killed = Mortal()
        patch.setattr(driver, "open_session", killed.open_session)
        owner: Any = LoadFolder if held == "check" else bulk_load
        late = HeldLoad(getattr(owner, held))
        patch.setattr(owner, held, lambda *arguments, **options: late(*arguments, **options))
        run = pool.submit(ship, sides.at, peer, run_id="killed", roll_first=False)
        try:
            assert late.reached.wait(60)
            patch.setattr(driver, "open_session", walferry_runs.open_session)
            killed.lose_sessions()
            sides.source.write(table, edits(b"new"))
            (summary,) = ship(source_of(sides.source_cluster.address, then), peer, run_id="next")
            assert summary.status is Status.DONE, summary.error
        finally:
            late.go_on.set()
        error = run.exception(60)
    print(late.result, error)
    assert isinstance(late.result, Exception) or late.result is False
    assert error is not None
    assert {cell.value for cell in sides.peer_cluster.scan_all(table)} == {b"new"}
    assert sides.source.compare(table, sides.peer_cluster).same
    assert records_left(sides.at, peer) == []
    assert folders_left(sides.peer_hbase.address, table) == {}


class SecondTries(LocalSpread):
    """Each task that loads dies once it has loaded something, and is run again, as Spark does."""

    def load(self, job: LoadJob, share: Share) -> ShareOutcome:
        with mortal_run(die_after(bulk_load, "load")):
            return super().load(job, share)
        return super().load(job, share)


def test_tasks_that_die_in_the_middle_are_run_again(sides, table, peer) -> None:
    write(sides, table, random.Random(9))
    (summary,) = ship(sides.at, peer, spread=SecondTries)
    assert (summary.status, summary.sink) == (Status.DONE, "hfiles"), summary.error
    check_same(sides, table)
    assert records_left(sides.at, peer) == []
    assert folders_left(sides.peer_hbase.address, table) == {}
