"""The report of a shipping job's driver on its groups."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import cast

import pytest

from walferry.base.jobs import Backend, BackendFailed
from walferry.engine.summary import GroupSummary, Status
from walferry.hbase.errors import PausedPeer
from walferry.jobs.workers import LocalProcesses
from walferry.replication.filters.rules import PeerTables
from walferry.replication.peers.settings import PeerSettings, SinkKind
from walferry.replication.source.cluster import SourceCluster
from walferry.shipping import ship_run
from walferry.shipping.group_job import GroupJob, Left
from walferry.shipping.ship_run import ShipRun, nothing_queued, outcome

SOURCE = SourceCluster(quorum="zk1:2181", wal_root="file:///hbase")


BATCH = """
import sys, time
from walferry.shipping.group_job import GroupJob
from walferry.jobs.connect.server import Address
from walferry.replication.source.cluster import SourceCluster
from walferry.replication.filters.rules import PeerTables
from walferry.replication.peers.settings import PeerSettings, SinkKind
from walferry.jobs.connect import connect_job
from walferry.shipping import ship_run

ship_run._bytes_queued = lambda *_: 999
source = SourceCluster(quorum="zk1:2181", wal_root="file:///hbase")
run = ship_run.ShipRun(source=source, peer_id="2", run_id="r", deadline=60)
settings = PeerSettings(sink=SinkKind(sys.argv[1]), hfiles_from=1000)
job = GroupJob(source=source, peer_id="2", group="g", run_id="r", holder="run r", deadline=time.time() + 60, settings=settings)
left = ship_run.load_files(run, [job], connect_job.ConnectJob(Address("h"), None, None, run), print)
assert list(left.jobs) == [job]
print(sorted({"pyspark", "pandas", "numpy", "numba", "pyarrow"} & set(sys.modules)))
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("sink", "said"),
    [
        ("auto", "nothing is loaded as files: 999 bytes of WALs are fewer than 1,000\n"),
        ("direct", ""),
        pytest.param("replicate", "", marks=pytest.mark.slow),
    ],
)
def test_a_driver_with_nothing_to_load_imports_nothing_that_loads(sink: str, said: str) -> None:
    plugins = str(Path(ship_run.__file__).parents[2])
    done = subprocess.run([sys.executable, "-c", BATCH, sink], capture_output=True, text=True, env={"PYTHONPATH": plugins})
    assert done.stdout == f"{said}[]\n", done.stderr


def test_a_group_s_outcome_is_a_line_and_the_error_of_one_that_is_not_done_another() -> None:
    done = GroupSummary(group="g", status=Status.DONE, error="passed", completedLogs=1, shippedOps=2, shippedBytes=3)
    assert outcome(done) == ["g: done, shipped 1 WALs, 2 operations, 3 bytes"]
    failed = GroupSummary(group="g", status=Status.FAILED, error="no table")
    assert outcome(failed) == ["g: failed, shipped 0 WALs, 0 operations, 0 bytes", "g: no table"]


def test_a_run_without_closed_wals_says_where_it_has_looked() -> None:
    run = ShipRun(source=SOURCE, peer_id="2", run_id="r", deadline=60)
    assert nothing_queued(run) == "peer 2: no closed WALs are queued"
    some = ShipRun(source=SOURCE, peer_id="2", run_id="r", deadline=60, groups=("g1", "g2"))
    assert nothing_queued(some) == "peer 2: no closed WALs are queued in g1, g2"


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        ([GroupSummary(group="g", status=Status.RUNNING)], "the answer for WAL group g is none: g is running"),
        ([GroupSummary(group="h", status=Status.DONE)], "the answer for WAL group g is none: that of h"),
    ],
)
def test_a_backend_that_has_not_shipped_a_group_has_failed(answers: list[GroupSummary], why: str) -> None:
    job = GroupJob(source=SOURCE, peer_id="2", group="g", run_id="r", holder="run r", deadline=time.time() + 60)
    with pytest.raises(BackendFailed, match=why):
        ship_run._ship_all([job], cast(Backend, Answering(answers)))


WAITING, DONE = Status.WAITING, Status.DONE


class Rounds:
    """A backend whose groups end, round by round, as told: with a status, and so many entries read since the run's begin."""

    def __init__(self, rounds: list[dict[str, tuple[Status, int]]]) -> None:
        self.rounds = rounds

    def run(self, function: object, jobs: list[GroupJob], *_: object, **__: object) -> list[GroupSummary]:
        told = self.rounds.pop(0)
        assert [job.group for job in jobs] == list(told), "only groups that wait are shipped again"
        return [GroupSummary(group=group, status=status, logEditsRead=read) for group, (status, read) in told.items()]


@pytest.mark.parametrize(
    ("rounds", "ends"),
    [
        ([{"a": (DONE, 5), "b": (DONE, 0), "c": (DONE, 1)}], [DONE, DONE, DONE]),
        (
            [{"a": (DONE, 5), "b": (WAITING, 2), "c": (WAITING, 0)}, {"b": (DONE, 9), "c": (WAITING, 0)}, {"c": (DONE, 3)}],
            [DONE, DONE, DONE],
        ),
        (
            [
                {"a": (Status.FAILED, 5), "b": (WAITING, 2), "c": (WAITING, 0)},
                {"b": (WAITING, 2), "c": (WAITING, 1)},
                {"b": (WAITING, 2), "c": (WAITING, 1)},
            ],
            [Status.FAILED, WAITING, WAITING],
        ),
    ],
    ids=["none waits", "each for the one before", "for one that cannot get further"],
)
def test_groups_that_wait_are_shipped_again_while_any_gets_further(
    rounds: list[dict[str, tuple[Status, int]]], ends: list[Status]
) -> None:
    jobs = [
        GroupJob(source=SOURCE, peer_id="2", group=group, run_id="r", holder="run r", deadline=time.time() + 60)
        for group in "abc"
    ]
    backend = Rounds(rounds)
    assert [summary.status for summary in ship_run._ship_in_order(jobs, cast(Backend, backend))] == ends
    assert backend.rounds == []


def test_after_the_deadline_no_group_is_shipped_again() -> None:
    job = GroupJob(source=SOURCE, peer_id="2", group="a", run_id="r", holder="run r", deadline=time.time() - 1)
    (summary,) = ship_run._ship_in_order([job], cast(Backend, Rounds([{"a": (WAITING, 3)}])))
    assert summary.status is WAITING


def test_a_serial_peer_s_backlog_goes_by_requests() -> None:
    settings = PeerSettings(sink=SinkKind.HFILES)
    job = GroupJob(
        source=SOURCE,
        peer_id="2",
        group="g",
        run_id="r",
        holder="r",
        deadline=time.time() + 60,
        settings=settings,
        serial_tables=PeerTables(),
    )
    run, said = ShipRun(source=SOURCE, peer_id="2", run_id="r", deadline=60), list[str]()
    assert ship_run.load_files(run, [job], cast(Backend, Answering([])), said.append).jobs == [job]
    assert said == ["peer 2: it is serial, and files have no order, so its edits go by direct"]


class Answering:
    """A backend that gives these results."""

    def __init__(self, answers: list[GroupSummary]) -> None:
        self.answers = answers

    def run(self, *_: object, **__: object) -> list[GroupSummary]:
        return self.answers


def test_a_backlog_is_loaded_as_files_from_a_terminal_too(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[Backend] = []

    def load_backlog(jobs: list[GroupJob], on: Backend, **_: object) -> Left:
        loaded.append(on)
        return Left((GroupSummary(group="g"),), ())

    driver = cast(ModuleType, SimpleNamespace(load_backlog=load_backlog))
    monkeypatch.setitem(sys.modules, "walferry.shipping.bulkload.driver", driver)
    settings = PeerSettings(sink=SinkKind.HFILES)
    job = GroupJob(source=SOURCE, peer_id="2", group="g", run_id="r", holder="r", deadline=time.time() + 60, settings=settings)
    run, said = ShipRun(source=SOURCE, peer_id="2", run_id="r", deadline=60), list[str]()
    here = LocalProcesses(1)
    assert ship_run.load_files(run, [job], here, said.append).jobs == ()
    assert (loaded, said) == ([here], [])


def test_the_jobs_of_other_peers_come_along_unless_these_may_not_be_shipped_or_want_no_files(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given: list[list[GroupJob]] = []

    def load_backlog(jobs: list[GroupJob], on: Backend, *, also: list[list[GroupJob]], **_: object) -> Left:
        given.extend(also)
        return Left((), jobs)

    def begin(run: ShipRun) -> list[GroupJob]:
        if run.peer_id == "paused":
            raise PausedPeer("paused")
        sink = SinkKind.DIRECT if run.peer_id == "direct" else SinkKind.HFILES
        assert (run.also, run.run_id) == ({}, "r2")
        return [] if run.peer_id == "idle" else [job(run.peer_id, sink)]

    def job(peer_id: str, sink: SinkKind) -> GroupJob:
        settings = PeerSettings(sink=sink)
        return GroupJob(
            source=SOURCE, peer_id=peer_id, group="g", run_id="r", holder="r", deadline=time.time() + 60, settings=settings
        )

    monkeypatch.setitem(
        sys.modules, "walferry.shipping.bulkload.driver", cast(ModuleType, SimpleNamespace(load_backlog=load_backlog))
    )
    monkeypatch.setattr(ship_run, "begin", begin)
    run, said = (
        ShipRun(source=SOURCE, peer_id="2", run_id="r", deadline=60, also=dict.fromkeys(("paused", "direct", "idle", "3"), "r2")),
        list[str](),
    )
    ship_run.load_files(run, [job("2", SinkKind.HFILES)], cast(Backend, Answering([])), said.append)
    assert [[each.peer_id for each in jobs] for jobs in given] == [["3"]]
    (line,) = said
    assert line.startswith("peer paused is left to its own run: peer paused: it is paused")
