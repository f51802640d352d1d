"""How long each file of tests takes: durations.json, in seconds of one process, with set-up and end.

    {"tests/zk/test_lease.py": 21.4, …}

`make durations` runs all tests and renews the figures of the files that passed. A cluster that several files share counts for the
one that starts it, so a figure may be half a minute off.
"""

from __future__ import annotations

import json
import os
import statistics
from collections import Counter
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

FILE = Path(__file__).with_name("durations.json")
ROOT = Path(__file__).resolve().parents[2]
RENEW = "TESTS_RENEW_DURATIONS"  # the variable that says that a run renews the figures
USUAL_SECONDS = 60.0  # of a file in a folder of which no figure is known; new folders have mostly needed clusters of their own


@cache
def measured() -> dict[str, float]:
    """Return the seconds of each file that was measured."""
    return json.loads(FILE.read_text()) if FILE.exists() else {}


def seconds_of(files: list[str], known: Mapping[str, float] | None = None) -> dict[str, float]:
    """Return the seconds of each of these files. A new one takes as long as its folder's files on average."""
    known = measured() if known is None else known
    folders: dict[str, list[float]] = {}
    for file, seconds in known.items():
        folders.setdefault(os.path.dirname(file), []).append(seconds)
    usual = {folder: statistics.fmean(seconds) for folder, seconds in folders.items()}
    return {file: known.get(file, usual.get(os.path.dirname(file), USUAL_SECONDS)) for file in files}


def file_of(nodeid: str) -> str:
    """Return the file of a test."""
    return nodeid.partition("::")[0]


class DurationsRecorder:
    """Renews durations.json at the end of a run."""

    def __init__(self, file: Path = FILE, root: Path = ROOT) -> None:
        self._file, self._root = file, root
        self._seconds: Counter[str] = Counter()
        self._failed: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[file_of(report.nodeid)] += report.duration
        if report.outcome not in ("passed", "skipped"):  # a test that failed may have ended early, or waited long, or run again
            self._failed.add(file_of(report.nodeid))

    def pytest_sessionfinish(self) -> None:
        before = json.loads(self._file.read_text()) if self._file.exists() else {}
        now = {file: round(seconds, 1) for file, seconds in self._seconds.items() if file not in self._failed}
        kept = {file: seconds for file, seconds in (before | now).items() if (self._root / file).exists()}
        self._file.write_text(json.dumps(dict(sorted(kept.items())), indent=0) + "\n")


def renews() -> bool:
    """Return whether this run renews the figures."""
    return bool(os.environ.get(RENEW))
