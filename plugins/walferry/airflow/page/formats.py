"""Writes lags, sizes and times as people read them. An unknown value is never shown as 0."""

from __future__ import annotations

from datetime import UTC, datetime

from walferry.observe.status import words
from walferry.observe.status.ages import Age
from walferry.observe.status.words import UNKNOWN

NOTHING_WAITS = "none: nothing waits"
_LATEST_MS = 32_503_680_000_000  # in the year 3000; later times come from broken clocks or from outside


def lag(age: Age) -> str:
    """Return an age with its certainty, such as "at most 5 min"."""
    return NOTHING_WAITS if age.nothing_waits else words.lag(age)


def moment(ms: int | None) -> str:
    """Return a time in UTC, such as "2026-03-01 10:00:00 UTC"."""
    if ms is None:
        return UNKNOWN
    return f"{_utc(ms):%Y-%m-%d %H:%M:%S} UTC" if 0 <= ms < _LATEST_MS else f"{ms:,} ms since 1970"


def iso(ms: int) -> str:
    """Return a time in ISO 8601, in whole seconds, for forms and for `datetime` attributes. Empty if it is not a valid time."""
    return f"{_utc(ms):%Y-%m-%dT%H:%M:%S+00:00}" if 0 <= ms < _LATEST_MS else ""


def _utc(ms: int) -> datetime:
    return datetime.fromtimestamp(ms // 1000, UTC)
