"""Many viewers cause one making, and none of them waits longer than it wants to."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from walferry.observe.status.cached import MAX_KEYS, Cached


class Maker:
    """Makes a number for each call; waits while it is told to."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.go_on = threading.Event()
        self.go_on.set()
        self.error: Exception | None = None

    def __call__(self, key: str) -> int:
        self.calls.append(key)
        assert self.go_on.wait(30)
        if self.error:
            raise self.error
        return len(self.calls)


def test_the_keys_are_those_that_are_kept_and_those_that_are_being_made() -> None:
    maker = Maker()
    cached = Cached(maker, keep_seconds=60, wait_seconds=30)
    for number in range(MAX_KEYS + 3):
        cached.get(str(number))
    assert cached.known() == {str(number) for number in range(3, MAX_KEYS + 3)}
    maker.go_on.clear()
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(cached.get, "slow")
        while "slow" not in maker.calls:
            time.sleep(0.01)
        assert "slow" in cached.known()
        maker.go_on.set()
        asked.result()
    maker.error = ValueError("boo")
    with pytest.raises(ValueError, match="boo"):
        cached.get("bad")
    assert "bad" in cached.known()


def test_twenty_viewers_cause_one_making() -> None:
    maker = Maker()
    maker.go_on.clear()
    cached = Cached(maker, keep_seconds=60, wait_seconds=30)
    with ThreadPoolExecutor(20) as pool:
        asked = [pool.submit(cached.get, "a") for _ in range(20)]
        time.sleep(0.1)
        maker.go_on.set()
        assert [each.result() for each in asked] == [1] * 20
    assert cached.get("a") == 1
    assert maker.calls == ["a"]


def test_a_value_is_made_again_when_it_is_old_and_each_key_has_its_own() -> None:
    maker = Maker()
    cached = Cached(maker, keep_seconds=0, wait_seconds=30)
    assert [cached.get("a"), cached.get("a"), cached.get("b")] == [1, 2, 3]


@pytest.mark.long
def test_a_viewer_does_not_wait_for_a_slow_making_but_gets_the_value_before_it() -> None:
    maker = Maker()
    cached = Cached(maker, keep_seconds=0, wait_seconds=0.5)
    assert cached.get("a") == 1
    maker.go_on.clear()
    assert cached.get("a") == 1
    assert cached.get("b") is None
    assert maker.calls == ["a", "a", "b"]
    maker.go_on.set()


def test_what_nobody_waits_for_is_made_all_the_same() -> None:
    maker = Maker()
    cached = Cached(maker, keep_seconds=60, wait_seconds=30)
    maker.go_on.clear()
    assert (cached.get("a", wait_seconds=0), cached.last("a")) == (None, None)
    maker.go_on.set()
    assert cached.get("a") == cached.last("a") == 1
    assert maker.calls == ["a"]


def test_the_last_value_is_told_however_old_it_is_and_is_not_made_for_it() -> None:
    maker = Maker()
    cached = Cached(maker, keep_seconds=0, wait_seconds=30)
    assert cached.last("a") is None
    cached.get("a")
    assert cached.last("a") == 1
    assert maker.calls == ["a"]


def test_an_error_is_told_to_all_and_kept_as_long_as_a_value() -> None:
    maker = Maker()
    maker.error = ValueError("no")
    lasting, brief = Cached(maker, keep_seconds=60, wait_seconds=30), Cached(maker, keep_seconds=0, wait_seconds=30)
    for _ in range(3):
        with pytest.raises(ValueError, match="no"):
            lasting.get("a")
    assert maker.calls == ["a"]
    with pytest.raises(ValueError, match="no"):
        brief.get("a")
    maker.error = None
    assert brief.get("a") == 3


def test_only_so_many_values_are_kept() -> None:
    maker = Maker()
    cached = Cached(maker, keep_seconds=60, wait_seconds=30)
    for number in range(MAX_KEYS + 1):
        cached.get(str(number))
    cached.get("0")
    assert maker.calls.count("0") == 2
    assert maker.calls.count("1") == 1
