"""A run of the tests says why a test needed another try."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.processes import run_pytest

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
