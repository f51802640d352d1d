"""A sender without the right does not send, and the next holder learns how long earlier requests may still take effect."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from types import SimpleNamespace

import pytest

from walferry.base.zk.right import Right, Unsure, has_heard, spare_seconds
from walferry.hbase.rpc.connection import delivery_seconds


class Ground:
    def __init__(self) -> None:
        self.sure = True
        self.lost: Exception | None = None
        self.allowed: list[float] = []

    def is_sure(self) -> bool:
        if self.lost:
            raise self.lost
        return self.sure

    def allow(self, seconds: float) -> None:
        self.allowed.append(seconds)


@pytest.fixture
def clock() -> list[float]:
    return [1000.0]


@pytest.fixture
def ground() -> Ground:
    return Ground()


@pytest.fixture
def right(ground: Ground, clock: list[float]) -> Right:
    return Right(ground, 60.0, clock=lambda: clock[0])


def test_each_part_of_a_request_is_sent_only_while_the_right_is_sure(right: Right, ground: Ground) -> None:
    request = right.begin(60)
    request.may_go_on()
    ground.sure = False
    with pytest.raises(Unsure):
        request.may_go_on()
    ground.lost = ValueError("lost")
    with pytest.raises(ValueError, match="lost"):
        request.may_go_on()


def test_an_answered_request_has_come_to_its_end(right: Right, clock: list[float]) -> None:
    with right.request(60) as request:
        request.may_go_on()
        assert right.quiet_seconds == 60 + spare_seconds(60)
    assert right.quiet_seconds == 0


def test_a_request_that_was_never_sent_is_not_waited_for(right: Right, ground: Ground) -> None:
    ground.sure = False
    with pytest.raises(Unsure), right.request(60) as request:
        request.may_go_on()
    assert right.quiet_seconds == 0


@pytest.mark.parametrize("end", [lambda request: request.cut(), lambda request: None], ids=["cut", "still under way"])
def test_one_without_an_answer_may_take_effect_for_its_time_after_its_last_part_was_sent(
    right: Right, clock: list[float], end: Callable[[object], None]
) -> None:
    request = right.begin(60)
    request.may_go_on()
    clock[0] += 7
    request.may_go_on()
    clock[0] += 5
    end(request)
    assert right.quiet_seconds == 55 + spare_seconds(60)
    clock[0] += 55 + spare_seconds(60)
    assert right.quiet_seconds == 0


def test_of_several_requests_without_an_answer_the_last_one_to_end_counts(right: Right, clock: list[float]) -> None:
    for seconds in (60, 120, 10):
        request = right.begin(seconds)
        request.may_go_on()
        request.cut()
    assert right.quiet_seconds == 120 + spare_seconds(120)


@pytest.mark.parametrize(("ago", "sure"), [(0.0, True), (9.9, True), (10.0, False), (19.9, False), (float("inf"), False)])
def test_a_session_is_sure_for_half_of_its_time_after_it_was_heard(ago: float, sure: bool) -> None:
    """The other half is spare: a ZooKeeper server without its leader answers for some ticks more."""
    zk = SimpleNamespace(heard=SimpleNamespace(seconds=ago, session_seconds=20.0))
    assert has_heard(zk) is sure


def test_an_error_of_the_server_s_own_is_an_answer(right: Right) -> None:
    with suppress(OSError), right.request(60) as request:
        request.may_go_on()
        request.answered()
        raise OSError("busy")
    assert right.quiet_seconds == 0


def test_nothing_is_sent_while_requests_of_an_earlier_holder_may_take_effect(ground: Ground, clock: list[float]) -> None:
    right = Right(ground, 60.0, quiet_at=1090.0, clock=lambda: clock[0])
    assert (right.is_sure(), right.quiet_seconds) == (False, 90.0)
    clock[0] = 1090.0
    assert (right.is_sure(), right.quiet_seconds) == (True, 0.0)


def test_the_next_holder_is_told_before_a_request_gets_more_time_than_usual_and_when_that_is_over(
    right: Right, ground: Ground, clock: list[float]
) -> None:
    right.begin(60).answered()
    right.begin(30).answered()
    assert ground.allowed == []
    long, other = right.begin(120), right.begin(90)
    other.answered()
    right.begin(60).answered()
    assert ground.allowed == [120]
    long.may_go_on()
    long.cut()
    right.begin(60).answered()
    assert ground.allowed == [120], "it may still take effect"
    clock[0] += 120 + spare_seconds(120)
    right.begin(60).answered()
    assert ground.allowed == [120, 60]


@pytest.mark.parametrize("seconds", [0.1, 1, 4, 10, 60, 3600])
def test_what_is_not_delivered_is_given_up_before_a_request_has_come_to_its_end(seconds: float) -> None:
    assert delivery_seconds(seconds) < spare_seconds(seconds)


def test_who_has_ended_its_right_sends_nothing_though_its_ground_holds_for_a_moment_more(
    right: Right, clock: list[float]
) -> None:
    """The next holder is told what is under way now: it would not wait for a request that was sent after that."""
    request, late = right.begin(60), right.begin(60)
    request.may_go_on()
    assert right.end() == 60 + spare_seconds(60)
    for each in (request, late):
        clock[0] += 1
        with pytest.raises(Unsure):
            each.may_go_on()
    assert right.quiet_seconds == 58 + spare_seconds(60)


def test_a_request_that_is_just_going_to_be_sent_is_under_way_when_the_right_ends(ground: Ground, clock: list[float]) -> None:
    reported = list[float]()

    class Slow(Ground):
        def is_sure(self) -> bool:
            reported.append(right.quiet_seconds)
            return True

    right = Right(Slow(), 60.0, clock=lambda: clock[0])
    right.begin(60).may_go_on()
    assert reported == [60 + spare_seconds(60)]


def test_that_a_part_is_going_to_be_sent_is_known_before_it_is_asked_whether_it_may(
    right: Right, ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who gives the right up first says so to those who ask, and then looks for how long requests may take effect."""
    seen: list[float] = []

    def is_sure() -> bool:
        seen.append(right.quiet_seconds)
        return ground.sure

    monkeypatch.setattr(ground, "is_sure", is_sure)
    right.begin(60).may_go_on()
    assert seen == [60 + spare_seconds(60)]


def test_a_request_s_time_begins_when_it_has_been_asked_about(
    right: Right, ground: Ground, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The question may go to ZooKeeper."""

    def is_sure() -> bool:
        clock[0] += 20
        return True

    monkeypatch.setattr(ground, "is_sure", is_sure)
    right.begin(60).may_go_on()
    assert right.quiet_seconds == 60 + spare_seconds(60)


def test_a_part_that_may_not_be_sent_leaves_what_was_sent_before(right: Right, ground: Ground, clock: list[float]) -> None:
    request = right.begin(60)
    request.may_go_on()
    clock[0] += 7
    for ground.sure, ground.lost, error in ((False, None, Unsure), (True, ValueError("lost"), ValueError)):
        with pytest.raises(error):
            request.may_go_on()
        assert right.quiet_seconds == 53 + spare_seconds(60)
