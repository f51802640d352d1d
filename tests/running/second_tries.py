"""Tells at the end of a run why tests needed another try: each has a race to be mended, unless the machine stood still.

needed_before.txt has the tests that needed one in a run of CI, and whose cause is not mended: one that needs it again fails.

    <id of the test>    # <date>: <cause, or what was tried>
"""

from __future__ import annotations

from pathlib import Path

import pytest

NEEDED_BEFORE = Path(__file__).with_name("needed_before.txt")
MAX_LINES = 40  # of a failure: its end says what went wrong


class SecondTries:
    """Prints the failures of tests that ran again. pytest itself names only the tests."""

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if failures := terminalreporter.stats.get("rerun", []):
            terminalreporter.section("why tests ran again")
            terminalreporter.line(f"Find the cause. Until it is mended, name the test in tests/running/{NEEDED_BEFORE.name}.")
            for report in failures:
                terminalreporter.line(f"{report.nodeid} ({report.when})")
                for line in str(report.longrepr).splitlines()[-MAX_LINES:]:
                    terminalreporter.line(f"    {line}")


def needed_before(file: Path = NEEDED_BEFORE) -> frozenset[str]:
    """Return the ids of tests that needed another try in an earlier run."""
    lines = (line.partition("    #")[0].strip() for line in file.read_text().splitlines())
    return frozenset(line for line in lines if line and not line.startswith("#"))
