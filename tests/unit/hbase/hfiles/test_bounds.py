"""Kernels that sort, cut, merge and write stay within their buffers."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_kernels_reach_outside_of_no_buffer(tmp_path: Path) -> None:
    env = os.environ | {
        "NUMBA_BOUNDSCHECK": "1",
        "NUMBA_CACHE_DIR": str(tmp_path),  # otherwise kernels compiled without checks would be used
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    command = [sys.executable, "-m", "tests.unit.hbase.hfiles.bounds_checked"]
    run = subprocess.run(command, env=env, capture_output=True, text=True, timeout=500, check=False)
    assert (run.returncode, run.stdout) == (0, "within bounds\n"), run.stderr
