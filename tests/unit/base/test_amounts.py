"""Amounts as people read them."""

from __future__ import annotations

import pytest

from walferry.base.amounts import count, duration, size


def test_one_thing_is_singular() -> None:
    assert [count(number, "WAL") for number in (0, 1, 2000)] == ["0 WALs", "1 WAL", "2,000 WALs"]


@pytest.mark.parametrize(("number", "text"), [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (1e15, "1,000.0 TB")])
def test_sizes_have_units(number: float, text: str) -> None:
    assert size(number) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"), (0.0004, "1 ms"), (0.25, "250 ms"), (1, "1 s"), (59.6, "1 min"), (60, "1 min"), (3599, "59 min 59 s"),
        (3600, "1 h"), (3661, "1 h 1 min"), (86_400, "1 d"), (90_061, "1 d 1 h"), (86_400 * 1200.5, "1,200 d 12 h"),
    ],
)  # fmt: skip
def test_durations_have_two_units_at_most(seconds: float, text: str) -> None:
    assert duration(seconds) == text
