"""A test that fails while the machine stands still is run once more; any other failure stays one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.processes import run_pytest
from tests.running.stalls import STALL_SECONDS, processor_times, stall, stolen_share

# This machine's host may take time away while this test runs; only the stall shall count here.
CONFTEST = """
import tests.running.stalls
from tests.conftest import pytest_collection_modifyitems, pytest_runtest_setup

tests.running.stalls.STOLEN_SHARE = 2
"""
FAILS_ONCE = """
import os, subprocess
from pathlib import Path

def fails_once(name):
    seen = Path(__file__).with_name(name)
    first = not seen.exists()
    seen.touch()
    assert not first
"""
TESTS = f"""
{FAILS_ONCE}
def test_fails_while_the_machine_stands_still():
    pid = os.getpid()
    subprocess.run(["bash", "-c", f"kill -STOP {{pid}}; sleep {STALL_SECONDS + 1}; kill -CONT {{pid}}"])
    fails_once("first")

def test_fails_for_its_own_reason():
    fails_once("second")
"""
TESTS_IN_CI = f"""
import pytest
{FAILS_ONCE}
@pytest.fixture(scope="session")
def cluster():
    return []

def test_of_the_same_cluster(cluster):
    pass

def test_fails_once(cluster):
    cluster.append("a table")
    fails_once("seen")
    assert cluster == ["a table"], "the cluster of the run that failed"

def test_fails_each_time():
    assert False
"""


@pytest.mark.parametrize(
    ("gap", "worked", "seconds"), [(0.5, 0.1, 0.0), (STALL_SECONDS, 0.0, 0.0), (20.0, 0.2, 20.0), (20.0, 19.0, 0.0)]
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
    (tmp_path / "test_it.py").write_text(TESTS)
    ran = run(tmp_path, ci=False)
    assert "1 failed, 1 passed, 1 rerun" in ran, ran
    assert "FAILED test_it.py::test_fails_for_its_own_reason" in ran


@pytest.mark.slow
@pytest.mark.parametrize(("ci", "said"), [(True, "1 failed, 2 passed, 3 rerun"), (False, "2 failed, 1 passed")])
def test_in_ci_what_fails_runs_again_with_new_fixtures_and_is_named(tmp_path: Path, ci: bool, said: str) -> None:
    (tmp_path / "test_it.py").write_text(TESTS_IN_CI)
    ran = run(tmp_path, ci=ci)
    assert said in ran, ran
    assert "FAILED test_it.py::test_fails_each_time" in ran
    assert ("RERUN test_it.py::test_fails_once" in ran) == ci


def run(folder: Path, *, ci: bool) -> str:
    """Run the tests in a folder with our hooks, and return what pytest prints."""
    (folder / "conftest.py").write_text(CONFTEST)
    ran = run_pytest(folder, "-raR", variables={"CI": "true" if ci else ""})
    return ran.stdout + ran.stderr
