"""How a job ends that spark-submit runs."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from walferry.base import jobs
from walferry.base.errors import WalferryError
from walferry.base.jobs import Backend, JobOutcome, Tell
from walferry.engine.summary import GroupSummary
from walferry.jobs import submitted
from walferry.jobs.submitted import Submitted, run_job, say, tell
from walferry.replication.source.cluster import SourceCluster
from walferry.replication.source.source_job import SourceJob

ROOT = Path(__file__).resolve().parents[3]
SOURCE = SourceCluster(quorum="zk1:2181", wal_root="file:///hbase")


@dataclass(frozen=True, kw_only=True)
class Trial(SourceJob):
    """A job that ends as its run's name says."""

    kind: ClassVar[str] = "trial"
    nothing_done: ClassVar[str] = "nothing is shipped"

    def run(self, on: Backend, say: Tell) -> JobOutcome:
        if self.run_id == "refused":
            raise WalferryError("peer 2: it is ENABLED", "Disable it")
        if self.run_id == "bug":
            raise ZeroDivisionError
        return JobOutcome(lines=["g: done"], errors=["h: no\x1b table"], failed=self.run_id == "failed", result="[1]")


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submitted, "_start", lambda title: None)


def ended(run_id: str) -> int:
    return run_job(Trial, Trial(source=SOURCE, peer_id="2", run_id=run_id).to_json())


def test_a_job_s_outcome_is_printed_its_result_last_and_counts(capsys: pytest.CaptureFixture[str]) -> None:
    assert [ended("done"), ended("failed")] == [0, 1]
    assert capsys.readouterr() == ("g: done\n[1]\n" * 2, "h: no  table\n" * 2)


def test_an_error_is_told_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert ended("refused") == 1
    assert capsys.readouterr().err == "nothing is shipped: peer 2: it is ENABLED. Disable it\n"


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"source": 7, "peer_id": "2", "run_id": "r"}'])
def test_what_is_no_job_is_told_in_one_line(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_job(Trial, text) == 1
    assert capsys.readouterr().err.startswith("nothing is shipped: ")


def test_any_other_error_is_a_bug_and_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError):
        ended("bug")


def test_no_text_of_a_cluster_ends_a_line_of_a_job(capsys: pytest.CaptureFixture[str]) -> None:
    say("table t\nnothing is shipped: forged \x1b[2J")
    tell("table t\r\nERROR")
    out, err = capsys.readouterr()
    assert (out, err) == ("table t nothing is shipped: forged  [2J\n", "table t  ERROR\n")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_names_that_the_machine_s_locale_cannot_write_do_not_end_a_job(encoding: str) -> None:
    code = (
        "import sys\nfrom tests.unit.jobs import test_submitted as t\nt.submitted._start = lambda title: None\n"
        "t.Trial.run = lambda job, on, say: say('table \u0442') or t.JobOutcome()\nsys.exit(t.ended('done'))\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "plugins"), str(ROOT)]), "PYTHONIOENCODING": encoding}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "table \\u0442\n\n"), done.stderr


def test_a_job_that_may_not_begin_does_not_wait_for_spark() -> None:
    code = (
        "import sys, time\n"
        "from walferry.jobs import submitted\n"
        "from tests.unit.jobs.test_submitted import SOURCE, Trial\n"
        "submitted._start = lambda title: time.sleep(600)\n"
        "sys.exit(submitted.run_job(Trial, Trial(source=SOURCE, peer_id='2', run_id='refused').to_json()))\n"
    )
    path = os.pathsep.join([str(ROOT / "plugins"), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}, timeout=60
    )
    assert (done.returncode, done.stderr) == (1, "nothing is shipped: peer 2: it is ENABLED. Disable it\n")


@pytest.mark.parametrize(
    ("value", "shown"), [("http://rm1:8088/proxy/app_1,http://rm2:8088/proxy/app_1", "http://rm1:8088/proxy/app_1"), (None, "")]
)
def test_a_driver_says_where_yarn_shows_it(value: str | None, shown: str, capsys: pytest.CaptureFixture[str]) -> None:
    settings = [("spark.org.apache.spark.deploy.yarn.AmIpFilter.param.PROXY_URI_BASES", value)] if value else []
    conf = SimpleNamespace(getAll=lambda: [("spark.master", "yarn"), *settings])
    context: Any = SimpleNamespace(getConf=lambda: conf)
    submitted._show_application(context)
    assert capsys.readouterr().out == (f"tracking URL: {shown}\n" if shown else "")


class Stage:
    """A Spark context, and what its methods return: its tasks end once the progress is told."""

    def __init__(self) -> None:
        self.told = threading.Event()
        self.getActiveStageIds = lambda: [3, 4]

    def statusTracker(self) -> Stage:
        return self

    def getStageInfo(self, number: int) -> SimpleNamespace | None:
        return SimpleNamespace(numCompletedTasks=1, numTasks=2) if number == 4 else None  # Spark forgets stages

    def parallelize(self, dealt: list[Any], _: int) -> Stage:
        self.items = dealt
        return self

    def map(self, function: Callable[[Any], Any]) -> Stage:
        self.results = [function(item) for item in self.items]
        return self

    def collect(self) -> list[Any]:
        assert self.told.wait(20)
        return self.results


def test_it_is_reported_how_many_tasks_have_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    context, reported = Stage(), set[tuple[int, int]]()
    monkeypatch.setattr(jobs, "REPORT_SECONDS", 0.01)
    monkeypatch.setattr(submitted, "_start", lambda title: context)

    def told(ended: int, of: int) -> None:
        reported.add((ended, of))
        context.told.set()

    found = Submitted("title").run(lambda name: GroupSummary(group=name), ["a", "b"], GroupSummary, progress=told)
    assert [summary.group for summary in found] == ["a", "b"]
    assert reported == {(1, 2)}


def test_nothing_is_reported_between_stages() -> None:
    context: Any = Stage()
    context.getActiveStageIds = list
    assert submitted._ended_tasks(context) is None
