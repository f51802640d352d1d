"""A test that fails while the machine stands still is run once more; any other failure stays one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.stalls import STALL_SECONDS, processor_times, stall, stolen_share

ROOT = Path(__file__).parents[2]
# This machine's host may take time away while this test runs; only the stall shall count here.
CONFTEST = """
import tests.stalls
from tests.conftest import pytest_collection_modifyitems, pytest_runtest_setup

tests.stalls.STOLEN_SHARE = 2
"""
TESTS = f"""
import os, subprocess, sys
from pathlib import Path

def fails_once(name):
    seen = Path(__file__).with_name(name)
    first = not seen.exists()
    seen.touch()
    assert not first

def test_fails_while_the_machine_stands_still():
    pid = os.getpid()
    subprocess.run(["bash", "-c", f"kill -STOP {{pid}}; sleep {STALL_SECONDS + 1}; kill -CONT {{pid}}"])
    fails_once("first")

def test_fails_for_its_own_reason():
    fails_once("second")
"""


@pytest.mark.parametrize(
    ("gap", "worked", "seconds"),
    [(0.5, 0.1, 0.0), (STALL_SECONDS, 0.0, 0.0), (20.0, 0.2, 20.0), (20.0, 19.0, 0.0)],
)
def test_a_late_tick_is_a_stall_unless_the_process_itself_was_busy(gap: float, worked: float, seconds: float) -> None:
    assert stall(gap, worked) == seconds


@pytest.mark.parametrize(
    ("after", "share"),
    [
        ((170, 0, 110, 900, 50, 0, 0, 20), 0.2),
        ((100, 0, 100, 900, 50, 0, 0, 0), 0.0),  # nothing but idle
        ((100, 0, 100, 0, 0, 0, 0, 90), 1.0),
    ],
)
def test_the_host_s_share_is_of_the_time_in_which_there_was_work(after: tuple[int, ...], share: float) -> None:
    assert stolen_share((100, 0, 100, 0, 0, 0, 0, 0), after) == pytest.approx(share)


def test_the_times_of_the_processors_only_grow() -> None:
    first, then = processor_times(), processor_times()
    assert all(a <= b for a, b in zip(first, then, strict=True))
    assert 0 <= stolen_share(first, then) <= 1


@pytest.mark.slow
def test_only_what_fails_during_a_stall_runs_again(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_it.py").write_text(TESTS)

    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )

    assert "1 failed, 1 passed, 1 rerun" in ran.stdout, ran.stdout + ran.stderr
    assert "FAILED test_it.py::test_fails_for_its_own_reason" in ran.stdout
