"""Durations, sizes and times as people read them. What is not known is never shown as 0."""

from __future__ import annotations

from datetime import UTC, datetime

from walferry.status.ages import Age, Certainty
from walferry.status.model import BytesLeft

UNKNOWN = "unknown"
NOTHING_WAITS = "none: nothing waits"
_UNITS = (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1))
_SIZES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_LATEST_MS = 32_503_680_000_000  # in the year 3000; later times come from broken clocks or from strangers


def duration(seconds: float) -> str:
    """Such as "3 h 5 min": the largest unit and, if it is not 0, the next one."""
    if 0 < seconds < 1:
        return f"{max(1, round(seconds * 1000))} ms"
    rest = round(seconds)
    at = next((i for i, (_, size) in enumerate(_UNITS) if rest >= size), len(_UNITS) - 1)
    parts: list[str] = []
    for name, size in _UNITS[at : at + 2]:
        if rest // size or not parts:
            parts.append(f"{rest // size:,} {name}")
        rest %= size
    return " ".join(parts)


def size(number: float) -> str:
    """Such as "1.2 GiB"."""
    for unit in _SIZES:
        if abs(number) < 1024 or unit == _SIZES[-1]:
            break
        number /= 1024
    return f"{number:,.0f} {unit}" if unit == "B" or number >= 100 else f"{number:.1f} {unit}"


def lag(age: Age) -> str:
    """An age with its certainty, such as "at most 5 min"."""
    if age.nothing_waits:
        return NOTHING_WAITS
    if age.ms is None or age.certainty is Certainty.UNKNOWN:
        return UNKNOWN
    told = duration(age.ms / 1000)
    return told if age.certainty is Certainty.EXACT else f"{age.certainty} {told}"


def left(bytes_left: BytesLeft | None) -> str:
    """The bytes that are left, and how sure that is."""
    if bytes_left is None:
        return UNKNOWN
    if not bytes_left.unsure:
        return size(bytes_left.known)
    more = "1 WAL" if bytes_left.unsure == 1 else f"{bytes_left.unsure:,} WALs"
    return f"{size(bytes_left.known)} and {more} of unknown size" if bytes_left.known else f"{more} of unknown size"


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
