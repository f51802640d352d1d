"""Which troubles to tell now: a new one at once, one that goes on after growing intervals, and its end once.

What was told is kept between looks as JSON, {key: [since, told, times, seen, text]}, by whoever calls `tell`. A trouble that
comes and goes is one: it is over when it has been away for OVER_SECONDS. If the state is lost, what goes on is told once more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from walferry.base.amounts import duration
from walferry.base.texts import one_line
from walferry.observe.status.troubles import MAX_TEXT_CHARS, StatusLook

AGAIN_SECONDS = (300, 900, 3600, 4 * 3600, 86_400)  # after the first time, the second …; the last one again and again
OVER_SECONDS = 300.0
MAX_ALERTS = 200  # that are kept, and told at once
MAX_KEY_CHARS = 300


@dataclass(frozen=True, slots=True)
class Alert:
    """A trouble that was told. Times are in seconds since the epoch."""

    since: float
    told: float  # the last time
    times: int  # that it was told
    seen: float  # the last look that has found it
    text: str

    def again_at(self) -> float:
        """When it is told again, if it goes on."""
        return self.told + AGAIN_SECONDS[min(self.times, len(AGAIN_SECONDS)) - 1]


@dataclass(frozen=True)
class AlertsTold:
    """What to tell now, one line each, and the alerts to keep once it is told."""

    troubles: tuple[str, ...]  # that are new, or go on for long
    over: tuple[str, ...]
    quiet: tuple[str, ...]  # that go on, and were told before
    alerts: Mapping[str, Alert]

    @property
    def text(self) -> str:
        """All there is to tell."""
        return "\n".join([*self.troubles, *self.over])


def tell(before: Mapping[str, Alert], looked: StatusLook, now: float) -> AlertsTold:
    """Compare a look with the alerts that the one before has left."""
    found = {trouble.key[:MAX_KEY_CHARS]: trouble.line for trouble in looked.troubles[:MAX_ALERTS]}
    troubles, quiet, after = [], [], dict[str, Alert]()
    for key, line in found.items():
        known = before.get(key)
        if known is None:
            troubles.append(line)
            after[key] = Alert(now, now, 1, now, line)
        elif now >= known.again_at():
            troubles.append(f"{line} (it goes on for {duration(max(0.0, now - known.since))})")
            after[key] = Alert(known.since, now, known.times + 1, now, line)
        else:
            quiet.append(f"{line} (told {duration(max(0.0, now - known.told))} ago)")
            after[key] = Alert(known.since, known.told, known.times, now, line)
    over = []
    for key, known in before.items():
        if key in found:
            continue
        if looked.has_seen(key) and now - known.seen >= OVER_SECONDS:
            over.append(f"over after {duration(max(0.0, known.seen - known.since))}: {known.text}")
        elif len(after) < MAX_ALERTS:
            seen = known.seen if looked.has_seen(key) else now
            after[key] = Alert(known.since, known.told, known.times, seen, known.text)
    left_out = len(looked.troubles) - MAX_ALERTS
    if troubles and left_out > 0:
        troubles.append(f"and {left_out:,} more troubles: `walferry status` tells them")
    return AlertsTold(tuple(troubles), tuple(over), tuple(quiet), after)


def to_json(alerts: Mapping[str, Alert]) -> dict[str, Any]:
    """The alerts as JSON knows them."""
    return {key: [each.since, each.told, each.times, each.seen, each.text] for key, each in alerts.items()}


def from_json(value: Any, now: float) -> dict[str, Alert]:
    """The alerts that `to_json` wrote. What it would not have written, or comes from the future, is left out."""
    if not isinstance(value, Mapping):
        return {}
    found = {str(key)[:MAX_KEY_CHARS]: _alert(each, now) for key, each in list(value.items())[:MAX_ALERTS]}
    return {key: alert for key, alert in found.items() if alert is not None}


def _alert(value: Any, now: float) -> Alert | None:
    match value:
        case [since, told, times, seen, str(text)] if _are_times((since, told, seen), now) and type(times) is int and times > 0:
            return Alert(since, told, times, seen, one_line(text, MAX_TEXT_CHARS))
    return None


def _are_times(values: Sequence[Any], now: float) -> bool:
    return all(isinstance(each, (int, float)) and not isinstance(each, bool) and 0 <= each <= now + 60 for each in values)
