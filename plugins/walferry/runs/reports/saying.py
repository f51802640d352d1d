"""Tells a report in the log of its task: each line at the level that it has for people."""

from __future__ import annotations

import logging

from walferry.runs.failures import MAX_REASONS, ReportedFailures

WARNINGS = ("WARNING ", "GONE ", "QUARANTINED ", "DROPPED ")  # how lines begin that are warnings

log = logging.getLogger(__name__)


def say(text: str) -> None:
    """Log the lines. Those of the first failures are left out: the task ends with them, so that they come last."""
    failures = 0
    for line in text.splitlines():
        failures += (failed := line.startswith(ReportedFailures.prefix))
        if line.startswith(WARNINGS):
            log.warning("%s", line.removeprefix("WARNING "))
        elif not failed or failures > MAX_REASONS:
            print(line, flush=True)  # whatever the level of Airflow's logging
