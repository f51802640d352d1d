"""The results of a verification of one peer: as a table for people, as a dict for Airflow, and as a verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from walferry.base.amounts import count
from walferry.runs.failures import ReportedFailures
from walferry.runs.reports.batch import SKEW_WARNING_MS, clocks_apart, noted, table

if TYPE_CHECKING:  # DAG files import this, and are parsed without kazoo
    from walferry.verification.outcome import VerificationOutcome

# VerifyReplication's own names, and then our own.
KINDS = ("ONLY_IN_SOURCE_TABLE_ROWS", "ONLY_IN_PEER_TABLE_ROWS", "CONTENT_DIFFERENT_ROWS")
REPAIRED_KINDS = ("ONLY_IN_SOURCE_TABLE_ROWS", "CONTENT_DIFFERENT_ROWS")
FIGURES = ("GOODROWS", "BADROWS", *KINDS, "pruned", "in_files", "recompared", "in_flight", "repaired")
SHOWN = ("GOODROWS", "BADROWS", "recompared", "in_flight", "repaired")  # figures of a table, in the log
MAX_TABLES = 100
MAX_SAMPLES = 100
Skews = Mapping[str, Sequence[Mapping[str, Any]]]  # by "source" and "peer_cluster"


class VerificationFailed(ReportedFailures):
    """The two sides differ, or could not be compared."""


@dataclass(frozen=True)
class Repair:
    """How a run's task `repair` has ended, and why nothing was approved; empty if nobody was asked."""

    state: str | None = None
    refusal: str = ""


@dataclass(frozen=True)
class VerificationReport:
    """One peer's part of a run. Without outcomes nothing was compared."""

    peer: str
    outcomes: Sequence[VerificationOutcome] | None
    state: str | None = "success"  # of the task that compares
    clocks: Skews = field(default_factory=dict)
    repair: Repair = Repair()

    @property
    def failures(self) -> list[str]:
        """Why this run must end as failed; empty if it has not failed."""
        if self.outcomes is None:
            return [f"compare is {self.state}: see the log of the Spark job there; nothing was compared"]
        problems = [_with_table(o) for o in self.outcomes if o.problem]
        differing = [f"table {o.table}: {o.bad_rows:,} rows differ" for o in self.outcomes if o.bad_rows]
        failed = ["repair is failed: see the log of the Spark job there"] if self.repair.state == "failed" else []
        if self.state != "success" and not problems:  # the outcomes are those of an earlier try
            failed.append(f"compare is {self.state}: see the log of the Spark job there")
        return problems + failed + differing

    @property
    def skew_ms(self) -> int | None:
        """How many ms the peer cluster's clocks are ahead of the source's, at most; None if that is not known."""
        gaps = [
            theirs["ahead_ms"] - ours["ahead_ms"] for ours in self.clocks.get("source", ())
            for theirs in self.clocks.get("peer_cluster", ())
        ]  # fmt: skip
        return max(gaps, key=abs) if gaps else None

    @property
    def note(self) -> str:
        """Return in a line how the two sides compare."""
        if failures := self.failures:
            return noted(f"Peer {self.peer}", failures)
        return f"Peer {self.peer}: {count(self.totals['GOODROWS'], 'row')} alike in {count(len(self.outcomes or ()), 'table')}"

    @property
    def totals(self) -> dict[str, int]:
        """The sums over all tables."""
        rows = [_figures(outcome) for outcome in self.outcomes or ()]
        return {name: sum(row[name] for row in rows) for name in FIGURES}

    def to_xcom(self) -> dict[str, Any]:
        """Return the report for Airflow's database, bounded in size."""
        outcomes = self.outcomes or ()
        samples = [{"table": o.table, "kind": str(s.kind), "row": s.row, "detail": s.detail} for o in outcomes for s in o.samples]
        return {
            "peer": self.peer,
            "ok": not self.failures,
            "failures": self.failures[:MAX_TABLES],
            "totals": self.totals,
            "tables": [
                {"table": o.table, **_figures(o), "seconds": round(o.seconds, 1), "scanned_because": o.scanned_because}
                for o in outcomes[:MAX_TABLES]
            ],
            "tables_left_out": max(0, len(outcomes) - MAX_TABLES),
            "samples": samples[:MAX_SAMPLES],
            "clocks": {side: list(found) for side, found in self.clocks.items()},
            "peer_cluster_ahead_ms": self.skew_ms,
        }

    def as_text(self) -> str:
        """Return the report for the log."""
        outcomes = self.outcomes or ()
        lines = [f"Peer {self.peer}"]
        if outcomes:
            worst_first = sorted(outcomes, key=lambda o: (not o.problem, -o.bad_rows, o.table))
            rows = [(*_texts(_figures(o)), f"{o.seconds:.1f}", o.table) for o in worst_first]
            lines += table([(*SHOWN, "seconds", "table"), *rows, (*_texts(self.totals), "", "all")], texts=0, names="table")
            lines.append(", ".join(f"{name}: {self.totals[name]:,}" for name in FIGURES if name not in SHOWN))
        elif self.outcomes is not None:
            lines.append("The peer gets no table, so there is nothing to compare.")
        samples = [f"{s.kind} {o.table} {s.row}: {s.detail}" for o in outcomes for s in o.samples]
        lines += [*samples[:MAX_SAMPLES], *file_lines(outcomes), *self._repair_lines(), *self._clock_lines()]
        return "\n".join([*lines, *(f"FAILED {why}" for why in self.failures)])

    def _repair_lines(self) -> list[str]:
        return [f"Nothing is repaired: {self.repair.refusal}."] if self.repair.refusal else []

    def _clock_lines(self) -> list[str]:
        lines = [
            f"Clock of {side} {skew['server']}: {skew['ahead_ms']:+,} ms (±{skew['within_ms']:,}) beside this machine's"
            for side, found in self.clocks.items() for skew in found
        ]  # fmt: skip
        if self.skew_ms is None:
            return [*lines, "How far the clocks of source and peer cluster are apart is not known."]
        if abs(self.skew_ms) >= SKEW_WARNING_MS:
            lines.append(f"WARNING {clocks_apart(abs(self.skew_ms))}")
        return lines


def file_lines(outcomes: Sequence[VerificationOutcome]) -> list[str]:
    """Return why files that were to be compared were not, table by table."""
    return [f"Table {o.table} was scanned, or a part of it: {o.scanned_because}" for o in outcomes if o.scanned_because][
        :MAX_TABLES
    ]


def rows_to_repair(outcomes: Sequence[VerificationOutcome], most: int) -> tuple[list[str], list[str]]:
    """Return the tables with rows that the peer cluster lacks or has differently, and lines that show them; `most` of each."""
    found = {o.table: o for o in outcomes if sum(_figures(o)[kind] for kind in REPAIRED_KINDS)}
    tables = sorted(found)[: most // 2]
    lines = [f"table {table}: {_kinds(_figures(found[table]))}" for table in tables]
    lines += [f"{s.kind} {table} {s.row}: {s.detail}" for table in tables for s in found[table].samples]
    return tables, lines[:most]


def _kinds(figures: Mapping[str, int]) -> str:
    missing, extra, different = (figures[kind] for kind in KINDS)
    left = f"; {count(extra, 'row')} only at the peer cluster, left alone" if extra else ""
    return f"{count(missing, 'row')} missing and {count(different, 'row')} different at the peer cluster, shipped again{left}"


def _with_table(outcome: VerificationOutcome) -> str:
    """Return a table's problem together with the table's name. Most problems name it already."""
    name = f"table {outcome.table}"
    return outcome.problem if name in outcome.problem else f"{name}: {outcome.problem}"


def _texts(figures: Mapping[str, int]) -> list[str]:
    return [f"{figures[name]:,}" for name in SHOWN]


def _figures(outcome: VerificationOutcome) -> dict[str, int]:
    of_kinds = {str(kind): count for kind, count in outcome.bad.items()}
    others = {name: getattr(outcome, name) for name in FIGURES[2 + len(KINDS) :]}
    return {"GOODROWS": outcome.good, "BADROWS": outcome.bad_rows, **{kind: of_kinds[kind] for kind in KINDS}, **others}
