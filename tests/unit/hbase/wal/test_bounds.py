"""Kernels never read outside their buffer, whatever it contains."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_no_kernel_reaches_outside_of_its_buffer(tmp_path: Path) -> None:
    env = os.environ | {
        "NUMBA_BOUNDSCHECK": "1",
        "NUMBA_CACHE_DIR": str(tmp_path),  # otherwise kernels compiled without checks would be used
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    run = subprocess.run(
        [sys.executable, "-m", "tests.unit.hbase.wal.bounds_checked"],
        env=env,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert (run.returncode, run.stdout) == (0, "within bounds\n"), run.stderr
