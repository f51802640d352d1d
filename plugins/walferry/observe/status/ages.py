"""The age of the oldest edit that is not shipped, and how certain it is.

A WAL's name contains the time at which the file was begun, and edits are younger than their file. So an age has an upper bound
even if no file is read. "Nothing waits" is an exact age of 0; an unknown age is never 0.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

SKEW_MS = 60_000  # how much clocks may differ


class Certainty(StrEnum):
    """How an age is to be understood."""

    EXACT = "exact"
    AT_MOST = "at most"
    AT_LEAST = "at least"  # the age of a part of the edits is not known
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Age:
    """An age in milliseconds, None if it is not known. `why` says why it is not exact."""

    ms: int | None
    certainty: Certainty
    why: str = ""

    @property
    def nothing_waits(self) -> bool:
        """Whether it is known that no edit waits."""
        return self.ms == 0 and self.certainty is Certainty.EXACT


NOTHING_WAITS = Age(0, Certainty.EXACT)


def unknown(why: str) -> Age:
    """Return an age that is not known."""
    return Age(None, Certainty.UNKNOWN, why)


def exactly(written_ms: int, now_ms: int) -> Age:
    """Return the age of an edit that was written then; at least a millisecond, because it does wait."""
    return _aged(written_ms, now_ms, Certainty.EXACT, "")


def at_most(since_ms: int, now_ms: int, why: str) -> Age:
    """Return the age of an edit that was not written before `since_ms`."""
    return _aged(since_ms, now_ms, Certainty.AT_MOST, why)


def oldest(ages: Iterable[Age]) -> Age:
    """Return the largest of the ages; NOTHING_WAITS if there are none."""
    every = list(ages)
    known = [age for age in every if age.ms is not None and age.certainty is not Certainty.UNKNOWN]
    missing = next((age for age in every if age.certainty in (Certainty.UNKNOWN, Certainty.AT_LEAST)), None)
    if missing is None:
        return max(known, key=lambda age: (age.ms or 0, age.certainty is Certainty.EXACT), default=NOTHING_WAITS)
    floor = max((age.ms or 0 for age in known if age.certainty is not Certainty.AT_MOST), default=0)
    return Age(floor, Certainty.AT_LEAST, missing.why) if floor else unknown(missing.why)


def _aged(since_ms: int, now_ms: int, certainty: Certainty, why: str) -> Age:
    if since_ms > now_ms + SKEW_MS:
        ahead = (since_ms - now_ms) // 1000
        return unknown(f"the source's clock seems to be {ahead:,} s ahead of this one")
    return Age(max(1, now_ms - since_ms), certainty, why)
