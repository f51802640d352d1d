"""A run of the tests goes on to its end after one of its processes has died."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.processes import run_pytest

CONFTEST = "from tests.conftest import pytest_xdist_make_scheduler\n"
PASSES = "import time\ndef test_first():\n    time.sleep(0.2)\ndef test_last(): pass\n"
KILLS = "import os\ndef test_kills():\n    os.kill(os.getpid(), 9)\ndef test_after_it(): pass\n"


@pytest.mark.long
@pytest.mark.parametrize("dist", ["loadfile", "loadgroup"])
def test_each_test_runs_once_and_the_one_that_kills_its_process_fails(tmp_path: Path, dist: str) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    for number in range(8):  # both processes have done some files when one dies
        (tmp_path / f"test_{number}.py").write_text(KILLS if number == 6 else PASSES)
    ran = run_pytest(tmp_path, "-n", "2", "--no-loadscope-reorder", "--dist", dist, variables={})
    assert "1 failed, 15 passed" in ran.stdout, ran.stdout + ran.stderr
    assert "units waiting" not in ran.stdout + ran.stderr  # what pytest-xdist writes for its own developers
    assert ran.stdout.count("crashed while running 'test_6.py::test_kills'") == 1
