"""Durations, sizes and ages as people read them."""

from __future__ import annotations

import pytest

from tests.unit.observe.status.views import NOW
from walferry.airflow.page import formats
from walferry.base.amounts import duration
from walferry.observe.status.ages import NOTHING_WAITS, Age, Certainty, unknown


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0001, "1 ms"), (0.25, "250 ms"), (1, "1 s"), (59.6, "1 min"), (61, "1 min 1 s"), (3600, "1 h"), (11_100, "3 h 5 min"),
     (86_400 * 1200 + 7200, "1,200 d 2 h"), (0, "0 s")],
)  # fmt: skip
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_an_age_is_shown_with_its_certainty_and_an_unknown_one_never_as_a_number() -> None:
    assert formats.lag(NOTHING_WAITS) == "none: nothing waits"
    assert formats.lag(Age(300_000, Certainty.EXACT)) == "5 min"
    assert formats.lag(Age(300_000, Certainty.AT_MOST)) == "at most 5 min"
    assert formats.lag(Age(300_000, Certainty.AT_LEAST)) == "at least 5 min"
    assert formats.lag(unknown("it is odd")) == "unknown"
    assert formats.lag(Age(0, Certainty.AT_LEAST)) != formats.NOTHING_WAITS


def test_times_that_no_clock_can_show_are_no_error() -> None:
    assert formats.moment(NOW) == "2027-01-15 08:00:00 UTC"
    assert formats.moment(None) == "unknown"
    assert formats.moment(1 << 62) == f"{1 << 62:,} ms since 1970"
    assert formats.moment(-5) == "-5 ms since 1970"
    assert (formats.iso(NOW), formats.iso(1 << 62)) == ("2027-01-15T08:00:00+00:00", "")
