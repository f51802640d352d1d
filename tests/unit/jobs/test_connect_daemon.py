"""The imports of a Spark Connect server's daemon before it forks workers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

JOBS = Path(__file__).resolve().parents[3] / "spark_jobs"


def printed(code: str) -> str:
    environment = {"PYTHONPATH": str(JOBS), "OMP_NUM_THREADS": "1"}  # as Spark sets it
    command = [sys.executable, "-c", f"import connect_daemon; connect_daemon.preload()\n{code}"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


@pytest.mark.long
def test_it_has_numba_not_the_library_and_one_thread_so_that_it_may_be_forked_and_prints_nothing() -> None:
    names = "{'numba', 'kazoo', 'walferry', 'pandas', 'pyarrow'}"
    # What it prints first is taken for its port.
    code = f"import os, sys; print(sorted({names} & set(sys.modules)), len(os.listdir('/proc/self/task')))"
    assert printed(code) == "['kazoo', 'numba'] 1\n"


@pytest.mark.slow
def test_what_is_not_installed_is_left_out() -> None:
    missing = "import sys; sys.modules.update(kazoo=None, numba=None); connect_daemon.preload(); print('done')"
    assert printed(missing) == "done\n"
