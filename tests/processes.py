"""Processes that tests start: other runs of pytest. And whether a process has ended."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.running.shards import SHARD

ROOT = Path(__file__).parents[1]


def gone(pid: int) -> bool:
    """Return whether a process has ended. A zombie, whose parent has not waited for it yet, counts as ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def run_pytest(folder: Path, *options: str, variables: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run the tests in a folder, whose conftest.py may import ours.

    Settings of the outer run, like its shard or `CI`, do not apply.
    """
    ours = {name: value for name, value in os.environ.items() if name not in (SHARD, "CI") and not name.startswith("TESTS_")}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options, "--rootdir", str(folder), str(folder)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=folder,
        env={**ours, "PYTHONPATH": str(ROOT), **variables},
    )
