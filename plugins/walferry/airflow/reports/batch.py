"""What a batch did, as a table for people, as a dict for Airflow, and as a verdict: did anything of it fail?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from walferry.errors import WalferryError

if TYPE_CHECKING:  # the DAG file names BatchFailed, and is parsed without kazoo
    from walferry.shipping.summary import GroupSummary

# GroupSummary's own names, which are those of HBase's metrics.
AGES = ("ageOfLastShippedOp", "replicationLag")
COLUMNS = (
    "shippedBatches",
    "shippedOps",
    "shippedBytes",
    "logEditsRead",
    "logEditsFiltered",
    "completedLogs",
    "sizeOfLogQueue",
    *AGES,
)
FIGURES = (*COLUMNS, "timestampOfNextToReplicate", "slaveSilentSince")  # of a group, for Airflow
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
MAX_GROUPS = 100  # in XCom and in the table; failed ones first
MAX_REASON_CHARS = 500


class BatchFailed(WalferryError):
    """Something of a batch was not shipped; the message says what, and why. Trying its report again would not help."""

    retry_helps = False


def failures(
    plan: Mapping[str, Any], states: Mapping[str, str | None], problems: Sequence[str], summaries: Sequence[GroupSummary]
) -> list[str]:
    """Why this batch must end as failed, one reason a line; empty if it must not.

    `states` are those of the tasks roll and ship; `problems` are what the roll could not do.
    """
    reasons = [*problems]
    if states["roll"] != "success" and not problems:
        reasons.append(f"roll is {states['roll']}: see its log")
    of_groups = [f"{_place(s)}: {s.status}: {s.error}"[:MAX_REASON_CHARS] for s in summaries if s.failed]
    of_groups += [f"{_place(s)}: the Spark job ended in the middle of it" for s in summaries if s.status == "running"]
    if plan["groups"] and states["ship"] != "success" and not of_groups:  # a job in which a group failed has failed
        reasons.append(f"ship is {states['ship']}: see the log of the Spark job there")
    elif plan["groups"] and not summaries:
        reasons.append("the Spark job left no summary")
    told = {s.group for s in summaries}
    of_groups += [f"{p['server']} {p['queue']} {p['group']}: {p['problem']}" for p in plan["problems"] if p["group"] not in told]
    return reasons + of_groups


def as_dict(
    peer_id: str, plan: Mapping[str, Any] | None, reasons: Sequence[str], summaries: Sequence[GroupSummary]
) -> dict[str, Any]:
    """The report for XCom, bounded in size."""
    shown = _failed_first(summaries)
    return {
        "peer": peer_id,
        "ok": not reasons,
        "failures": list(reasons[:MAX_GROUPS]),
        "planned": plan,
        "totals": totals_of(summaries),
        "groups": [{"group": s.group, "status": str(s.status), **{c: _value(s, c) for c in FIGURES}} for s in shown],
        "groups_left_out": len(summaries) - len(shown),
    }


def as_text(peer_id: str, plan: Mapping[str, Any] | None, reasons: Sequence[str], summaries: Sequence[GroupSummary]) -> str:
    """The report for the log."""
    lines = [f"Peer {peer_id}"]
    if plan is not None and not plan["groups"]:
        lines.append("Nothing to ship.")
    if plan is not None and plan["swept"]:
        lines.append(f"{plan['swept']} WALs without edits taken out of the queues.")
    if summaries:
        shown = _failed_first(summaries)
        rows = [(s.group, str(s.status), *(as_cell(c, _value(s, c)) for c in COLUMNS), f"{s.seconds:.1f}") for s in shown]
        totals = totals_of(summaries)
        last = ("all", "", *(as_cell(c, totals[c]) if c in totals else "" for c in COLUMNS), "")
        lines += table([("group", "status", *COLUMNS, "seconds"), *rows, last])
        if totals["quarantinedLogs"]:
            lines.append(f"QUARANTINED {totals['quarantinedLogs']} broken WALs: {totals['skippedBytes']:,} bytes were given up")
        if len(summaries) > len(shown):
            lines.append(f"({len(summaries) - len(shown)} more groups, all in the line of totals)")
        filtered = totals["filteredByReason"]
        lines += [f"logEditsFiltered {reason}: {count:,}" for reason, count in sorted(filtered.items())]
        if totals["shippedHFiles"]:
            lines.append(f"shippedHFiles, of bulk loads: {totals['shippedHFiles']:,}, gone before: {totals['missingHFiles']:,}")
        if totals["cellsFiltered"]:
            lines.append(f"cellsFiltered, of edits that were shipped in part: {totals['cellsFiltered']:,}")
    lines += [f"FAILED {reason}" for reason in reasons]
    return "\n".join(lines)


def _place(s: GroupSummary) -> str:
    return " ".join(part for part in (s.server, s.queue_id, s.group) if part)


def _failed_first(summaries: Sequence[GroupSummary]) -> list[GroupSummary]:
    return sorted(summaries, key=lambda s: (not s.failed, s.group))[:MAX_GROUPS]


def _value(s: GroupSummary, column: str) -> int | None:
    value = getattr(s, column)
    return sum(value.values()) if isinstance(value, Mapping) else value


def totals_of(summaries: Sequence[GroupSummary]) -> dict[str, Any]:
    """The sums over all groups, and the largest of their ages."""
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


def as_cell(column: str, value: int | None) -> str:
    """A figure as a table shows it."""
    if value is None:
        return "-"  # never shipped, or not known, which is not an age of 0
    if column in AGES:
        return str(timedelta(seconds=value // 1000))
    return f"{value:,}"


def table(rows: Sequence[Sequence[str]], texts: int = 2) -> list[str]:
    """Lines of a table; the first row is its head, the last one its totals, the first `texts` columns are no figures."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    formats = [f"{{:<{w}}}" if i < texts else f"{{:>{w}}}" for i, w in enumerate(widths)]
    lines = ["  ".join(formats).format(*row) for row in rows]
    rule = "-" * len(lines[0])
    return [lines[0], rule, *lines[1:-1], rule, lines[-1]]
