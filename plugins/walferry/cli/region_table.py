"""A survey of regions as lines for people."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Sequence

from walferry.master.survey import RegionSurvey, SurveyRow

MAX_SHOWN = 20  # regions that a terminal shows
_HEAD = ("STATE", "SECONDS", "REGION", "TABLE")
_INDENT = "    "


def as_table(found: RegionSurvey, terminal: os.terminal_size | None) -> list[str]:
    """Write a survey for people: on a terminal its most urgent rows, wrapped; otherwise all rows, each in one line."""
    lines = [*found.summary(), *found.unknown]
    lines += [f"the WALs of {server}, which is dead, are not split" for server in found.recovering]
    lines += [f"cannot be read: {problem}" for problem in found.problems]
    rows = found.rows if terminal is None else found.rows[:MAX_SHOWN]
    if not rows:
        return lines
    cells = [_HEAD, *map(_cells, rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    head, *told = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in cells]
    lines += ["", head]
    for row, line in zip(rows, told, strict=True):
        text = f"{row.where}: {row.verdict}" if row.where else row.verdict
        lines += [f"{line}  {text}"] if terminal is None else [line, *_wrapped(text, terminal.columns)]
    if len(found.rows) > len(rows):
        lines.append(f"({len(found.rows) - len(rows):,} more regions: send the output through `less` to see all of them)")
    return lines


def _wrapped(text: str, columns: int) -> list[str]:
    return textwrap.wrap(text, columns, initial_indent=_INDENT, subsequent_indent=_INDENT, break_on_hyphens=False)


def _cells(row: SurveyRow) -> Sequence[str]:
    seconds = "-" if row.seconds is None else f"{row.seconds:.0f}"
    return (row.state, seconds, row.region, row.table)
