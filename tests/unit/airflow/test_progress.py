"""How far a job is: its WALs and bytes, over attempts; told on change only."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import Any

import pytest

from walferry import summary
from walferry.airflow import progress as module
from walferry.airflow.progress import Progress, ProgressLog, progress, size
from walferry.source import SourceCluster
from walferry.summary import GroupSummary, Status
from walferry.zk import client
from walferry.zk.errors import ConnectError

SOURCE = SourceCluster(quorum="zk:2181", wal_root="file:///hbase")
PLAN: dict[str, Any] = {"run_id": "r.1", "groups": 2, "wals": 10, "bytes": 1000}


def group(name: str, wals: int, to_ship: int, done: int, **fields: Any) -> GroupSummary:
    return GroupSummary(group=name, queue_id="p-d", completedLogs=wals, bytesToShip=to_ship, bytesDone=done, **fields)


def test_groups_are_added_up():
    assert progress(PLAN, [group("a", 2, 400, 100), group("b", 1, 600, 200)]) == Progress(3, 10, 300, 1000)


def test_a_group_that_has_not_begun_is_still_to_do():
    assert progress(PLAN, [group("a", 4, 400, 400)]) == Progress(4, 10, 400, 1000)


def test_a_group_that_somebody_else_holds_is_not_done():
    held = GroupSummary(group="b", status=Status.HELD, error="held")
    assert progress(PLAN, [group("a", 4, 400, 400), held]) == Progress(4, 10, 400, 1000)


def test_what_a_killed_attempt_did_stays_done():
    assert progress(PLAN, [group("a", 3, 250, 50), group("b", 2, 350, 0)]) == Progress(5, 10, 450, 1000)


def test_a_file_that_has_grown_since_is_no_reason_for_more_than_all():
    assert progress(PLAN, [group("a", 5, 900, 900), group("b", 5, 600, 600)]) == Progress(10, 10, 1500, 1500)


def test_it_reads_as_a_sentence():
    assert str(Progress(3, 12, 1_200_000_000, 4_500_000_000)) == "3 of 12 WALs, 1.2 GB of 4.5 GB (26 %); left: 9 WALs, 3.3 GB"
    assert str(Progress(0, 1, 0, 0)) == "0 of 1 WAL, 0 B of 0 B; left: 1 WAL, 0 B"


@pytest.mark.parametrize(("number", "text"), [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (10**15, "1,000.0 TB")])
def test_sizes_are_for_people(number, text):
    assert size(number) == text


class Job:
    """A Spark job's summaries as they change, and a ZooKeeper that may be away."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.summaries: list[GroupSummary] = []
        self.away = False
        self.looks = threading.Semaphore(0)
        monkeypatch.setattr(client, "connected", self._connected)
        monkeypatch.setattr(summary, "read_run", self._read)
        monkeypatch.setattr(module, "EVERY_S", 0.01)

    @contextmanager
    def _connected(self, quorum: str):
        yield None

    def _read(self, zk: object, source: object, peer: str, run_id: str) -> list[GroupSummary]:
        self.looks.release()
        if self.away:
            raise ConnectError("away")
        return self.summaries

    def await_looks(self) -> None:
        for _ in range(3):
            assert self.looks.acquire(timeout=30)


def test_only_changes_of_the_job_s_own_groups_are_told_and_the_end_is(monkeypatch):
    job, told = Job(monkeypatch), []
    other = group("other", 1, 10, 10)
    with ProgressLog(SOURCE, "p", {**PLAN, "groups": 1}, ["a"], told.append):
        job.summaries = [other]
        job.await_looks()
        assert told == []  # none of its groups has begun
        job.summaries = [group("a", 0, 1000, 0), other]
        job.await_looks()
        job.summaries = [group("a", 5, 1000, 500), other]
        job.await_looks()
        job.away = True
        job.await_looks()
        job.away = False
        job.await_looks()
        monkeypatch.setattr(module, "EVERY_S", 600)
        job.summaries = [group("a", 10, 1000, 1000), other]
    assert [text.partition(", ")[0] for text in told] == ["peer p: 0 of 10 WALs", "peer p: 5 of 10 WALs", "peer p: 10 of 10 WALs"]
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("progress")]
