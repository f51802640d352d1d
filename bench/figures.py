"""The figures of a run of the quick benchmark: as JSON, and compared with those of a run before.

A figure is the median of its rounds. It is called worse, or better, than the stored one if it differs by more than NOISE times,
and if it also lies beyond each of the stored rounds. If three rounds of the same code differ by 1.2 times, as most do on an idle
machine, chance makes a figure worse in 1 of 100 runs; if they differ by 1.5 times, as those beside HBase's own replication, in 8
of 100. So measure again before you look for a cause. What really takes 1.5 times as long is found in 9, or 7, of 10 runs.

Seconds depend on the machine and are never compared. Ratios within a round are, and so are CPU-seconds. HBase's own CPU-seconds
show what the machine is like: if these differ, so do all others.
"""

from __future__ import annotations

import json
import os
import statistics
from dataclasses import asdict, dataclass

NOISE = 1.3
NAME, UNIT = 54, 18  # characters
HEADER = f"{'':{NAME}}{'':{UNIT}}{'stored':>9}{'now':>9}{'ratio':>9}"


@dataclass(frozen=True)
class Figure:
    """A figure by its name, in `unit`, with one value a round."""

    name: str
    unit: str
    rounds: tuple[float, ...]
    larger_is_better: bool
    compared: bool = True  # whether it means the same on another machine
    ours: bool = True  # False: of a tool of HBase's, so a change of it is one of the machine

    @property
    def value(self) -> float:
        """The median of the rounds."""
        return statistics.median(self.rounds)

    def worse_than(self, other: Figure) -> float:
        """How many times worse this is than the other: less than 1 if it is better."""
        ratio = self.value / other.value
        return 1 / ratio if self.larger_is_better else ratio

    def beyond(self, other: Figure) -> bool:
        """Whether this differs from the other one by more than noise."""
        outside = not min(other.rounds) <= self.value <= max(other.rounds)
        return outside and not 1 / NOISE <= self.value / other.value <= NOISE


@dataclass(frozen=True)
class Machine:
    """Where a run was: `load` is the load average of the minute before it began."""

    cores: int
    load: float

    @classmethod
    def here(cls) -> Machine:
        """This machine, now."""
        return cls(len(os.sched_getaffinity(0)), round(os.getloadavg()[0], 2))

    @property
    def busy(self) -> bool:
        """Whether so much else runs that the figures mean little."""
        return self.load > self.cores / 2

    def __str__(self) -> str:
        return f"load average {self.load:.1f} on {self.cores} cores"


@dataclass(frozen=True)
class Outcome:
    """A run's machine and figures."""

    machine: Machine
    figures: tuple[Figure, ...]

    def to_json(self) -> str:
        """The outcome as text, for `from_json` and for readers, who get each figure's value, too."""
        figures = [json.dumps({"name": f.name, "value": round(f.value, 3), **asdict(f)}) for f in self.figures]
        lines = ",\n".join(f"  {figure}" for figure in figures)  # one a figure, for people who compare versions
        return f'{{"machine": {json.dumps(asdict(self.machine))},\n "figures": [\n{lines}\n]}}\n'

    @classmethod
    def from_json(cls, text: str) -> Outcome:
        """The outcome that `to_json` has written. Raises ValueError, KeyError, TypeError."""
        read = json.loads(text)
        figures = [{name: value for name, value in each.items() if name != "value"} for each in read["figures"]]
        return cls(Machine(**read["machine"]), tuple(Figure(**{**each, "rounds": tuple(each["rounds"])}) for each in figures))


def verdicts(stored: Outcome, now: Outcome) -> list[str]:
    """Return a sentence for each figure that differs from the stored one by more than noise: the worse ones first."""
    pairs = [(old, new) for old, new in _pairs(stored, now) if old and new and _comparable(old, new) and new.beyond(old)]
    return [_sentence(old, new) for old, new in sorted(pairs, key=lambda pair: (not pair[1].ours, -pair[1].worse_than(pair[0])))]


def report(stored: Outcome | None, now: Outcome) -> str:
    """Return the table of all figures, and behind it what differs and what the figures are worth."""
    before = stored or Outcome(now.machine, ())
    lines = [HEADER, "-" * len(HEADER), *(_row(old, new) for old, new in _pairs(before, now)), ""]
    lines += _warnings(stored.machine if stored else None, now.machine)
    if stored is not None:
        said = verdicts(stored, now)
        worse = any(line.startswith("WORSE") for line in said)
        lines += [*said, *([] if worse else [f"Nothing became worse by more than {NOISE} times."])]
    return "\n".join(lines)


def _warnings(before: Machine | None, now: Machine) -> list[str]:
    lines = []
    if now.busy:
        lines.append(f"This machine was busy when the run began ({now}): its figures mean little.")
    if before and before.busy:
        lines.append(f"The stored figures are from a busy machine ({before}): differences from them mean little.")
    if before and before.cores != now.cores:
        lines.append(f"The stored figures are from {before.cores} cores, and this machine has {now.cores}: so ratios may differ.")
    return lines


def _pairs(stored: Outcome, now: Outcome) -> list[tuple[Figure | None, Figure | None]]:
    """Return both figures of each name, in the order of the new ones. Figures that are not measured any more come last."""
    old, new = ({figure.name: figure for figure in outcome.figures} for outcome in (stored, now))
    return [(old.get(name), new.get(name)) for name in dict.fromkeys([*new, *old])]


def _comparable(old: Figure, new: Figure) -> bool:
    return new.compared and old.unit == new.unit and min(*old.rounds, *new.rounds) > 0


def _sentence(old: Figure, new: Figure) -> str:
    both = f"{new.name}: {_text(new)} {new.unit}, before {_text(old)}"
    if not new.ours:
        return f"The machine differs: {both}. HBase has not changed, so compare figures in CPU-seconds with care."
    worse = new.worse_than(old)
    if worse > 1:
        return f"WORSE: {both}. That is worse by {worse:.2f} times."
    return f"better: {both}. That is better by {1 / worse:.2f} times."


def _row(old: Figure | None, new: Figure | None) -> str:
    shown = new or old
    assert shown is not None
    ratio = f"{new.value / old.value:.2f}" if old and new and _comparable(old, new) else "-"
    return f"{shown.name:{NAME}}{shown.unit:{UNIT}}{_text(old):>9}{_text(new):>9}{ratio:>9}"


def _text(figure: Figure | None) -> str:
    if figure is None:
        return "-"
    return f"{figure.value:.2f}" if figure.value < 10 else f"{figure.value:.1f}"
