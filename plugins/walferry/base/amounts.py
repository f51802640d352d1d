"""Writes amounts for people: numbers of things, bytes, durations."""

from __future__ import annotations

_UNITS = (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1))


def count(number: int, noun: str) -> str:
    """Return a number of things in English."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def size(number: float) -> str:
    """Return a number of bytes as text, such as "1.2 GB"."""
    if number < 1000:
        return f"{number:.0f} B"
    value, units = number / 1000, ["kB", "MB", "GB", "TB"]
    while value >= 1000 and len(units) > 1:
        value, units = value / 1000, units[1:]
    return f"{value:,.1f} {units[0]}"


def duration(seconds: float) -> str:
    """Return a duration such as "3 h 5 min": the largest unit and, if it is not 0, the next one."""
    if 0 < seconds < 1:
        return f"{max(1, round(seconds * 1000))} ms"
    rest = round(seconds)
    at = next((i for i, (_, unit) in enumerate(_UNITS) if rest >= unit), len(_UNITS) - 1)
    parts: list[str] = []
    for name, unit in _UNITS[at : at + 2]:
        if rest // unit or not parts:
            parts.append(f"{rest // unit:,} {name}")
        rest %= unit
    return " ".join(parts)
