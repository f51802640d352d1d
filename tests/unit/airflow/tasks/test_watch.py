"""Of many findings each is in the log: the first ones by the error at its end, and the others above."""

from __future__ import annotations

import pytest

from walferry.airflow.tasks.watch import MAX_LINES, ReplicationFindings, _end
from walferry.runs.failures import MAX_REASONS

REASONS = tuple(f"group {number:02}: no" for number in range(MAX_REASONS + 5))


def test_of_many_findings_the_log_has_those_that_the_error_has_not(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(ReplicationFindings) as error:
        _end(REASONS, (), ())
    assert [*error.value.lines[:-1], *caplog.messages] == list(REASONS)
    assert len(REASONS) < MAX_LINES
