"""Calls that cannot be ended are left behind, and not without bound."""

from __future__ import annotations

import threading
import time

import pytest

from walferry.base.security import waiting
from walferry.base.security.waiting import within


def test_the_result_is_passed_on_and_so_is_what_went_wrong():
    assert within(10, lambda: 7) == 7
    with pytest.raises(KeyError, match="gone"):
        within(10, lambda: {}["gone"])


def test_a_call_that_takes_too_long_is_left_behind():
    ended = threading.Event()
    with pytest.raises(TimeoutError):
        within(0.05, lambda: ended.wait(20))
    ended.set()


def test_there_is_no_time_for_a_call_whose_time_is_over():
    ended = threading.Event()
    with pytest.raises(TimeoutError):
        within(-1, lambda: ended.wait(20))
    ended.set()


@pytest.fixture
def two_places(monkeypatch):
    monkeypatch.setattr(waiting, "MOST_LEFT_BEHIND", 2)
    waiting._places.cache_clear()
    yield
    waiting._places.cache_clear()


def test_only_so_many_calls_are_left_behind(two_places):
    ended, begun = threading.Event(), []

    def hang() -> None:
        begun.append(True)
        ended.wait(20)

    for _ in range(4):
        with pytest.raises(TimeoutError):
            within(0.1, hang)
    assert len(begun) == 2
    ended.set()
    give_up = time.monotonic() + 10
    while waiting._places("")._value < 2:
        assert time.monotonic() < give_up
        time.sleep(0.01)
    assert within(10, lambda: "on again") == "on again"


def test_what_waits_for_one_realm_does_not_hold_up_another(two_places):
    ended = threading.Event()
    for _ in range(3):
        with pytest.raises(TimeoutError):
            within(0.1, lambda: ended.wait(20), "walferry@WEST in WEST")
    assert within(10, lambda: "a ticket", "walferry@EAST in EAST") == "a ticket"
    ended.set()
