"""Ends a run of the tests in time where the host takes the machine's processors away.

CI kills what takes longer than its limit, and a killed run says nothing about any test. So CI names the moment after which no
test begins. What did not begin is counted and told at the end, and the run fails unless the host took so much time away that
no suite of this size could have ended.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Sequence

import pytest

from tests.stalls import STOLEN_SHARE, processor_times, stolen_share

ENDS_AT = "TESTS_END_AT"  # the variable with the moment, in seconds since 1970
NOT_BEGUN = "not begun: the time for this run of the tests was over"

# Those that need little come first, so that a run that ends early has still asked most of the questions.
FOLDERS = ("unit", "zk", "embedded", "spark", "cluster", "airflow", "ui", "demo")


def in_order(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Return the tests folder by folder, and as they were within each."""
    return sorted(items, key=lambda item: folder(item.nodeid))


def folder(nodeid: str) -> int:
    """Return where the folder of a test stands in `FOLDERS`; any other folder comes last."""
    parts = nodeid.split("/")
    return FOLDERS.index(parts[1]) if len(parts) > 2 and parts[1] in FOLDERS else len(FOLDERS)


def skip_if_over() -> None:
    """Skip the test that is about to begin if the time is over."""
    if time.time() > float(os.environ.get(ENDS_AT, "inf")):
        pytest.skip(NOT_BEGUN)


class TimeLimit:
    """Tells at the end of a run what did not begin, and lets the run fail if that was not the host's doing."""

    def __init__(self) -> None:
        self._times = processor_times()

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if not_begun(session.config) and session.exitstatus == pytest.ExitCode.OK and self._stolen() <= STOLEN_SHARE:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if files := not_begun(terminalreporter.config):
            terminalreporter.section("not begun")
            for file, count in sorted(files.items()):
                terminalreporter.line(f"{file}: {count}")
            share = self._stolen()
            blame = "so that is no failure" if share > STOLEN_SHARE else "so the tests have become too slow"
            terminalreporter.line(f"{files.total()} tests were not begun when the time was over.")
            terminalreporter.line(f"The host took {share:.0%} of the processors' time, {blame}.")

    def _stolen(self) -> float:
        return stolen_share(self._times, processor_times())


def not_begun(config: pytest.Config) -> Counter[str]:
    """Return how many tests of each file were skipped because the time was over."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    skipped = reporter.stats.get("skipped", []) if reporter else []
    return Counter(report.nodeid.partition("::")[0] for report in skipped if NOT_BEGUN in str(report.longrepr))
