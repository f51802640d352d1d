"""The progress of a job: its WALs and bytes, over attempts; reported only on change."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from walferry.base.zk.errors import ConnectError
from walferry.engine.counters import Counters
from walferry.engine.summary import GroupSummary, Status
from walferry.replication.sinks.answers import REPEAT_SECONDS, Outage, Repeats
from walferry.replication.source.cluster import SourceCluster
from walferry.runs.reports import progress as module
from walferry.runs.reports.progress import JobPace, JobProgress, ProgressLog, outage, progress
from walferry.runs.values import Planned
from walferry.shipping import runs
from walferry.shipping.bulkload import load_note

SOURCE = SourceCluster(quorum="zk:2181", wal_root="file:///hbase")
PLAN = Planned("r.1", "p", groups=2, wals=10, bytes=1000)


def group(name: str, wals: int, to_ship: int, done: int, left: int = 0, **fields: Any) -> GroupSummary:
    counts = {"completedLogs": wals, "logsLeft": left, "bytesToShip": to_ship, "bytesDone": done}
    return GroupSummary(group=name, queue_id="p-d", **counts, **fields)


def at(done: int, total: int = 100_000_000) -> JobProgress:
    return JobProgress(0, 5, done, total)


def test_the_rate_is_that_of_the_last_minute_and_the_estimate_follows_from_it():
    pace = JobPace()
    assert pace(0.0, at(0)) == ""  # nothing is known yet
    assert pace(3.0, at(6_000_000)) == ""
    assert pace(10.0, at(20_000_000)) == "; 2.0 MB/s, about 40 s to go"
    for second in range(20, 100, 10):
        reported = pace(float(second), at(20_000_000 + 100_000 * (second - 10)))
    assert reported == "; 100.0 kB/s, about 12 min to go"  # the fast beginning is long ago


def test_a_job_that_stands_still_has_no_estimate_and_one_at_its_end_needs_none():
    pace = JobPace()
    pace(0.0, at(5))
    assert pace(30.0, at(5)) == "; nothing in the last 30 s"
    assert pace(40.0, at(100, 100)) == ""


def test_groups_are_added_up():
    assert progress(PLAN, [group("a", 2, 400, 100, 3), group("b", 1, 600, 200, 4)]) == JobProgress(3, 10, 300, 1000)


def test_a_group_that_has_not_begun_is_still_to_do():
    assert progress(PLAN, [group("a", 4, 400, 400)]) == JobProgress(4, 10, 400, 1000)


def test_a_group_that_another_run_holds_is_not_done():
    held = GroupSummary(group="b", status=Status.HELD, error="held")
    assert progress(PLAN, [group("a", 4, 400, 400), held]) == JobProgress(4, 10, 400, 1000)


def test_what_a_killed_attempt_did_stays_done():
    assert progress(PLAN, [group("a", 3, 250, 50, 2), group("b", 2, 350, 0, 3)]) == JobProgress(5, 10, 450, 1000)


def test_what_a_killed_attempt_did_without_counting_it_is_done_all_the_same():
    assert progress(PLAN, [group("a", 3, 250, 50, 1), group("b", 2, 350, 0, 3)]) == JobProgress(6, 10, 450, 1000)


def test_with_a_wal_left_it_is_not_all_though_all_bytes_are_shipped():
    text = str(progress(replace(PLAN, groups=1, wals=2), [group("a", 1, 0, 0, 1)]))
    assert text == "1 of 2 WALs, 1.0 kB of 1.0 kB (99 %); left: 1 WAL, 0 B"


def test_a_group_that_has_not_begun_is_left_though_others_had_more_than_was_planned():
    now = progress(replace(PLAN, wals=2, bytes=20), [group("a", 3, 40, 40)])
    assert now == JobProgress(3, 4, 40, 40)
    assert "(99 %); left: 1 WAL" in str(now)


@dataclass
class Group:
    """A WAL group whose task ships, counts and publishes, and may be killed between any two of its steps."""

    name: str
    wals: list[int]  # bytes of those that are queued
    published: GroupSummary | None = None
    done: int = 0  # of the first one
    steps: Iterator[None] | None = field(default=None, repr=False)

    def attempt(self) -> Iterator[None]:
        counters = Counters(self.published or GroupSummary(group=self.name))
        if not self.wals:
            counters.end(Status.DONE)
            self.published = counters.summary()
            return
        to_ship = sum(self.wals) - self.done
        counters.begin(peer_cluster="k", server="s", queue_id="p", queued=9, wals=len(self.wals), bytes_to_ship=to_ship)
        self.published = counters.summary()
        while self.wals:
            for done in (self.wals[0] // 2, self.wals[0]):
                self.done = max(self.done, done)  # a later attempt begins at its position
                yield
                counters.done(to_ship - sum(self.wals) + self.done)
                yield
                self.published = counters.summary()
            yield
            del self.wals[0]
            self.done = 0
            yield
            counters.completed(ignored=None)
        counters.end(Status.DONE)
        yield
        self.published = counters.summary()

    def step(self, *, killed: bool) -> None:
        self.steps = None if killed else self.steps or self.attempt()
        if self.steps and next(self.steps, "end") == "end":
            self.steps = None


@given(
    st.lists(st.lists(st.integers(1, 100_000), min_size=1, max_size=4), min_size=1, max_size=3),
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9)), max_size=80),
)
@example([[1], [1]], [(0, 1)] * 3 + [(0, 0)] + [(0, 1)] * 3)
def test_it_is_all_only_when_no_wal_is_left_whenever_attempts_are_killed(sizes, steps):
    groups = [Group(f"g{i}", list(wals)) for i, wals in enumerate(sizes)]
    plan = Planned("r.1", "p", len(sizes), sum(map(len, sizes)), sum(map(sum, sizes)))

    def look() -> JobProgress:
        now = progress(plan, [g.published for g in groups if g.published])
        left = sum(len(g.wals) for g in groups)
        assert ("100 %" in str(now)) == (now.wals_done == now.wals)
        assert now.wals - now.wals_done >= left, f"{now}, while {left} are left"
        assert 0 <= now.wals_done <= now.wals
        assert 0 <= now.bytes_done <= now.bytes
        return now

    for which, dice in steps:
        groups[which % len(groups)].step(killed=dice == 0)
        look()
    for g in groups:
        while not (g.published and g.published.status is Status.DONE):
            g.step(killed=False)
    assert look().wals_done == plan.wals
    assert "(100 %); left: 0 WALs, 0 B" in str(look())


def test_a_file_that_has_grown_since_is_no_reason_for_more_than_all():
    assert progress(PLAN, [group("a", 5, 900, 900), group("b", 5, 600, 600)]) == JobProgress(10, 10, 1500, 1500)


def test_it_reads_as_a_sentence():
    assert str(JobProgress(3, 12, 1_200_000_000, 4_500_000_000)) == "3 of 12 WALs, 1.2 GB of 4.5 GB (26 %); left: 9 WALs, 3.3 GB"
    assert str(JobProgress(0, 1, 0, 0)) == "0 of 1 WAL, 0 B of 0 B; left: 1 WAL, 0 B"


class Job:
    """A Spark job's summaries as they change, and a ZooKeeper that may be away."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.summaries: list[GroupSummary] = []
        self.away = False
        self.loading = ""
        self.looks = threading.Semaphore(0)
        monkeypatch.setattr("walferry.replication.source.session.connected", self._connected)
        monkeypatch.setattr(runs, "read_run", self._read)
        monkeypatch.setattr(load_note, "read_load_note", lambda session, peer, run_id: self.loading)
        monkeypatch.setattr(module, "EVERY_SECONDS", 0.0)
        monkeypatch.setattr(module, "LOOK_SECONDS", 0.01)

    @contextmanager
    def _connected(self, quorum: str, *, login: object):
        yield SimpleNamespace(default_acl=None)

    def _read(self, session: object, peer: str, run_id: str) -> list[GroupSummary]:
        self.looks.release()
        if self.away:
            raise ConnectError("away")
        return self.summaries

    def await_looks(self) -> None:
        for _ in range(3):
            assert self.looks.acquire(timeout=30)


def test_only_changes_are_told_and_the_end_is(monkeypatch):
    job, reported, warned = Job(monkeypatch), [], []
    with ProgressLog(SOURCE, replace(PLAN, groups=1), reported.append, warned.append):
        job.await_looks()
        assert reported == []  # none of its groups has begun
        job.summaries = [group("a", 0, 1000, 0, 10)]
        job.await_looks()
        job.summaries = [group("a", 5, 1000, 500, 5)]
        job.await_looks()
        job.away = True
        job.await_looks()
        job.away = False
        job.await_looks()
        monkeypatch.setattr(module, "LOOK_SECONDS", 600)
        job.summaries = [group("a", 10, 1000, 1000)]
    assert [text.partition(", ")[0] for text in reported] == [
        "peer p: 0 of 10 WALs",
        "peer p: 5 of 10 WALs",
        "peer p: 10 of 10 WALs",
    ]
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("progress")]
    assert warned == ["peer p: the job's progress is not known: away"]


def test_how_far_a_load_is_is_told_once_it_has_changed(monkeypatch):
    job, reported, warned = Job(monkeypatch), [], []
    with ProgressLog(SOURCE, replace(PLAN, groups=2), reported.append, warned.append):
        for job.loading in ("read 1 of 2 parts", "read 1 of 2 parts", "read 2 of 2 parts", ""):
            job.await_looks()
            job.await_looks()
    assert [text for text in reported if "parts" in text] == ["peer p: read 1 of 2 parts", "peer p: read 2 of 2 parts"]
    assert warned == []


SILENT: dict[str, Any] = {
    "peer_cluster": "zk1:2181:/hbase",
    "sinkSilentSince": 1_700_000_000_000,
    "sinkTries": 3,
    "sinkError": "connection to rs1:16020 failed: connecting: [Errno 111] Connection refused",
}


def test_a_peer_cluster_that_acknowledges_nothing_is_named_with_since_when_the_last_error_and_that_the_backlog_is_kept():
    stuck = group("a", 0, 1000, 0, 10, **SILENT)
    assert outage("p", [stuck], "left: 10 WALs, 1.0 kB") == (
        "peer p: peer cluster zk1:2181:/hbase has acknowledged nothing since 2023-11-14 22:13:20 UTC (3 failed tries, the last: "
        "connection to rs1:16020 failed: connecting: [Errno 111] Connection refused). "
        "The backlog is kept, left: 10 WALs, 1.0 kB; the job tries on until its deadline"
    )
    well = group("b", 0, 1000, 0, 10)
    assert "nothing of 1 of 2 WAL groups since" in (outage("p", [stuck, well], "") or "")
    assert "(it is silent)" in (outage("p", [replace(stuck, sinkTries=0, sinkError=None)], "") or "")
    assert outage("p", [well], "") is None
    assert outage("p", [replace(stuck, status=Status.FAILED)], "") is None  # its task has ended, and the report says why


def test_an_outage_is_a_warning_not_at_each_look_and_its_end_is_told(monkeypatch):
    job, reported, warned = Job(monkeypatch), [], []
    with ProgressLog(SOURCE, replace(PLAN, groups=1), reported.append, warned.append):
        job.summaries = [group("a", 0, 1000, 0, 10, **SILENT)]
        job.await_looks()
        job.await_looks()
        job.summaries = [group("a", 0, 1000, 500, 10)]
        job.await_looks()
        job.await_looks()
    (warning,) = warned
    assert "peer cluster zk1:2181:/hbase has acknowledged nothing since" in warning
    assert reported.count("peer p: its peer cluster acknowledges again") == 1


def test_what_goes_on_is_said_again_after_growing_intervals():
    now = [0.0]
    repeats = Repeats(lambda: now[0])
    said = []
    for second in range(0, 3000):
        now[0] = second
        if repeats.due():
            said.append(second)
    assert said[:4] == [0, REPEAT_SECONDS, 3 * REPEAT_SECONDS, 7 * REPEAT_SECONDS]
    assert len(said) < 10
    assert repeats.reset()
    assert not repeats.reset()
    assert repeats.due()


def test_counters_keep_the_outage_and_the_lag_of_what_is_not_shipped(monkeypatch):
    monkeypatch.setattr("walferry.engine.counters.time.time", lambda: 1000.0)
    counters = Counters(GroupSummary(group="a"))
    counters.begin(peer_cluster="k", server="s", queue_id="p", queued=3, wals=2, bytes_to_ship=100)
    assert counters.summary().replicationLag is None
    counters.next_to_replicate(940_000)
    counters.outage(Outage(950.0, 2, "refused"))
    counters.end(Status.FAILED, "unreachable")
    s = counters.summary()
    assert (s.replicationLag, s.timestampOfNextToReplicate, s.sinkSilentSince, s.sinkTries) == (60_000, 940_000, 950_000, 2)
    again = Counters(s)
    again.end(Status.DONE)
    s = again.summary()
    assert (s.replicationLag, s.timestampOfNextToReplicate, s.sinkSilentSince, s.sinkTries) == (0, None, None, 0)


def test_the_bytes_of_all_attempts_of_a_run_are_known() -> None:
    first = Counters(GroupSummary(group="a"))
    first.begin(peer_cluster="s", server="rs", queue_id="p", queued=2, wals=2, bytes_to_ship=1000)
    first.done(300)
    again = Counters(first.summary())
    again.begin(peer_cluster="s", server="rs", queue_id="p", queued=2, wals=2, bytes_to_ship=700)
    again.done(50)
    s = again.summary()
    assert (s.bytesDoneBefore, s.bytesDone, s.bytesToShip) == (300, 50, 700)
