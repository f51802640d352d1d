"""No test begins after the time for the run is over; that is a failure unless the host took the processors away."""

from __future__ import annotations

import math
import subprocess
import time
from pathlib import Path

import pytest

from tests.processes import run_pytest
from tests.running.order import TURN, files_in_turn
from tests.running.time_limit import ENDS_AT, OVERTIME_SECONDS, have_to_run

CONFTEST = """
import tests.running.time_limit
from tests.conftest import pytest_collection_modifyitems, pytest_configure, pytest_runtest_setup

tests.running.time_limit.STOLEN_SHARE = {stolen_share}
"""
TESTS = f"""
import math, os, time

def test_begins_in_time():
    if time.time() < float(os.environ["{ENDS_AT}"]) < math.inf:
        os.environ["{ENDS_AT}"] = "0"  # as if it had taken that long

def test_comes_after_it():
    pass
"""


def run(
    folder: Path, *, stolen_share: float, ends_at: float, turn: str = "", has_to_run: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run two tests, of which the first one takes so long that the time is over then, unless there is no end.

    `has_to_run` is the file that a turn may not leave out.
    """
    chosen = f"tests.running.time_limit.files_in_turn = lambda *_: ({{{has_to_run!r}}}, [])\n" if turn else ""
    (folder / "conftest.py").write_text(CONFTEST.format(stolen_share=stolen_share) + chosen)
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
    ran = run(tmp_path, stolen_share=2, ends_at=time.time() - 1, turn="3", has_to_run="elsewhere.py")
    assert "2 skipped" in ran.stdout, ran.stdout + ran.stderr
    assert "python -m pytest test_it.py\n" in ran.stdout
    assert "so that is no failure" in ran.stdout
    assert ran.returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize(("late", "ends"), [(60, "2 passed"), (OVERTIME_SECONDS + 60, "2 skipped")])
def test_what_has_to_run_may_begin_a_while_after_the_time_is_over(tmp_path: Path, late: float, ends: str) -> None:
    ran = run(tmp_path, stolen_share=2, ends_at=time.time() - late, turn="3", has_to_run="test_it.py")
    assert ends in ran.stdout, ran.stdout + ran.stderr
    assert ran.returncode == (0 if "passed" in ends else 1)


def test_only_what_this_turn_has_to_run_may_not_be_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    files = [f"tests/cluster/test_{number}.py" for number in range(20)]
    monkeypatch.delenv(TURN, raising=False)  # CI sets it
    assert have_to_run(files) == set(files), "without turns"
    monkeypatch.setenv(TURN, "1")
    first, ordered = files_in_turn(files, 1, {})
    assert have_to_run(files) == first == set(ordered[: len(first)])
    assert 0 < len(first) < len(files)
