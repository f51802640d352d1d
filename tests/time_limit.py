"""Ends a run of the tests in time where the host takes the machine's processors away.

CI kills what takes longer than its limit, and a killed run says nothing about any test. So CI names the moment after which no
test begins. What did not begin is told at the end, with the command that runs it. The run fails unless the host took so much
time away that no suite of this size could have ended, or the tests take turns:

    first all tests that need no HBase, in each run
    then the other files, from another eighth of them on in each turn

A run whose turn is known may leave out up to seven eighths of these files. So in eight turns that follow each other each of them
is in an eighth that comes first.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Sequence

import pytest

from tests.stalls import STOLEN_SHARE, processor_times, stolen_share

ENDS_AT = "TESTS_END_AT"  # the variable with the moment, in seconds since 1970
TURN = "TESTS_TURN"  # the variable with the number of the turn, which grows by one from commit to commit
TURNS = 8
NOT_BEGUN = "not begun: the time for this run of the tests was over"

# Those that need little come first, so that a run that ends early has still asked most of the questions.
FOLDERS = ("unit", "zk", "embedded", "spark", "cluster", "airflow", "ui", "demo")
IN_EACH_RUN = 4  # the first folders


def in_order(items: Sequence[pytest.Item], turn: int | None = None) -> list[pytest.Item]:
    """Return the tests folder by folder, and as they were within each; of those not in each run, the turn's files come first."""
    ordered = sorted(items, key=lambda item: folder(item.nodeid))
    if turn is None:
        return ordered
    files = list(dict.fromkeys(file_of(item.nodeid) for item in ordered if not in_each_run(item.nodeid)))
    start = len(files) * (turn % TURNS) // TURNS
    place = {file: number for number, file in enumerate(files[start:] + files[:start])}
    return sorted(ordered, key=lambda item: place.get(file_of(item.nodeid), -1))


def turn_of_run() -> int | None:
    """Return the number of this run's turn; None if the tests do not take turns."""
    turn = os.environ.get(TURN, "")
    return int(turn) if turn else None


def folder(nodeid: str) -> int:
    """Return where the folder of a test stands in `FOLDERS`; any other folder comes last."""
    parts = nodeid.split("/")
    return FOLDERS.index(parts[1]) if len(parts) > 2 and parts[1] in FOLDERS else len(FOLDERS)


def in_each_run(nodeid: str) -> bool:
    """Return whether a test does not take turns."""
    return folder(nodeid) < IN_EACH_RUN


def file_of(nodeid: str) -> str:
    """Return the file of a test."""
    return nodeid.partition("::")[0]


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
        left_out = not_begun(session.config)
        if not left_out or session.exitstatus != pytest.ExitCode.OK or may_leave_out(left_out, begun(session.config)):
            return
        if self._stolen() <= STOLEN_SHARE:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if files := not_begun(terminalreporter.config):
            terminalreporter.section("not begun")
            for file, count in sorted(files.items()):
                terminalreporter.line(f"{file}: {count}")
            terminalreporter.line(f"{files.total()} tests were not begun when the time was over.")
            terminalreporter.line(f"To run them: .venv/bin/python -m pytest {' '.join(sorted(files))}")
            if may_leave_out(files, begun(terminalreporter.config)):
                terminalreporter.line("These files take turns, so that is no failure.")
                return
            share = self._stolen()
            blame = "so that is no failure" if share > STOLEN_SHARE else "so the tests have become too slow"
            terminalreporter.line(f"The host took {share:.0%} of the processors' time, {blame}.")

    def _stolen(self) -> float:
        return stolen_share(self._times, processor_times())


def may_leave_out(left_out: Counter[str], begun: Counter[str], turn: int | None = None) -> bool:
    """Return whether a run may end without these tests: all that are in each run have begun, and an eighth of the others."""
    turn = turn_of_run() if turn is None else turn
    others = sum(count for file, count in begun.items() if not in_each_run(file))
    return turn is not None and not any(map(in_each_run, left_out)) and others * (TURNS - 1) >= left_out.total()


def not_begun(config: pytest.Config) -> Counter[str]:
    """Return how many tests of each file were skipped because the time was over."""
    return Counter(file_of(report.nodeid) for report in _reports(config, "skipped") if NOT_BEGUN in str(report.longrepr))


def begun(config: pytest.Config) -> Counter[str]:
    """Return how many tests of each file have ended well."""
    return Counter(file_of(report.nodeid) for report in _reports(config, "passed"))


def _reports(config: pytest.Config, kind: str) -> Sequence[pytest.TestReport]:
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    return reporter.stats.get(kind, []) if reporter else []
