"""The results of shipping an interval again: for the log, and for Airflow's database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self

from walferry.base.amounts import count
from walferry.runs.failures import ReportedFailures
from walferry.runs.reports.batch import (
    MAX_GROUPS,
    MAX_REASON_CHARS,
    groups_to_xcom,
    noted,
    refusals,
    table,
    table_of_groups,
    totals_of,
)
from walferry.runs.values import MAX_PROBLEMS, MAX_TEXT_CHARS, Planned, XComValue

if TYPE_CHECKING:  # DAG files import this, and are parsed without kazoo
    from walferry.engine.summary import GroupSummary

FIGURES = ("shippedBatches", "shippedOps", "shippedBytes", "logEditsRead", "completedLogs")
MAX_TABLES = 200  # in the log and in the XCom
COUNTS = ("edits", "cells", "bytes")  # of a table, in the order of a GroupSummary


class ReplayFailed(ReportedFailures):
    """Some edits of the interval were not shipped."""


@dataclass(frozen=True)
class PlannedInterval(XComValue):
    """The WALs of an interval in a few figures, and WALs that are gone or unreadable. `run_id` names the attempt's summaries."""

    run_id: str
    peer: str
    start: int  # ms since the epoch
    end: int
    groups: int
    wals: int
    bytes: int
    problems: Sequence[str] = ()
    problems_left_out: int = 0

    @classmethod
    def of(cls, run_id: str, peer: str, start: int, end: int, *, problems: Sequence[str], **figures: int) -> Self:
        """Return the plan. `start` and `end` are in ms since the epoch. Only some of very many problems are kept."""
        reported = [problem[:MAX_TEXT_CHARS] for problem in problems[:MAX_PROBLEMS]]
        return cls(run_id, peer, start, end, problems=reported, problems_left_out=len(problems) - len(reported), **figures)

    @property
    def interval(self) -> str:
        """The interval in words."""
        start, end = (f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%d %H:%M:%S}" for ms in (self.start, self.end))
        return f"{start} to {end} UTC"

    @property
    def as_batch(self) -> Planned:
        """Return the plan in the form that the log of progress takes."""
        return Planned(self.run_id, self.peer, groups=self.groups, wals=self.wals, bytes=self.bytes)


@dataclass(frozen=True)
class ReplayReport:
    """The report of one run. Without a plan nothing was shipped."""

    plan: PlannedInterval | None
    ship: str | None  # the state of the task
    refusal: str = ""  # why the plan failed
    summaries: Sequence[GroupSummary] = ()
    dry_run: bool = False
    asked: Sequence[str] = ()  # the tables that the run was given

    @property
    def failures(self) -> list[str]:
        """Why this run must end as failed, one reason a line; empty if it has not failed."""
        if self.plan is None:
            return [self.refusal or "plan has failed: see its log; nothing was shipped"]
        undone = [(s, s.error or "clear the task ship, and it goes on") for s in self.summaries if s.status != "done"]
        reasons = [f"{s.group}: {s.status}: {why}"[:MAX_REASON_CHARS] for s, why in undone]
        if not reasons and self.plan.wals and self.ship != "success":
            reasons.append(f"ship is {self.ship}: see the log of the Spark job there")
        return reasons

    @property
    def gone(self) -> list[str]:
        """The WALs that are gone or could not be read, and were left out."""
        return list(self.plan.problems) if self.plan else []

    @property
    def tables(self) -> dict[str, list[int]]:
        """The interval's edits, cells and bytes for the peer, by table."""
        tables: dict[str, list[int]] = {}
        for summary in self.summaries:
            for name, counts in summary.tables.items():
                tables[name] = [a + b for a, b in zip(tables.get(name, [0] * len(COUNTS)), counts, strict=True)]
        return dict(sorted(tables.items(), key=lambda item: -item[1][0])[:MAX_TABLES])

    @property
    def without_edits(self) -> list[str]:
        """The tables that the run was given and found no edits of; they may be misspelt."""
        return [] if self.failures else [name for name in dict.fromkeys(self.asked) if name not in self.tables][:MAX_TABLES]

    @property
    def before_copy(self) -> int:
        """The edits that are older than the peer's initial snapshot of their table, and were left out."""
        return sum(s.editsBeforeCopy for s in self.summaries)

    @property
    def note(self) -> str:
        """Return in a line what was shipped again."""
        what = f"Peer {self.plan.peer}" if self.plan else "Nothing shipped"
        if failures := self.failures:
            return noted(what, failures)
        edits, interval = sum(counts[0] for counts in self.tables.values()), self.plan.interval if self.plan else ""
        return f"{what}: {count(edits, 'edit')} of {interval} {'found by a dry run' if self.dry_run else 'shipped again'}"

    @property
    def totals(self) -> Mapping[str, Any]:
        """The sums over all groups, under the names of HBase's metrics."""
        return totals_of(self.summaries)

    @property
    def _undone_first(self) -> list[GroupSummary]:
        return sorted(self.summaries, key=lambda s: (s.status == "done", s.group))

    def to_xcom(self) -> dict[str, Any]:
        """Return the report for Airflow's database, bounded in size."""
        return {
            "ok": not self.failures,
            "failures": self.failures[:MAX_GROUPS],
            "gone": self.gone,
            "dry_run": self.dry_run,
            "planned": self.plan and self.plan.to_xcom(),
            "tables": {name: dict(zip(COUNTS, counts, strict=True)) for name, counts in self.tables.items()},
            "without_edits": self.without_edits,
            "before_copy": self.before_copy,
            "totals": self.totals,
            **groups_to_xcom(self._undone_first, FIGURES),
        }

    def as_text(self) -> str:
        """Return the report for the log."""
        lines = []
        if self.plan:
            what = "Dry run of" if self.dry_run else "Shipped again to"
            lines += [
                f"{what} peer {self.plan.peer}: {self.plan.interval}",
                f"{self.plan.wals:,} WALs of {self.plan.groups:,} WAL groups, {self.plan.bytes:,} bytes",
            ]
        if tables := self.tables:
            total = [sum(counts[i] for counts in tables.values()) for i in range(len(COUNTS))]
            lines += table([("table", *COUNTS), *((t, *_cells(c)) for t, c in tables.items()), ("all", *_cells(total))], texts=1)
        if self.summaries and not self.dry_run:
            lines += table_of_groups(self._undone_first, FIGURES, self.totals)
        lines += refusals(self.summaries)
        lines += [f"WARNING The interval has no edit of table {name} for the peer" for name in self.without_edits]
        if older := self.before_copy:
            lines.append(f"Left out, as older than the initial snapshot of their tables: {count(older, 'edit')}")
        if self.totals["missingHFiles"]:
            lines.append(f"GONE {self.totals['missingHFiles']:,} HFiles of bulk loads")
        lines += [f"GONE or unreadable, left out: {text}" for text in self.gone]
        if self.plan and self.plan.problems_left_out:
            lines.append(f"… and {self.plan.problems_left_out:,} more")
        return "\n".join([*lines, *(f"FAILED {reason}" for reason in self.failures)])


def _cells(counts: Sequence[int]) -> list[str]:
    return [f"{count:,}" for count in counts]
