"""How fast a peer is shipped, and when it will be done.

While runs ship it, their own figures tell. Between two micro-batches nothing runs, so then the history of the last minutes tells:
what was shipped in that time, and by how much the backlog has shrunk, with what was written meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from walferry.engine.summary import Status
from walferry.observe.status.history import INTERVAL_SECONDS, Sample
from walferry.observe.status.model import BytesLeft, GroupStatus, ShippingPace

WINDOW_SECONDS = 1800.0


def pace_of(groups: Iterable[GroupStatus], left: BytesLeft | None, history: Sequence[Sample], now: float) -> ShippingPace:
    """The pace of a peer with these groups and so many bytes left."""
    shipping = [group.last_run for group in groups if group.holder]
    rates = [run.bytes_per_second for run in shipping if run is not None and run.status == Status.RUNNING]
    if running := [rate for rate in rates if rate is not None]:
        rate = sum(running)
        return ShippingPace(rate, *_time_left(left, rate, "what is shipped now acknowledges nothing"))
    if shipping:
        return ShippingPace(None, None, "its runs have only begun")
    recent = [sample for sample in history if now - WINDOW_SECONDS <= sample.at <= now]
    shipped = [sample.shipped_bytes for sample in recent[1:]]
    if not shipped or None in shipped:
        return ShippingPace(None, None, "nothing ships it now, and its history does not tell")
    seconds = (recent[-1].interval - recent[0].interval) * INTERVAL_SECONDS
    rate = sum(each or 0 for each in shipped) / seconds
    first, last = recent[0], recent[-1]
    if left is not None and not left.known and not left.unsure:
        return ShippingPace(rate, 0.0, "")
    if first.bytes_left is None or last.bytes_left is None or first.unsure or last.unsure:
        return ShippingPace(rate, None, "the bytes left are not known for all of the last minutes")
    shrinks = (first.bytes_left - last.bytes_left) / seconds
    return ShippingPace(rate, *_time_left(left, shrinks, "the backlog does not shrink"))


def _time_left(left: BytesLeft | None, rate: float, too_slow: str) -> tuple[float | None, str]:
    """Seconds until so many bytes are shipped; None if they are not known or will not be, and why."""
    if left is None:
        return None, "no file was looked at"
    if left.unsure:
        return None, f"the sizes of {left.unsure:,} WALs are not known"
    if not left.known:
        return 0.0, ""
    return (left.known / rate, "") if rate > 0 else (None, too_slow)
