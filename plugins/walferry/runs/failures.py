"""Failures with several reasons, as a report finds them, and the report in its task's log.

The command uses reports too, so this module does not import Airflow.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import ClassVar

from walferry.base.errors import WalferryError

MAX_REASONS = 10
MAX_NOTE_CHARS = 300  # of a line for the run's note
IN_REPORT = "see `failures` in the XCom return_value of this task"
WARNINGS = ("WARNING ", "GONE ", "QUARANTINED ", "DROPPED ")  # the beginnings of lines that are warnings

log = logging.getLogger(__name__)


class Failures(WalferryError):
    """Several reasons for one failure, each a line of the log. The causes are known; trying the same again does not help."""

    retry_helps = False
    prefix: ClassVar[str] = ""  # of each line

    def __init__(self, reasons: Sequence[str], where: str = IN_REPORT) -> None:
        left_out = len(reasons) - MAX_REASONS
        more = [f"and {left_out:,} more: {where}"] if left_out > 0 else []
        self.lines = [*(f"{self.prefix}{reason}" for reason in reasons[:MAX_REASONS]), *more]
        super().__init__("; ".join([*reasons[:MAX_REASONS], *more]))


class ReportedFailures(Failures):
    """The failures that a report has found."""

    prefix = "FAILED "


def say(text: str) -> None:
    """Log the lines. Lines about the first failures are left out: the task ends with them, so that they come last."""
    failures = 0
    for line in text.splitlines():
        failures += (failed := line.startswith(ReportedFailures.prefix))
        if line.startswith(WARNINGS):
            log.warning("%s", line.removeprefix("WARNING "))
        elif not failed or failures > MAX_REASONS:
            print(line, flush=True)  # at any level of Airflow's logging
