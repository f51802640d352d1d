"""How an attempt ends: which of its errors counts, and the status that the group ends with."""

from __future__ import annotations

import pytest

from walferry.engine.counters import Counters
from walferry.engine.outcome import RunOutcome, noted_end
from walferry.engine.summary import GroupSummary, Status
from walferry.hbase.errors import PausedPeer
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


@pytest.mark.parametrize("backlog", [False, True])
@pytest.mark.parametrize("answered", [False, True])
def test_a_peer_cluster_that_is_down_is_noted_and_told_to_the_other_groups(backlog: bool, answered: bool) -> None:
    counters, reported = Counters(GroupSummary(group="g")), list[str]()
    with noted_end(counters, reported.append, backlog=backlog):
        raise PeerClusterUnreachable("s", 0.0, 3, "refused", answered=answered)
    summary = counters.summary()
    assert summary.status is Status.PEER_DOWN
    assert summary.error
    assert summary.error.startswith("peer cluster s has acknowledged nothing since")
    assert ("the next batch tries again" in summary.error) == backlog  # a replay has none
    assert reported == ([] if answered else [summary.error])


def test_a_paused_peer_is_noted_and_other_errors_pass() -> None:
    counters, reported = Counters(GroupSummary(group="g")), list[str]()
    with noted_end(counters, reported.append, backlog=True):
        raise PausedPeer("p")
    assert (counters.summary().status, reported) == (Status.PAUSED, [])
    with pytest.raises(ValueError, match="broken"), noted_end(counters, reported.append, backlog=True):
        raise BROKEN
    with noted_end(counters, reported.append, backlog=True):
        pass
    assert counters.summary().status is Status.PAUSED
