"""An age says how certain it is, and an unknown age is never 0."""

from __future__ import annotations

import pytest

from walferry.observe.status.ages import NOTHING_WAITS, SKEW_MS, Age, Certainty, at_most, exactly, oldest, unknown

NOW = 1_800_000_000_000
HOUR = 3_600_000


def test_an_edit_that_was_written_just_now_waits_for_more_than_nothing() -> None:
    assert exactly(NOW, NOW).ms == 1
    assert exactly(NOW + SKEW_MS, NOW).ms == 1
    assert not exactly(NOW, NOW).nothing_waits


def test_an_edit_of_the_future_has_no_age() -> None:
    age = at_most(NOW + HOUR, NOW, "why")
    assert age == Age(None, Certainty.UNKNOWN, "the source's clock seems to be 3,600 s ahead of this one")


def test_nothing_at_all_waits_only_if_that_is_known() -> None:
    assert oldest([]).nothing_waits
    assert oldest([NOTHING_WAITS, NOTHING_WAITS]).nothing_waits
    assert not oldest([NOTHING_WAITS, unknown("a name")]).nothing_waits
    assert not unknown("a name").nothing_waits


@pytest.mark.parametrize(
    ("parts", "whole"),
    [
        ([exactly(NOW - HOUR, NOW), exactly(NOW - 2 * HOUR, NOW)], Age(2 * HOUR, Certainty.EXACT)),
        ([exactly(NOW - 2 * HOUR, NOW), at_most(NOW - HOUR, NOW, "a")], Age(2 * HOUR, Certainty.EXACT)),
        ([exactly(NOW - HOUR, NOW), at_most(NOW - 2 * HOUR, NOW, "a")], Age(2 * HOUR, Certainty.AT_MOST, "a")),
        ([exactly(NOW - HOUR, NOW), at_most(NOW - HOUR, NOW, "a")], Age(HOUR, Certainty.EXACT)),
        ([exactly(NOW - HOUR, NOW), unknown("b")], Age(HOUR, Certainty.AT_LEAST, "b")),
        ([at_most(NOW - HOUR, NOW, "a"), unknown("b")], Age(None, Certainty.UNKNOWN, "b")),
        ([Age(HOUR, Certainty.AT_LEAST, "b"), exactly(NOW - 1, NOW)], Age(HOUR, Certainty.AT_LEAST, "b")),
        ([NOTHING_WAITS, unknown("b")], Age(None, Certainty.UNKNOWN, "b")),
    ],
)
def test_the_oldest_of_several_is_as_certain_as_they_are_together(parts: list[Age], whole: Age) -> None:
    assert oldest(parts) == whole
    assert oldest(reversed(parts)) == whole
