"""A job and the task that waits for it on another machine: what each learns of the other through ZooKeeper."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest
from kazoo.client import KazooClient
from kazoo.security import make_digest_acl

from embedded.zookeeper import ZooKeeperServer
from tests.zk.hbase_znodes import HBaseZNodes, expire
from walferry.base.errors import WalferryError
from walferry.base.jobs import Backend, JobOutcome, Tell
from walferry.base.zk.client import read
from walferry.base.zk.records import encode
from walferry.jobs import submitted, waiting
from walferry.jobs.submitted import run_job
from walferry.jobs.waiting import NAME, JobReport, Waiting, awaited
from walferry.replication.source.cluster import SourceCluster
from walferry.replication.source.source_job import SourceJob

ROOT = Path(__file__).resolve().parents[2]
WAIT_SECONDS = 30.0
LONG = "ü\x1b" * 100_000  # each character takes six bytes of JSON


@dataclass(frozen=True, kw_only=True)
class Trial(SourceJob):
    """A job that ends as its run's name says."""

    kind: ClassVar[str] = "trial"
    nothing_done: ClassVar[str] = "nothing is shipped"

    deadline: float = 100.0

    def run(self, on: Backend, say: Tell) -> JobOutcome:
        if self.run_id == "refused":
            raise WalferryError("peer 2: it is ENABLED", "Disable it")
        if self.run_id == "endless":
            print("begun", flush=True)
            time.sleep(600)
        return JobOutcome(lines=[f"{self.deadline:g} s", LONG], errors=["no\x1b table"], failed=self.run_id == "failed")


@pytest.fixture
def at(hbase: HBaseZNodes, zookeeper: ZooKeeperServer) -> SourceCluster:
    return SourceCluster(quorum=zookeeper.quorum, wal_root="file:///hbase", znode_parent=hbase.nodes.base, root=hbase.root)


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submitted, "_start", lambda title: None)
    monkeypatch.setattr(waiting, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(waiting, "GONE_SECONDS", 0.3)


def drive(at: SourceCluster, task: str, run_id: str) -> int:
    """Run a job as a driver elsewhere that a task waits for."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(NAME, task)
        return run_job(Trial, Trial(source=at, peer_id="2", run_id=run_id).to_json())


def await_that(done: Callable[[], object]) -> None:
    give_up = time.monotonic() + WAIT_SECONDS
    while not done():
        assert time.monotonic() < give_up
        time.sleep(0.05)


@pytest.mark.parametrize(("run_id", "code"), [("done", 0), ("failed", 1)])
def test_a_job_s_outcome_reaches_its_task_bounded_and_in_lines(at: SourceCluster, run_id: str, code: int) -> None:
    with waiting.waiting(at) as task:
        assert task.report() is None
        assert drive(at, task.name, run_id) == code
        outcome = task.report()
    assert outcome is not None
    assert (outcome.failed, list(outcome.errors)) == (bool(code), ["no  table"])
    assert 100 - WAIT_SECONDS < float(outcome.lines[0].removesuffix(" s")) <= 100
    assert "\x1b" not in outcome.lines[1]
    assert len(outcome.lines[1]) == waiting.MAX_LINE_CHARS


def test_the_largest_report_fits_into_a_znode(at: SourceCluster) -> None:
    with waiting.waiting(at) as task, awaited(at, task.name, pytest.fail) as driver:
        driver.leave(JobOutcome(lines=[LONG] * 1000, errors=[LONG] * 1000, failed=True))
        outcome = task.report()
    assert outcome is not None
    assert outcome.failed
    assert len(outcome.errors) > 10


def test_why_a_job_may_not_begin_reaches_its_task(at: SourceCluster) -> None:
    with waiting.waiting(at) as task:
        assert drive(at, task.name, "refused") == 1
        outcome = task.report()
    assert outcome == JobOutcome(errors=("nothing is shipped: peer 2: it is ENABLED. Disable it",), lines=(), failed=True)


def test_a_job_without_a_task_does_not_begin(at: SourceCluster, capsys: pytest.CaptureFixture[str]) -> None:
    with waiting.waiting(at) as task:
        name = task.name
    assert drive(at, name, "done") == 1
    assert capsys.readouterr() == ("", "nothing is shipped: the task that waited for this job is gone\n")


def test_a_driver_that_yarn_starts_again_does_not_repeat_what_has_ended(
    at: SourceCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    with waiting.waiting(at) as task:
        drive(at, task.name, "failed")
        before = task.report()
        assert drive(at, task.name, "done") == 1
        assert task.report() == before
    assert "an earlier driver has brought this job to its end" in capsys.readouterr().err


def test_a_driver_that_yarn_starts_again_goes_on_after_a_killed_one(at: SourceCluster) -> None:
    with waiting.waiting(at) as task:
        with awaited(at, task.name, pytest.fail):
            pass
        assert task.report() is None
        assert drive(at, task.name, "done") == 0
        assert task.report() is not None


def test_the_time_until_a_driver_starts_counts_for_the_deadline(at: SourceCluster, zk: KazooClient) -> None:
    with waiting.waiting(at) as task:
        time.sleep(0.5)
        with awaited(at, task.name, pytest.fail) as driver:
            assert 0.5 <= driver.late < WAIT_SECONDS


def test_a_task_whose_session_ends_goes_on_waiting(at: SourceCluster, zk: KazooClient) -> None:
    with waiting.waiting(at) as task:
        first = read(zk, task._path)
        expire(task._zk)
        await_that(lambda: (znode := read(zk, task._path)) and first and znode.stat.czxid > first.stat.czxid)
        second = read(zk, task._path)
        assert first is not None
        assert second is not None
        assert second.stat.ephemeralOwner not in (0, first.stat.ephemeralOwner)
        path = task._path
    assert read(zk, path) is None


def test_what_a_task_has_seen_outlives_its_session(at: SourceCluster, zk: KazooClient) -> None:
    with waiting.waiting(at) as task:
        time.sleep(0.5)
        zk.delete(task._path)
        await_that(lambda: read(zk, task._path))
        with awaited(at, task.name, pytest.fail) as driver:
            assert 0.5 <= driver.late < WAIT_SECONDS
        drive(at, task.name, "failed")
        before = task.report()
        assert before is not None
        zk.delete(task._path)
        assert drive(at, task.name, "done") == 1  # the job has ended, and is not begun again
        assert task.report() == before


def test_an_outcome_waits_for_a_task_whose_session_has_just_ended(
    at: SourceCluster, zk: KazooClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "GONE_SECONDS", WAIT_SECONDS)
    with waiting.waiting(at) as task, awaited(at, task.name, pytest.fail) as driver:
        keep, task.keep = task.keep, lambda: None  # type: ignore[method-assign]
        zk.delete(task._path)
        leaving = threading.Thread(target=driver.leave, args=[JobOutcome(errors=["no table"], failed=True)])
        leaving.start()
        time.sleep(0.2)
        task.keep = keep  # type: ignore[method-assign]
        leaving.join(WAIT_SECONDS)
        outcome = task.report()
    assert outcome is not None
    assert outcome.errors == ("no table",)


def test_a_driver_that_may_no_longer_look_goes_on_and_notices_the_end_of_its_task_later(
    at: SourceCluster, zk: KazooClient
) -> None:
    ended = threading.Event()
    with waiting.waiting(at) as task, awaited(at, task.name, ended.set):
        zk.set_acls(task._path, [make_digest_acl("other", "secret", all=True)])
        assert not ended.wait(1.0)
        task.keep = lambda: None  # type: ignore[method-assign]  # as the task is gone
        time.sleep(0.2)
        zk.delete(task._path)
        assert ended.wait(WAIT_SECONDS)


@pytest.mark.parametrize("value", [b"{", b'{"ended": 1}', encode(JobReport(ended=False, lines=("x",)))])
def test_what_is_no_report_is_none(at: SourceCluster, zk: KazooClient, value: bytes) -> None:
    with waiting.waiting(at) as task:
        zk.set(task._path, value)
        assert task.report() is None


def test_a_planted_report_cannot_control_the_task_s_log(at: SourceCluster, zk: KazooClient) -> None:
    with waiting.waiting(at) as task:
        zk.set(task._path, encode(JobReport(ended=True, lines=("a\nb\x1b[2J",) * 10_000, errors=("c\r\nd",))))
        outcome = task.report()
    assert outcome is not None
    assert len(outcome.lines) <= waiting.MAX_LINES
    assert (outcome.lines[0], list(outcome.errors)) == ("a b [2J", ["c  d"])


def test_a_driver_ends_soon_after_its_task(at: SourceCluster) -> None:
    code = (
        "import sys\n"
        "from walferry.jobs import submitted, waiting\n"
        "from tests.zk.test_waiting import Trial\n"
        "submitted._start = lambda title: None\n"
        "waiting.LOOK_SECONDS, waiting.GONE_SECONDS = 0.05, 0.3\n"
        "sys.exit(submitted.run_job(Trial, sys.argv[1]))\n"
    )
    job = Trial(source=at, peer_id="2", run_id="endless").to_json()
    with waiting.waiting(at) as task:
        path = os.pathsep.join([str(ROOT / "plugins"), str(ROOT)])
        environment = {**os.environ, "PYTHONPATH": path, NAME: task.name}
        driver = subprocess.Popen(
            [sys.executable, "-c", code, job], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert driver.stdout is not None
        assert driver.stdout.readline() == "begun\n"
    out, err = driver.communicate(timeout=WAIT_SECONDS)
    assert (driver.returncode, out) == (1, "")
    assert err == "the task that waited for this job is gone, so the job ends\n"


def test_a_driver_goes_on_while_zookeeper_is_away(at: SourceCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    from walferry.base.zk.errors import ConnectError

    gone = threading.Event()
    with waiting.waiting(at) as task, awaited(at, task.name, gone.set):

        def away(*_: object) -> None:
            raise ConnectError("away")

        monkeypatch.setattr(waiting, "read", away)
        assert not gone.wait(1)


def test_settings_name_the_task_to_drivers_and_not_to_executors(at: SourceCluster) -> None:
    with waiting.waiting(at) as task:
        assert isinstance(task, Waiting)
        assert task.settings == {f"spark.yarn.appMasterEnv.{NAME}": task.name, f"spark.kubernetes.driverEnv.{NAME}": task.name}
