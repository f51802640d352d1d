"""The last day of a peer as two curves: lag, and bytes shipped a second. The templates draw them as SVG.

Each sample has a place of its own on the x axis. Where there is no sample, the curve is broken. Where a sample says that the
value is not known, the place is marked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise

from walferry.base.amounts import duration, size
from walferry.observe.status.ages import Certainty
from walferry.observe.status.history import INTERVAL_SECONDS, SAMPLES, Sample

WIDTH, HEIGHT = SAMPLES, 48
HOUR_TICKS = (0, 6, 12, 18)
LATE = 0.85  # a label takes up to 14% of a narrow plot


@dataclass(frozen=True)
class Point:
    """A sample's value on the curve. `bound` says that the value is not exact."""

    x: int
    value: float | None
    bound: bool = False


@dataclass(frozen=True)
class Line:
    """A part of a curve without a gap, as the points of an SVG polyline."""

    points: str
    bound: bool


@dataclass(frozen=True)
class Limit:
    """A value that a curve should stay below."""

    y: float
    text: str


@dataclass(frozen=True)
class Curve:
    """A curve to draw, and the same in words."""

    name: str
    lines: tuple[Line, ...]
    unknown: tuple[int, ...]  # places where the value is not known
    top: str  # the highest value
    words: str
    limit: Limit | None = None


@dataclass(frozen=True)
class Tick:
    """An hour on the x axis."""

    x: int
    label: str

    @property
    def late(self) -> bool:
        """Whether the label may not fit between the tick and the right border."""
        return self.x > LATE * WIDTH


@dataclass(frozen=True)
class Plot:
    """Both curves over the same day."""

    curves: tuple[Curve, Curve]
    ticks: tuple[Tick, ...]


def plot_of(samples: Iterable[Sample], at: float, max_lag: float | None = None) -> Plot | None:
    """Return the plot of the day that ends at `at`, in seconds since the epoch; None if no sample is of that day.

    `max_lag`, in seconds, is drawn as a line.
    """
    last = int(at) // INTERVAL_SECONDS
    shown = [sample for sample in samples if last - SAMPLES < sample.interval <= last]
    if not shown:
        return None
    first = last - SAMPLES + 1
    ages = [
        Point(each.interval - first, None if each.lag_ms is None else each.lag_ms / 1000, each.certainty is not Certainty.EXACT)
        for each in shown
    ]
    rates = [
        Point(each.interval - first, None if each.shipped_bytes is None else each.shipped_bytes / INTERVAL_SECONDS)
        for each in shown
    ]
    return Plot(
        (_curve("Lag", ages, first, duration, max_lag), _curve("Shipped", rates, first, lambda rate: f"{size(rate)}/s")),
        tuple(_ticks(first)),
    )


def _curve(name: str, points: Sequence[Point], first: int, reported: Callable[[float], str], most: float | None = None) -> Curve:
    known = [point for point in points if point.value is not None]
    unknown = tuple(point.x for point in points if point.value is None)
    if not known:
        return Curve(name, (), unknown, "", f"{name}: not known in any of {len(points):,} samples of the last day.")
    highest = max(known, key=lambda point: point.value or 0)
    top = highest.value or 0
    missing = f" It is not known in {len(unknown):,} of {len(points):,} samples." if unknown else ""
    words = (
        f"{name} over the last day: highest {_reported(highest, reported)} at {_clock(first + highest.x)}, "
        f"last known {_reported(known[-1], reported)} at {_clock(first + known[-1].x)}.{missing}"
    )
    scale = max(top, most or 0)
    limit = Limit(round(_y(most, scale), 1), reported(most)) if most else None
    lines = tuple(_lines(points, scale))
    return Curve(name, lines, unknown, reported(top) if top else "", words, limit)


def _reported(point: Point, reported: Callable[[float], str]) -> str:
    return f"{reported(point.value or 0)}{' (not exact)' if point.bound else ''}"


def _lines(points: Sequence[Point], top: float) -> Iterable[Line]:
    """Yield parts of the curve: each ends at a gap, or where the certainty changes."""
    part: list[Point] = []
    for point, after in pairwise([*points, None]):
        if point is None or point.value is None:
            continue
        part.append(point)
        if after is None or after.value is None or after.x != point.x + 1 or after.bound != point.bound:
            yield Line(" ".join(_places(part, top)), point.bound)
            part = []


def _places(part: Sequence[Point], top: float) -> Iterable[str]:
    """Yield the points' places. Each point is as wide as its interval, so that a single point can be seen."""
    for point in part:
        y = _y(point.value or 0, top)
        yield f"{point.x},{y:.1f}"
    yield f"{part[-1].x + 1},{y:.1f}"


def _y(value: float, top: float) -> float:
    return HEIGHT - (HEIGHT - 2) * value / top if top else HEIGHT


def _ticks(first: int) -> Iterable[Tick]:
    for x in range(SAMPLES):
        at = datetime.fromtimestamp((first + x) * INTERVAL_SECONDS, UTC)
        if at.minute == 0 and at.hour in HOUR_TICKS:
            yield Tick(x, f"{at:%H:%M}")


def _clock(interval: int) -> str:
    return f"{datetime.fromtimestamp(interval * INTERVAL_SECONDS, UTC):%H:%M} UTC"
