"""Compares both sides with HBase's own client, and makes the tables that the demo prints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from embedded.client import GLOBAL, JavaClient

COLUMNS = {  # HBase's metric: what the demo calls it
    "logEditsRead": "entries read",
    "logEditsFiltered": "entries left out",
    "shippedOps": "mutations shipped",
    "shippedCells": "cells shipped",
    "shippedBytes": "bytes shipped",
    "shippedBatches": "requests",
    "completedLogs": "WALs done",
}


def compare(source: JavaClient, peer_cluster: JavaClient, tables: Mapping[str, Mapping[str, int]]) -> tuple[bool, list[str]]:
    """Whether GLOBAL families are the same cell by cell and LOCAL ones empty on the peer cluster, and the result as a table."""
    holds = True
    rows = [("table", "family", "scope", "cells in source", "cells in peer cluster", "outcome")]
    examples: list[str] = []
    for table, scopes in tables.items():
        for family, scope in scopes.items():
            found = source.compare(table, peer_cluster, families=[family])
            as_wanted = found.same and found.left > 0 if scope == GLOBAL else found.right == 0 and found.left > 0
            wanted = "same, cell by cell" if scope == GLOBAL else "not replicated"
            outcome = wanted if as_wanted else f"WRONG: {found.different} cells differ"
            rows.append((table, family, "GLOBAL" if scope == GLOBAL else "LOCAL", f"{found.left:,}", f"{found.right:,}", outcome))
            if not as_wanted:
                holds = False
                examples += [f"  {table}: {example}" for example in found.examples[:5]]
    return holds, [*text_table(rows, right=(3, 4)), *examples]


def shipped(reports: Iterable[tuple[str, Mapping[str, Any]]]) -> list[str]:
    """What batches have shipped and left out, of those that had something to do, by their reports, as pairs of run and report."""
    rows: list[tuple[str, ...]] = [("run", *COLUMNS.values())]
    reasons: list[str] = []
    for run, report in reports:
        totals = report["totals"]
        if any(totals[metric] for metric in COLUMNS):
            rows.append((run, *(f"{totals[metric]:,}" for metric in COLUMNS)))
        reasons += [f"  left out by {run}: {why}" for why in _left_out(totals)]
        reasons += [f"  FAILED in {run}: {reason}" for reason in report["failures"]]
    shown = text_table(rows, right=range(1, len(rows[0]))) if len(rows) > 1 else ["  nothing was left to ship"]
    return [*shown, *reasons]


def _left_out(totals: Mapping[str, Any]) -> Iterable[str]:
    """What was read and not shipped. The demo's edits are left out for one reason only, unless something is wrong."""
    entries, cells = dict(totals["filteredByReason"]), totals["cellsFiltered"]
    local = entries.pop("not_global", 0)
    if local or cells:
        yield f"whole entries: {local:,}; cells of others: {cells:,} (their families are LOCAL, and so are not replicated)"
    yield from (f"{count:,} entries ({reason})" for reason, count in sorted(entries.items()))


def text_table(rows: Sequence[Sequence[str]], *, right: Iterable[int] = ()) -> list[str]:
    """Rows as lines. The first row is the head, and the columns numbered in `right` are aligned to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    to_right = set(right)
    lines = [
        "  ".join(c.rjust(w) if i in to_right else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))).rstrip()
        for row in rows
    ]
    return [f"  {line}" for line in [lines[0], "-" * max(map(len, lines)), *lines[1:]]]
