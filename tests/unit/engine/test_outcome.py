"""How an attempt ends: which of its errors counts, and the status that the group ends with."""

from __future__ import annotations

import pytest

from walferry.engine.outcome import RunOutcome
from walferry.engine.summary import Status
from walferry.replication.sinks.errors import PeerClusterUnreachable, Stopped

BROKEN = ValueError("broken")
LATE = PeerClusterUnreachable("s", 0.0, 0, "no time")
DOWN = PeerClusterUnreachable("s", 0.0, 3, "refused")


def after(*errors: BaseException) -> RunOutcome:
    outcome = RunOutcome()
    for error in errors:
        outcome.note(error)
    return outcome


@pytest.mark.parametrize(
    ("errors", "status"),
    [([], Status.DONE), ([Stopped()], Status.DONE), ([LATE], Status.DEADLINE), ([LATE, LATE, Stopped()], Status.DEADLINE)],
)
def test_an_attempt_without_an_error_has_a_status(errors, status):
    assert after(*errors).status() is status


@pytest.mark.parametrize(
    ("errors", "raised"),
    [
        ([BROKEN], BROKEN),
        ([LATE, BROKEN], BROKEN),
        ([BROKEN, LATE], BROKEN),
        ([DOWN, BROKEN], DOWN),
        ([BROKEN, DOWN], BROKEN),
        ([LATE, DOWN], DOWN),
    ],
)
def test_the_first_error_counts(errors, raised):
    outcome = after(*errors)
    with pytest.raises(type(raised)) as caught:
        outcome.status()
    assert caught.value is raised
