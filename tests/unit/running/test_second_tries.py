"""A run of the tests says why a test needed another try."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.processes import run_pytest
from tests.running.durations import ROOT
from tests.running.second_tries import needed_before

CONFTEST = "from tests.conftest import pytest_collection_modifyitems, pytest_configure, pytest_runtest_setup\n"
TESTS = """
from pathlib import Path

def test_fails_once(tmp_path_factory):
    mark = Path(__file__).with_name("mark")
    before = mark.exists()
    mark.touch()
    assert before, "the reason of the first try"

def test_holds():
    pass
"""


@pytest.mark.slow
def test_the_failure_of_a_test_that_passes_in_its_second_try_is_printed(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_it.py").write_text(TESTS)
    ran = run_pytest(tmp_path, "-n", "1", variables={"CI": "true"})
    assert "2 passed, 1 rerun" in ran.stdout, ran.stdout + ran.stderr
    assert "test_it.py::test_fails_once (call)" in ran.stdout
    assert "AssertionError: the reason of the first try" in ran.stdout
    assert ran.returncode == 0


@pytest.mark.slow
def test_a_run_without_second_tries_says_nothing_of_them(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_it.py").write_text("def test_holds():\n    pass\n")
    ran = run_pytest(tmp_path, "-n", "1", variables={})
    assert "1 passed" in ran.stdout, ran.stdout + ran.stderr
    assert "ran again" not in ran.stdout


@pytest.mark.slow
def test_a_test_that_needed_another_try_before_gets_none(tmp_path: Path) -> None:
    before = tmp_path / "needed_before.txt"
    before.write_text("# a comment\n\ntest_it.py::test_fails_once    # 2026-11-25: unknown\n")
    assert needed_before(before) == {"test_it.py::test_fails_once"}
    (tmp_path / "conftest.py").write_text(
        f"from pathlib import Path\nimport tests.running.second_tries as tries\nimport tests.conftest as ours\n{CONFTEST}"
        f"ours.needed_before = lambda: tries.needed_before(Path({str(before)!r}))\n"
    )
    (tmp_path / "test_it.py").write_text(TESTS)
    ran = run_pytest(tmp_path, "-n", "1", variables={"CI": "true"})
    assert "1 failed, 1 passed" in ran.stdout, ran.stdout + ran.stderr


def test_those_that_needed_one_before_are_there() -> None:
    assert [test for test in needed_before() if not (ROOT / test.partition("::")[0]).exists()] == []
