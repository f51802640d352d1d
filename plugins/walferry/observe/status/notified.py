"""Decides of which findings to notify people now: a new one at once, a lasting one after growing intervals, its end once.

The caller of `notifications` keeps the notified findings between looks as JSON, {subject: [since, last, times, seen]}. A finding
that comes and goes is one finding: it is over when it has been away for OVER_SECONDS. If the state is lost, people are notified
once more of findings that go on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass
from typing import Any

from walferry.base.amounts import duration
from walferry.base.texts import one_line
from walferry.observe.status.findings import StatusFindings

AGAIN_SECONDS = (300, 900, 3600, 4 * 3600, 86_400)  # after the first time, the second …; the last interval repeats
OVER_SECONDS = 300.0
MAX_NOTIFIED = 200  # findings that are kept, and notified at once
MAX_KEY_CHARS = 300


@dataclass(frozen=True, slots=True)
class Notified:
    """When people were notified of a finding. Times are in seconds since the epoch."""

    since: float  # the first look that has found it
    last: float  # the last time that people were notified
    times: int  # how often people were notified
    seen: float  # the last look that has found it

    def again_at(self) -> float:
        """Return when people are notified again, if the finding goes on."""
        return self.last + AGAIN_SECONDS[min(self.times, len(AGAIN_SECONDS)) - 1]


@dataclass(frozen=True)
class Notifications:
    """The lines to notify people of now, and the state to keep once that is done."""

    new: tuple[str, ...]  # new, or lasting and due again
    over: tuple[str, ...]
    quiet: tuple[str, ...]  # lasting, and not due again yet
    notified: Mapping[str, Notified]

    @property
    def text(self) -> str:
        """The text of the notification."""
        return "\n".join([*self.new, *self.over])


def notifications(before: Mapping[str, Notified], seen: StatusFindings, now: float) -> Notifications:
    """Compare the findings of a look with the state that the look before has left."""
    found = {finding.what[:MAX_KEY_CHARS]: finding.line for finding in seen.findings[:MAX_NOTIFIED]}
    new, over, quiet, after = [], [], [], dict[str, Notified]()
    for what, line in found.items():
        known = before.get(what)
        if known is None:
            new.append(line)
            after[what] = Notified(now, now, 1, now)
        elif now >= known.again_at():
            new.append(f"{line} (it goes on for {duration(max(0.0, now - known.since))})")
            after[what] = Notified(known.since, now, known.times + 1, now)
        else:
            quiet.append(f"{line} (notified {duration(max(0.0, now - known.last))} ago)")
            after[what] = Notified(known.since, known.last, known.times, now)
    for what, known in before.items():
        if what in found:
            continue
        if seen.has_seen(what) and now - known.seen >= OVER_SECONDS:
            over.append(f"over after {duration(max(0.0, known.seen - known.since))}: {what}")
        elif len(after) < MAX_NOTIFIED:
            after[what] = known if seen.has_seen(what) else Notified(known.since, known.last, known.times, now)
    left_out = len(seen.findings) - MAX_NOTIFIED
    if new and left_out > 0:
        new.append(f"and {left_out:,} more findings: `walferry status` shows them")
    return Notifications(tuple(new), tuple(over), tuple(quiet), after)


def to_json(notified: Mapping[str, Notified]) -> dict[str, Any]:
    """Return the state as JSON knows it."""
    return {what: list(astuple(each)) for what, each in notified.items()}


def from_json(value: Any, now: float) -> dict[str, Notified]:
    """Return the state that `to_json` wrote. Invalid values, and values from the future, are left out."""
    items = list(value.items())[:MAX_NOTIFIED] if isinstance(value, Mapping) else ()
    return {one_line(str(what), MAX_KEY_CHARS): Notified(*each) for what, each in items if _is_notified(each, now)}


def _is_notified(value: Any, now: float) -> bool:
    match value:
        case [since, last, times, seen]:
            return type(times) is int and times > 0 and all(_is_time(each, now) for each in (since, last, seen))
    return False


def _is_time(value: Any, now: float) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= now + 60
