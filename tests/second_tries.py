"""Tells at the end of a run why tests needed another try: each has a race to be mended, unless the machine stood still."""

from __future__ import annotations

import pytest

MAX_LINES = 40  # of a failure: its end says what went wrong


class SecondTries:
    """Prints the failures of tests that ran again. pytest itself names only the tests."""

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if failures := terminalreporter.stats.get("rerun", []):
            terminalreporter.section("why tests ran again")
            for report in failures:
                terminalreporter.line(f"{report.nodeid} ({report.when})")
                for line in str(report.longrepr).splitlines()[-MAX_LINES:]:
                    terminalreporter.line(f"    {line}")
