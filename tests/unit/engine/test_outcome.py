"""The phases of an attempt: which may follow which, and what the group ends with."""

from __future__ import annotations

import pytest

from walferry.engine.outcome import Phase, RunOutcome
from walferry.engine.summary import Status
from walferry.replication.sinks.errors import SlaveUnreachable, Stopped

BROKEN = ValueError("broken")
LATE = SlaveUnreachable("s", 0.0, 0, "no time")
DOWN = SlaveUnreachable("s", 0.0, 3, "refused")


def after(*errors: BaseException) -> RunOutcome:
    outcome = RunOutcome()
    for error in errors:
        outcome.note(error)
    return outcome


@pytest.mark.parametrize(
    ("errors", "phase", "status"),
    [
        ([], Phase.SHIPPING, Status.DONE),
        ([Stopped()], Phase.SHIPPING, Status.DONE),
        ([LATE], Phase.LATE, Status.DEADLINE),
        ([LATE, LATE, Stopped()], Phase.LATE, Status.DEADLINE),
    ],
)
def test_an_attempt_without_an_error_has_a_status(errors, phase, status):
    outcome = after(*errors)
    assert (outcome.phase, outcome.status()) == (phase, status)


@pytest.mark.parametrize(
    ("errors", "phase", "raised"),
    [
        ([BROKEN], Phase.FAILED, BROKEN),
        ([LATE, BROKEN], Phase.FAILED, BROKEN),
        ([BROKEN, LATE], Phase.FAILED, BROKEN),
        ([DOWN, BROKEN], Phase.SLAVE_DOWN, DOWN),
        ([BROKEN, DOWN], Phase.FAILED, BROKEN),
        ([LATE, DOWN], Phase.SLAVE_DOWN, DOWN),
    ],
)
def test_the_first_error_counts(errors, phase, raised):
    outcome = after(*errors)
    assert outcome.phase is phase
    with pytest.raises(type(raised)) as caught:
        outcome.status()
    assert caught.value is raised
