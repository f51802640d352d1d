"""No test begins after the time for the run is over; that is a failure unless the host took the processors away."""

from __future__ import annotations

import math
import subprocess
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.processes import run_pytest
from tests.time_limit import ENDS_AT, TURN, TURNS, folder, in_order, may_leave_out

CONFTEST = """
import tests.time_limit
from tests.conftest import pytest_collection_modifyitems, pytest_configure, pytest_runtest_setup

tests.time_limit.STOLEN_SHARE = {stolen_share}
"""
TESTS = f"""
import os

def test_begins_in_time():
    if os.environ["{ENDS_AT}"] != "inf":
        os.environ["{ENDS_AT}"] = "0"  # as if it had taken that long

def test_comes_after_it():
    pass
"""


def run(folder: Path, *, stolen_share: float, ends_at: float, turn: str = "") -> subprocess.CompletedProcess[str]:
    """Run two tests, of which the first one takes so long that the time is over then, unless there is no end."""
    (folder / "conftest.py").write_text(CONFTEST.format(stolen_share=stolen_share))
    (folder / "test_it.py").write_text(TESTS)
    return run_pytest(folder, "-n", "1", variables={ENDS_AT: str(ends_at), TURN: turn})


@pytest.mark.slow
def test_a_run_without_an_end_begins_all_tests(tmp_path: Path) -> None:
    ran = run(tmp_path, stolen_share=0.25, ends_at=math.inf)
    assert "2 passed" in ran.stdout, ran.stdout + ran.stderr
    assert "not begun" not in ran.stdout
    assert ran.returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize(("stolen_share", "code"), [(2, 1), (-1, 0)])
def test_what_does_not_begin_is_told_and_fails_the_run_unless_it_is_the_host_s_doing(
    tmp_path: Path, stolen_share: float, code: int
) -> None:
    ran = run(tmp_path, stolen_share=stolen_share, ends_at=time.time() + 600)
    assert "1 passed, 1 skipped" in ran.stdout, ran.stdout + ran.stderr
    assert "test_it.py: 1" in ran.stdout
    assert "1 tests were not begun when the time was over." in ran.stdout
    assert ran.returncode == code


@pytest.mark.slow
def test_what_takes_turns_may_be_left_out(tmp_path: Path) -> None:
    ran = run(tmp_path, stolen_share=2, ends_at=time.time() + 600, turn="3")
    assert "1 passed, 1 skipped" in ran.stdout, ran.stdout + ran.stderr
    assert "python -m pytest test_it.py\n" in ran.stdout
    assert "so that is no failure" in ran.stdout
    assert ran.returncode == 0


def named(*names: str) -> list[pytest.Item]:
    return [SimpleNamespace(nodeid=name) for name in names]  # type: ignore[misc]


@pytest.mark.parametrize("files", [1, 5, 8, 61])
def test_in_eight_turns_that_follow_each_other_each_file_is_among_the_eighth_that_comes_first(files: int) -> None:
    names = [f"tests/cluster/test_{number:02}.py::test_{each}" for number in range(files) for each in "ab"]
    items = named("tests/zk/test_a.py::test", *names)
    first = set()
    for turn in range(1000, 1000 + TURNS):
        ordered = [item.nodeid for item in in_order(items, turn)]
        assert sorted(ordered) == sorted(item.nodeid for item in items)
        assert ordered[0].startswith("tests/zk/")
        began = list(dict.fromkeys(name.partition("::")[0] for name in ordered[1:]))
        first |= set(began[: math.ceil(files / TURNS)])
    assert len(first) == files


@pytest.mark.parametrize(
    ("left_out", "may"),
    [({"tests/cluster/test_a.py": 70}, True), ({"tests/cluster/test_a.py": 71}, False), ({"tests/zk/test_a.py": 1}, False)],
)
def test_seven_eighths_of_what_takes_turns_may_be_left_out_and_nothing_of_the_rest(
    left_out: dict[str, int], may: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(TURN, raising=False)  # CI sets it
    begun = Counter({"tests/cluster/test_b.py": 10, "tests/unit/test_c.py": 1000})
    assert may_leave_out(Counter(left_out), begun, turn=1) is may
    assert may_leave_out(Counter(left_out), begun) is False, "without turns"


def test_tests_without_clusters_come_first() -> None:
    names = ["tests/zk/test_a.py::test", "tests/airflow/test_b.py::test", "tests/unit/wal/test_c.py::test", "test_it.py::test"]
    assert sorted(names, key=folder) == [names[2], names[0], names[1], names[3]]
