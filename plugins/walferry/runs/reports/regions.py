"""What one look at a cluster's regions has found: as text for the log, and as a dict for Airflow, bounded in size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from walferry.base.texts import one_line
from walferry.runs.reports.batch import table

if TYPE_CHECKING:  # DAG files import this, and are parsed without kazoo
    from walferry.master.survey import RegionSurvey, SurveyRow

MAX_ROWS = 200
MAX_SERVERS = 100
MAX_TEXT_CHARS = 500
_HEAD = ("region", "table", "state", "server", "next", "what and why", "seconds")


@dataclass(frozen=True)
class RegionsReport:
    """A survey, and what was done or would be done."""

    survey: RegionSurvey
    lines: Sequence[str] = ()

    def as_text(self) -> str:
        """The report for the log."""
        found = self.survey
        lines = found.summary()
        lines += [f"WARNING {finding.line}" for finding in found.findings[:MAX_ROWS]]
        lines += [f"The WALs of {server}, which is dead, are not split." for server in found.recovering[:MAX_SERVERS]]
        if found.rows:
            shown = [_cells(row) for row in found.rows[:MAX_ROWS]]
            lines += ["", *table([_HEAD, *shown, ("",) * len(_HEAD)], texts=6)[:-2]]
        if len(found.rows) > MAX_ROWS:
            lines.append(f"({len(found.rows) - MAX_ROWS:,} more regions)")
        return "\n".join([*lines, *_lines(self.lines)])

    def to_xcom(self) -> dict[str, Any]:
        """The report for Airflow's database."""
        found, findings = self.survey, self.survey.findings
        return {
            "ok": not findings,
            "findings": [finding.to_json() for finding in findings[:MAX_ROWS]],
            "master": found.master,
            "known": found.known,
            "open": found.open,
            "closed": found.closed,
            "live": list(found.live[:MAX_SERVERS]),
            "recovering": list(found.recovering[:MAX_SERVERS]),
            "regions": [_as_dict(row) for row in found.rows[:MAX_ROWS]],
            "regions_left_out": max(0, len(found.rows) - MAX_ROWS),
            "lines": _lines(self.lines),
        }


def _as_dict(row: SurveyRow) -> dict[str, Any]:
    return {
        "region": row.region, "table": _cut(row.table), "state": row.state, "seconds": row.seconds, "server": row.server,
        "next": row.next, "what": _cut(row.what), "why": _cut(row.why), "stuck": row.stuck,
    }  # fmt: skip


def _cells(row: SurveyRow) -> tuple[str, ...]:
    seconds = "-" if row.seconds is None else f"{row.seconds:,.0f}"
    return (row.region, _cut(row.table), row.state, row.server, row.next, _cut(f"{row.what} ({row.why})"), seconds)


def _lines(lines: Sequence[str]) -> list[str]:
    more = [f"({len(lines) - MAX_ROWS:,} more lines)"] if len(lines) > MAX_ROWS else []
    return [*map(_cut, lines[:MAX_ROWS]), *more]


def _cut(text: str) -> str:
    return one_line(text, MAX_TEXT_CHARS)
