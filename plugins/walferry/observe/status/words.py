"""Parts of a status in words. An unknown value is never shown as 0."""

from __future__ import annotations

from datetime import UTC, datetime

from walferry.base.amounts import count, duration, size
from walferry.observe.status.ages import Age, Certainty
from walferry.observe.status.model import BytesLeft, ShippingPace

UNKNOWN = "unknown"
NOTHING_WAITS = "none"


def lag(age: Age) -> str:
    """Return an age with its certainty, such as "at most 5 min"; `age.why` says why it is not exact."""
    if age.nothing_waits:
        return NOTHING_WAITS
    if age.ms is None or age.certainty is Certainty.UNKNOWN:
        return UNKNOWN
    words = duration(age.ms / 1000)
    return words if age.certainty is Certainty.EXACT else f"{age.certainty} {words}"


def valid_through(ms: int | None) -> str:
    """Return the time up to which a peer cluster has all edits, such as "2026-11-27 18:04 UTC"."""
    return UNKNOWN if ms is None else f"{datetime.fromtimestamp(ms // 1000, UTC):%Y-%m-%d %H:%M} UTC"


def left(bytes_left: BytesLeft | None) -> str:
    """Return the bytes that are left, and how sure that is."""
    if bytes_left is None:
        return UNKNOWN
    if not bytes_left.unsure:
        return size(bytes_left.known)
    more = f"{count(bytes_left.unsure, 'WAL')} of unknown size"
    return f"{size(bytes_left.known)} and {more}" if bytes_left.known else more


def rate(pace: ShippingPace) -> str:
    """Return a rate such as "1.2 MB/s"."""
    return UNKNOWN if pace.bytes_per_second is None else f"{size(pace.bytes_per_second)}/s"


def time_left(pace: ShippingPace) -> str:
    """Return how long it takes until all is shipped, at this pace."""
    return UNKNOWN if pace.seconds_left is None else duration(pace.seconds_left)
