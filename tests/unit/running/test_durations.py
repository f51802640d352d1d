"""How long each file takes is measured by the files that pass, and a file that was not measured counts as a usual one."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.running.durations import ROOT, USUAL_SECONDS, DurationsRecorder, measured, seconds_of


def report(nodeid: str, duration: float, outcome: str = "passed") -> pytest.TestReport:
    return SimpleNamespace(nodeid=nodeid, duration=duration, outcome=outcome)  # type: ignore[return-value]


def test_a_new_file_takes_as_long_as_its_folder_does_on_average() -> None:
    known = {"unit/a": 1.0, "unit/b": 3.0, "cluster/c": 100.0}
    assert seconds_of(["unit/a", "unit/new", "cluster/new"], known) == {"unit/a": 1.0, "unit/new": 2.0, "cluster/new": 100.0}
    assert seconds_of(["yarn/new"], known) == {"yarn/new": USUAL_SECONDS}


def test_a_run_renews_the_files_that_passed_and_forgets_those_that_are_gone(tmp_path: Path) -> None:
    for name in ("a.py", "b.py", "c.py", "other.py"):
        (tmp_path / name).touch()
    file = tmp_path / "durations.json"
    file.write_text(json.dumps({"a.py": 9.0, "b.py": 9.0, "gone.py": 9.0, "other.py": 9.0}))
    recorder = DurationsRecorder(file, tmp_path)
    for each in (
        report("a.py::one", 1.0),
        report("a.py::two", 0.25),
        report("b.py::one", 1.0),
        report("b.py::two", 60.0, "failed"),
        report("c.py::one", 2.0, "skipped"),
    ):
        recorder.pytest_runtest_logreport(each)
    recorder.pytest_sessionfinish()
    assert json.loads(file.read_text()) == {"a.py": 1.2, "b.py": 9.0, "c.py": 2.0, "other.py": 9.0}


def test_the_figures_of_this_repo_are_of_files_that_are_there() -> None:
    assert measured()
    assert [file for file in measured() if not (ROOT / file).exists()] == []
