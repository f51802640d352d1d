"""Of many failures each is in the log: the first ones at its end, by the error, and the others above."""

from __future__ import annotations

import pytest

from walferry.runs.failures import MAX_REASONS, ReportedFailures
from walferry.runs.reports.saying import say

REASONS = tuple(f"group {number:02}: no" for number in range(MAX_REASONS + 5))


def test_a_report_leaves_to_the_end_what_the_error_has_and_no_more(capsys: pytest.CaptureFixture[str]) -> None:
    say("\n".join(["Peer p", *(f"FAILED {reason}" for reason in REASONS)]))
    said = capsys.readouterr().out.splitlines()
    told = ReportedFailures(REASONS).lines[:-1]
    assert said[0] == "Peer p"
    assert said[1:] + told == [f"FAILED {reason}" for reason in (*REASONS[MAX_REASONS:], *REASONS[:MAX_REASONS])]


def test_warnings_are_warnings(caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]) -> None:
    say("WARNING no edit\nGONE a WAL")
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", "no edit"), ("WARNING", "GONE a WAL"),
    ]  # fmt: skip
    assert capsys.readouterr().out == ""
