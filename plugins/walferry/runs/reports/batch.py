"""The results of a batch for one peer: as a table for people, as a dict for Airflow, and as a verdict on failures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from walferry.base.amounts import count, size
from walferry.runs.failures import MAX_NOTE_CHARS, ReportedFailures
from walferry.runs.values import Planned

if TYPE_CHECKING:  # DAG files import this, and are parsed without kazoo
    from walferry.engine.summary import GroupSummary

# GroupSummary's own names, which are also the names of HBase's metrics.
AGES = ("ageOfLastShippedOp", "replicationLag")
SHOWN = ("shippedOps", "shippedBytes", "completedLogs", "sizeOfLogQueue", "replicationLag")  # figures of a group, in the log
BESIDE = ("shippedBatches", "logEditsRead", "logEditsFiltered", "ageOfLastShippedOp")  # figures of all groups, in the log
FIGURES = (  # figures of a group, for Airflow
    "shippedBatches", "shippedOps", "shippedBytes", "logEditsRead", "logEditsFiltered", "completedLogs", "sizeOfLogQueue", *AGES,
    "timestampOfNextToReplicate", "sinkSilentSince",
)  # fmt: skip
TOTALS = (
    "shippedBatches",
    "failedBatches",
    "shippedOps",
    "shippedCells",
    "shippedBytes",
    "shippedHFiles",
    "missingHFiles",
    "logEditsRead",
    "logReadInBytes",
    "cellsFiltered",
    "unreadCells",
)
TOTALS_OF_QUEUES = (
    "completedLogs",
    "uncleanlyClosedLogs",
    "ignoredUncleanlyClosedLogContentsInBytes",
    "quarantinedLogs",
    "skippedBytes",
    "sizeOfLogQueue",
    "bytesToShip",
    "bytesDone",
)
MAX_GROUPS = 100  # in XCom; failed ones first
MAX_ROWS = 20  # of a table in the log
MAX_REASON_CHARS = 500
SKEW_WARNING_MS = 1000
MAX_AGE_SECONDS = 10**12  # in the table: an edit's write time is any number in its WAL


class BatchFailed(ReportedFailures):
    """A batch did not ship everything."""


@dataclass(frozen=True)
class Steps:
    """How the steps before the report have ended, and their messages for it."""

    plan: str | None = "success"  # states of the tasks
    ship: str | None = "success"
    roll: str | None = "success"
    refusal: str = ""  # why the plan failed
    unrolled: Sequence[str] = ()  # the servers that did not roll, and why
    roll_warnings: Sequence[str] = ()  # what the rolls lead to
    left_to: str = ""  # which other run ships the peer, or why none does
    peer_down: str = ""  # why no job was started
    by_spark_submit: str = ""  # why the Spark Connect server did not run the job
    shipped_by: str = ""  # the peer whose job has made this peer's files, too
    ahead_ms: int = 0  # the peer cluster's clocks are ahead of the source's by more than this; 0: not known, or not apart


@dataclass(frozen=True)
class BatchReport:
    """One peer's part of a run. Without a plan nothing was shipped."""

    peer: str
    plan: Planned | None
    steps: Steps = field(default_factory=Steps)
    summaries: Sequence[GroupSummary] = ()
    now: int | None = None  # ms since the epoch, for the age of a backlog that no job has read

    @property
    def left_to(self) -> str:
        """Which other run ships the peer, or why none does; empty if this one did."""
        return self.steps.left_to or (self.plan.left_to if self.plan else "")

    @property
    def warnings(self) -> list[str]:
        """What users should look at although nothing has failed."""
        apart = abs(self.steps.ahead_ms)
        return [*self.steps.roll_warnings, *([clocks_apart(apart)] if apart >= SKEW_WARNING_MS else [])]

    @property
    def failures(self) -> list[str]:
        """Why this batch must end as failed, one reason a line; empty if it has not failed."""
        if self.plan is None:
            return [self.steps.refusal or f"plan is {self.steps.plan}: see its log; nothing was shipped"]
        reasons = [*self.steps.unrolled]
        if self.steps.roll != "success" and not reasons:
            reasons.append(f"roll is {self.steps.roll}: see its log")
        if self.left_to:
            return reasons
        of_groups = [f"{_place(s)}: {s.status}: {s.error}"[:MAX_REASON_CHARS] for s in self.summaries if s.failed]
        of_groups += [f"{_place(s)}: the Spark job ended in the middle of it" for s in self.summaries if s.status == "running"]
        if self.steps.peer_down:
            reasons.append(f"{self.steps.peer_down}; {self._backlog} wait for the next batch")
        elif self.plan.groups and self.steps.ship != "success" and not of_groups:  # a failed group fails its job
            reasons.append(f"ship is {self.steps.ship}: see the log of the Spark job there")
        elif self.plan.groups and not self.summaries:
            reasons.append("the Spark job left no summary")
        reported = {s.group for s in self.summaries}
        return reasons + of_groups + [str(problem) for problem in self.plan.problems if problem.group not in reported]

    @property
    def note(self) -> str:
        """The peer's outcome in a line; empty if there was nothing to do."""
        if failures := self.failures:
            return noted(f"Peer {self.peer}", failures)
        if self.left_to or self.plan is None or not self.plan.groups:
            return ""
        done = self.totals
        text = f"Peer {self.peer}: {count(done['shippedOps'], 'edit')} shipped, {size(done['shippedBytes'])}"
        return text + (f"; {count(done['sizeOfLogQueue'], 'WAL')} left" if done["sizeOfLogQueue"] else "")

    @property
    def totals(self) -> dict[str, Any]:
        """The sums over all groups. If no job was started, they contain the backlog as it was planned."""
        totals = totals_of(self.summaries)
        if self.plan is None or not self.steps.peer_down:
            return totals
        oldest = self.plan.oldest
        age = None if oldest is None or self.now is None else max(0, self.now - oldest)
        backlog = {"sizeOfLogQueue": self.plan.wals, "bytesToShip": self.plan.bytes}
        return {**totals, **backlog, "replicationLag": age, "timestampOfNextToReplicate": oldest}

    def to_xcom(self) -> dict[str, Any]:
        """Return the report for Airflow's database, bounded in size."""
        return {
            "peer": self.peer,
            "ok": not self.failures,
            "failures": self.failures[:MAX_GROUPS],
            "warnings": self.warnings,
            "left_to": self.left_to,
            "by_spark_submit": self.steps.by_spark_submit,
            "shipped_by": self.steps.shipped_by,
            "not_loaded": [why[:MAX_REASON_CHARS] for why in not_loaded(self.summaries)[:MAX_GROUPS]],
            "planned": self.plan and self.plan.to_xcom(),
            "totals": self.totals,
            **groups_to_xcom(_failed_first(self.summaries), FIGURES),
        }

    def as_text(self) -> str:
        """Return the report for the log: the main figures first, in lines that fit a window. Long names come last in a line."""
        lines = [f"Peer {self.peer}"]
        if self.left_to:
            lines.append(f"Not shipped by this run: {self.left_to}.")
        elif self.plan is not None and not self.plan.groups:
            lines.append("Nothing to ship.")
        if self.steps.by_spark_submit:
            lines.append(f"Shipped through spark-submit: {self.steps.by_spark_submit}")
        if self.steps.shipped_by:
            lines.append(f"Files made by the job of peer {self.steps.shipped_by}.")
        if self.plan is not None and self.plan.dequeued:
            lines.append(f"{self.plan.dequeued} WALs without edits taken out of the queues.")
        if self.summaries:
            lines += self._table()
        elif self.steps.peer_down:
            lag = as_cell("replicationLag", self.totals["replicationLag"])
            lines.append(f"Backlog: {self._backlog}, replicationLag {lag}.")
        lines += [f"WARNING {warning}" for warning in self.warnings]
        return "\n".join([*lines, *(f"FAILED {reason}" for reason in self.failures)])

    @property
    def _backlog(self) -> str:
        return f"{self.plan.wals:,} WALs with at least {self.plan.bytes:,} bytes" if self.plan else ""

    def _table(self) -> list[str]:
        totals = self.totals
        lines = table_of_groups(_failed_first(self.summaries), SHOWN, totals)
        lines.append(", ".join(f"{c}: {as_cell(c, totals[c])}" for c in BESIDE))
        if totals["quarantinedLogs"]:
            lines.append(f"QUARANTINED {totals['quarantinedLogs']} broken WALs: {totals['skippedBytes']:,} bytes were given up")
        lines += [f"logEditsFiltered {reason}: {count:,}" for reason, count in sorted(totals["filteredByReason"].items())]
        if deleted := sorted({name for s in self.summaries for name in s.deletedAtBoth}):
            lines.append(f"DROPPED the edits of what neither cluster has any more: {', '.join(deleted)[:MAX_REASON_CHARS]}")
        lines += [f"WAITING {s.group}: {s.error}"[:MAX_REASON_CHARS] for s in self.summaries if s.status == "waiting"][:MAX_ROWS]
        lines += refusals(self.summaries)
        if totals["shippedHFiles"]:
            lines.append(f"shippedHFiles, of bulk loads: {totals['shippedHFiles']:,}, gone before: {totals['missingHFiles']:,}")
        if totals["unreadCells"]:
            lines.append(
                f"UNREAD typed columns of {totals['unreadCells']:,} cells, whose bytes are there: the column `unread` names them"
            )
        if totals["cellsFiltered"]:
            lines.append(f"cellsFiltered, of edits that were shipped in part: {totals['cellsFiltered']:,}")
        return lines


def clocks_apart(ms: int) -> str:
    """Return the warning of clocks that are so far apart."""
    return (
        f"The clocks of source and peer cluster are {ms:,} ms apart: timestamps that the two clusters give cannot be compared. "
        "Check NTP on the RegionServers"
    )


def noted(what: str, failures: Sequence[str]) -> str:
    """Return the line of a failure for the run's note."""
    more = f" (and {len(failures) - 1:,} more)" if len(failures) > 1 else ""
    text = f"{what}: {failures[0]}"
    left = MAX_NOTE_CHARS - len(more)
    return (text if len(text) <= left else f"{text[: left - 1].rstrip()}…") + more


def _place(s: GroupSummary) -> str:
    return " ".join(part for part in (s.server, s.queue_id, s.group) if part)


def _failed_first(summaries: Sequence[GroupSummary]) -> list[GroupSummary]:
    return sorted(summaries, key=lambda s: (not s.failed, s.group))


def _value(s: GroupSummary, column: str) -> int | None:
    value = getattr(s, column)
    return sum(value.values()) if isinstance(value, Mapping) else value


def totals_of(summaries: Sequence[GroupSummary]) -> dict[str, Any]:
    """Return the sums over all groups, and the largest of their ages."""
    by_reason: Counter[str] = Counter()
    for s in summaries:
        by_reason.update(s.logEditsFiltered)
    totals: dict[str, Any] = {c: sum(_value(s, c) or 0 for s in summaries) for c in (*TOTALS, *TOTALS_OF_QUEUES)}
    ages = {c: [age for s in summaries if (age := getattr(s, c)) is not None] for c in AGES}
    oldest = [s.timestampOfNextToReplicate for s in summaries if s.timestampOfNextToReplicate is not None]
    return {
        **totals,
        "logEditsFiltered": sum(by_reason.values()),
        "filteredByReason": dict(by_reason),
        **{c: max(found) if found else None for c, found in ages.items()},
        "timestampOfNextToReplicate": min(oldest) if oldest else None,
    }


def refusals(summaries: Sequence[GroupSummary]) -> list[str]:
    """Return lines on a peer cluster that refuses writes to its regions, on groups loaded as files, and on edits that could not
    be."""
    refused = next((s.directRefused for s in summaries if s.directRefused), None)
    line = f"The peer cluster refuses sink=direct, so its RegionServers got the edits to replicate: {refused}"
    loaded = sum(s.sink == "hfiles" for s in summaries)
    files = f"Loaded as files, to their ends: {loaded:,} of {len(summaries):,} WAL groups"
    not_all = [f"Not all was loaded as files: {why}" for why in not_loaded(summaries)]
    return [reported[:MAX_REASON_CHARS] for reported in (*([line] if refused else ()), *([files] if loaded else ()), *not_all)]


def not_loaded(summaries: Sequence[GroupSummary]) -> list[str]:
    """Return why some edits were sent by requests, in runs that load files."""
    return sorted({s.notLoaded for s in summaries if s.notLoaded})


def as_cell(column: str, value: int | None) -> str:
    """Return a figure as a table shows it."""
    if value is None:
        return "-"  # never shipped, or not known: neither is an age of 0
    if column in AGES:
        return str(timedelta(seconds=min(value // 1000, MAX_AGE_SECONDS)))
    return f"{value:,}"


def groups_to_xcom(summaries: Sequence[GroupSummary], figures: Sequence[str]) -> dict[str, Any]:
    """Return the first groups with some of their figures, and how many are left out."""
    rows = [
        {"group": s.group, "status": str(s.status), "sink": s.sink, **{c: _value(s, c) for c in figures}}
        for s in summaries[:MAX_GROUPS]
    ]
    return {"groups": rows, "groups_left_out": len(summaries) - len(rows)}


def table_of_groups(summaries: Sequence[GroupSummary], figures: Sequence[str], totals: Mapping[str, Any]) -> list[str]:
    """Return the lines of a table of the first groups with some of their figures, and of the totals."""
    rows = [(str(s.status), *(as_cell(c, _value(s, c)) for c in figures), s.group) for s in summaries]
    last = ("", *(as_cell(c, totals[c]) for c in figures), "all")
    return table([("status", *figures, "group"), *rows, last], texts=1, names="WAL group")


def table(rows: Sequence[Sequence[str]], texts: int = 2, *, names: str = "") -> list[str]:
    """Return the lines of a table. Its first row is the head, its last row the totals, and its first `texts` columns are not
    figures.

    With `names`, which says what the rows are, the last column also holds text: long names there do not push the figures out of a
    window. Then only the first rows are shown, and a line counts the others.
    """
    more = len(rows) - 2 - MAX_ROWS if names else 0
    shown = [*rows[: MAX_ROWS + 1], rows[-1]] if more > 0 else rows
    widths = [max(len(row[i]) for row in shown) for i in range(len(rows[0]))]
    left = {*range(texts), *([len(widths) - 1] if names else [])}
    formats = [f"{{:<{w}}}" if i in left else f"{{:>{w}}}" for i, w in enumerate(widths)]
    lines = ["  ".join(formats).format(*row).rstrip() for row in shown]
    rule = "-" * max(map(len, lines))
    reported = f"({count(more, f'more {names}')}, all in the line of totals; the report as JSON has the first {MAX_GROUPS})"
    return [lines[0], rule, *lines[1:-1], rule, lines[-1], *([reported] if more > 0 else [])]
