"""Lags, sizes and times as people read them. What is not known is never shown as 0."""

from __future__ import annotations

from datetime import UTC, datetime

from walferry.observe.status import words
from walferry.observe.status.ages import Age
from walferry.observe.status.words import UNKNOWN

NOTHING_WAITS = "none: nothing waits"
_LATEST_MS = 32_503_680_000_000  # in the year 3000; later times come from broken clocks or from strangers


def lag(age: Age) -> str:
    """An age with its certainty, such as "at most 5 min"."""
    return NOTHING_WAITS if age.nothing_waits else words.lag(age)


def moment(ms: int | None) -> str:
    """A time in UTC, such as "2026-03-01 10:00:00 UTC"."""
    if ms is None:
        return UNKNOWN
    return f"{_utc(ms):%Y-%m-%d %H:%M:%S} UTC" if 0 <= ms < _LATEST_MS else f"{ms:,} ms since 1970"


def iso(ms: int) -> str:
    """A time as ISO 8601 has it, whole seconds, for forms and for `datetime` attributes. Empty for what is no time."""
    return f"{_utc(ms):%Y-%m-%dT%H:%M:%S+00:00}" if 0 <= ms < _LATEST_MS else ""


def _utc(ms: int) -> datetime:
    return datetime.fromtimestamp(ms // 1000, UTC)
