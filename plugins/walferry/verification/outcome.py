"""The figures and samples of a comparison."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from walferry.base.records import Record


class DifferenceKind(enum.StrEnum):
    """How a row differs, under the names of VerifyReplication's counters."""

    MISSING = "ONLY_IN_SOURCE_TABLE_ROWS"
    EXTRA = "ONLY_IN_PEER_TABLE_ROWS"
    DIFFERENT = "CONTENT_DIFFERENT_ROWS"


@dataclass(frozen=True)
class Sample:
    """A row that differs, as text."""

    kind: DifferenceKind
    row: str
    detail: str = ""


@dataclass
class VerificationOutcome(Record):
    """The rows of a range or a table by kind, and samples of rows that differ."""

    table: str
    good: int = 0
    bad: dict[DifferenceKind, int] = field(default_factory=lambda: dict.fromkeys(DifferenceKind, 0))
    samples: list[Sample] = field(default_factory=list)
    pruned: int = 0  # rows found equal by their hashes alone
    in_files: int = 0  # those of them that were not scanned
    scanned_because: str = ""  # why a part's files were not compared, although that was asked for
    recompared: int = 0  # comparisons of rows that differed before
    in_flight: int = 0  # rows that differed at first and were equal later
    repaired: int = 0  # rows that were shipped again and are equal now; they count as good
    seconds: float = 0.0
    problem: str = ""  # why a part could not be compared

    @property
    def bad_rows(self) -> int:
        """All rows that differ."""
        return sum(self.bad.values())


def total_of(table: str, parts: Iterable[VerificationOutcome], samples: int) -> VerificationOutcome:
    """Return the outcome of a table from its ranges' outcomes, with at most `samples` samples of each kind."""
    total = VerificationOutcome(table)
    for part in parts:
        for name in ("good", "pruned", "in_files", "recompared", "in_flight", "repaired"):
            setattr(total, name, getattr(total, name) + getattr(part, name))
        for kind, count in part.bad.items():
            total.bad[kind] += count
        total.problem = total.problem or part.problem
        total.scanned_because = total.scanned_because or part.scanned_because
        total.seconds = max(total.seconds, part.seconds)
        total.samples += part.samples
    total.samples = sampled(total.samples, samples)
    return total


def sampled(samples: Sequence[Sample], of_each_kind: int) -> list[Sample]:
    """Return the first samples of each kind."""
    return [sample for kind in DifferenceKind for sample in [s for s in samples if s.kind is kind][:of_each_kind]]
