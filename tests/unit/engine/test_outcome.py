"""The phases of an attempt: which may follow which, and the status that the group ends with."""

from __future__ import annotations

import pytest

from walferry.engine.counters import Counters
from walferry.engine.outcome import Phase, RunOutcome, noted_end
from walferry.engine.summary import GroupSummary, Status
from walferry.hbase.errors import PausedPeer
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


@pytest.mark.parametrize("backlog", [False, True])
@pytest.mark.parametrize("answered", [False, True])
def test_a_slave_that_is_down_is_noted_and_told_to_the_other_groups(backlog: bool, answered: bool) -> None:
    counters, told = Counters(GroupSummary(group="g")), list[str]()
    with noted_end(counters, told.append, backlog=backlog):
        raise SlaveUnreachable("s", 0.0, 3, "refused", answered=answered)
    summary = counters.summary()
    assert summary.status is Status.SLAVE_DOWN
    assert summary.error
    assert summary.error.startswith("slave s has acknowledged nothing since")
    assert ("the next batch tries again" in summary.error) == backlog  # a replay has none
    assert told == ([] if answered else [summary.error])


def test_a_paused_peer_is_noted_and_other_errors_pass() -> None:
    counters, told = Counters(GroupSummary(group="g")), list[str]()
    with noted_end(counters, told.append, backlog=True):
        raise PausedPeer("p")
    assert (counters.summary().status, told) == (Status.PAUSED, [])
    with pytest.raises(ValueError, match="broken"), noted_end(counters, told.append, backlog=True):
        raise BROKEN
    with noted_end(counters, told.append, backlog=True):
        pass
    assert counters.summary().status is Status.PAUSED
