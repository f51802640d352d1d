"""Ends a run of the tests in time where the host takes the machine's processors away.

CI kills what takes longer than its limit, and a killed run says nothing about any test. So CI names the moment after which no
test begins. Where tests take turns (order.py), what this turn has to run may begin OVERTIME_SECONDS later: the same machine takes
twice as long on some days. What did not begin is told at the end, with the command that runs it. The run fails, unless the host
took so much time away that no suite of this size could have ended, or all that this turn has to run began.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterable, Sequence

import pytest

from tests.running.durations import file_of
from tests.running.order import files_in_turn, touched, turn_of_run
from tests.running.stalls import STOLEN_SHARE, processor_times, stolen_share

ENDS_AT = "TESTS_END_AT"  # the variable with the moment, in seconds since 1970
OVERTIME_SECONDS = 18 * 60  # CI kills a run 30 minutes after its time is over, and a test may take ten
HAVE_TO_RUN = pytest.StashKey[set[str]]()  # of a run's configuration: `have_to_run` of its files
NOT_BEGUN = "not begun: the time for this run of the tests was over"


def skip_if_over(item: pytest.Item) -> None:
    """Skip the test that is about to begin if the time is over."""
    overtime = OVERTIME_SECONDS if file_of(item.nodeid) in item.config.stash.get(HAVE_TO_RUN, set()) else 0
    if time.time() > float(os.environ.get(ENDS_AT, "inf")) + overtime:
        pytest.skip(NOT_BEGUN)


class TimeLimit:
    """Tells at the end of a run what did not begin, and lets the run fail if that was not the host's doing."""

    def __init__(self) -> None:
        self._times = processor_times()

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        required = have_to_run(all_files(session.config))
        if required.isdisjoint(not_begun(session.config)) or session.exitstatus != pytest.ExitCode.OK:
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
            if have_to_run(all_files(terminalreporter.config)).isdisjoint(files):
                terminalreporter.line("These files take turns, so that is no failure.")
                return
            share = self._stolen()
            blame = "so that is no failure" if share > STOLEN_SHARE else "so the tests have become too slow"
            terminalreporter.line(f"The host took {share:.0%} of the processors' time, {blame}.")

    def _stolen(self) -> float:
        return stolen_share(self._times, processor_times())


def have_to_run(files: Iterable[str]) -> set[str]:
    """Return which files this run may not leave out: all, unless tests take turns."""
    turn = turn_of_run()
    return set(files) if turn is None else files_in_turn(sorted(files), turn, touched())[0]


def not_begun(config: pytest.Config) -> Counter[str]:
    """Return how many tests of each file were skipped because the time was over."""
    return Counter(file_of(report.nodeid) for report in _reports(config, "skipped") if NOT_BEGUN in str(report.longrepr))


def all_files(config: pytest.Config) -> set[str]:
    """Return the files of all tests of this run."""
    return {file_of(report.nodeid) for kind in ("passed", "failed", "error", "skipped") for report in _reports(config, kind)}


def _reports(config: pytest.Config, kind: str) -> Sequence[pytest.TestReport]:
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    return reporter.stats.get(kind, []) if reporter else []
