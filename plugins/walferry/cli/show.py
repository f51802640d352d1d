"""Shows the results of commands: tables that fit the terminal, JSON, and both repeatedly with --watch."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

import click

from walferry.base.texts import lines_only, one_line
from walferry.base.zk.errors import known

WELL: Final = 0
ERROR: Final = 1  # refused or failed
USAGE: Final = 2
STUCK: Final = 3  # stuck or behind: nothing is wrong with the command
INTERRUPTED: Final = 130  # the status that a shell reports for a command that SIGINT ends
READER_GONE: Final = 141  # and for a command that SIGPIPE ends

MAX_CELL_CHARS: Final = 4000
MAX_LINE_CHARS: Final = 1 << 20  # a peer's configuration may be as large as a znode, and is shown as a whole
LEAST_WRAPPED: Final = 24  # columns for the last cell of a table, which may take several lines
_GAP: Final = 2
_INDENT: Final = "  "
_JSON: Final = "walferry.json"  # in the data that all contexts of a call share
GOOD, WARNING, BAD = "green", "yellow", "red"


@dataclass(frozen=True)
class Cell:
    """A cell of a table in a colour."""

    text: str
    colour: str = ""


@dataclass(frozen=True)
class ShownTable:
    """The result of a command. `text` is made when it is shown, for the terminal's width at that time."""

    json: Any
    text: Callable[[], str]
    status: int = WELL
    problems: Sequence[str] = ()  # for stderr


def tell(text: str) -> None:
    """Write a line for people to stderr."""
    click.echo(f"walferry: {lines_only(text)}", err=True)


def remember_json(ctx: click.Context, param: click.Parameter, value: bool) -> bool:
    """Note for `asked_for_json` whether the option --json was given. Returns its value."""
    ctx.meta[_JSON] = value
    return value


def asked_for_json(ctx: click.Context) -> bool:
    """Return whether the command that the context has called was given --json."""
    return bool(ctx.meta.get(_JSON))


def fail(error: Exception, *, as_json: bool) -> int:
    """Say why a command, or a look of one, has failed: to people on stderr, and with `as_json` also to programs on stdout.

    Returns the exit status. Raises an error that is neither Walferry's nor ZooKeeper's.
    """
    text = str(known(error))
    if as_json:
        click.echo(json.dumps({"error": text}))
    tell(text)
    return ERROR


def plain(lines: Iterable[str]) -> list[str]:
    """Return lines of text for a View. Text from a cluster cannot control the terminal, nor look like a line of its own."""
    return [one_line(line, MAX_LINE_CHARS) for line in lines]


def put(text: str) -> None:
    """Write lines to stdout. Text from a cluster in them cannot control the terminal."""
    click.echo(lines_only(text))


def show(look: Callable[[], ShownTable], *, as_json: bool, watch: float | None = None) -> int:
    """Show the result of `look`; with `watch`, every so many seconds until Ctrl-C. Returns the exit status."""
    if watch is None:
        return _show(look(), as_json=as_json)
    status = WELL
    try:
        while True:
            try:
                view = look()
            except Exception as error:
                status = fail(error, as_json=as_json)  # the error may be over the next time
            else:
                status = view.status
                if sys.stdout.isatty():
                    click.clear()
                _show(view, as_json=as_json)
            time.sleep(watch)
            if not as_json and not sys.stdout.isatty():
                click.echo()
    except KeyboardInterrupt:
        return status


def _show(view: ShownTable, *, as_json: bool) -> int:
    click.echo(json.dumps(view.json, default=fields_of) if as_json else view.text())
    for problem in view.problems:
        tell(problem)
    return view.status


def fields_of(value: Any) -> dict[str, Any]:
    """Return a dataclass's values by the names of its fields, for JSON."""
    return {each.name: getattr(value, each.name) for each in fields(value)}


def table(head: Sequence[str], rows: Sequence[Sequence[str | Cell]], right: Sequence[str] = ()) -> str:
    """Return a table as wide as it has to be. Columns named in `right` hold figures.

    On a terminal that is too narrow the last column is wrapped. If that is not enough, each row becomes a block of lines.
    Another program gets each row in one line.
    """
    cells = [[_clean(cell) for cell in row] for row in rows]
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    widths = [max([len(name), *(len(row[i].text) for row in cells)]) for i, name in enumerate(head)]
    before_last = sum(widths[:-1]) + _GAP * (len(head) - 1)
    if width is not None and before_last + min(widths[-1], LEAST_WRAPPED) > width:
        return _blocks(head, cells)
    return _rendered(head, cells, right, width or before_last + widths[-1] + 1)


def _rendered(head: Sequence[str], cells: Sequence[Sequence[Cell]], right: Sequence[str], width: int) -> str:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    shown = Table(box=None, padding=(0, _GAP, 0, 0), pad_edge=False, header_style="bold")
    for name in head:
        shown.add_column(Text(name), justify="right" if name in right else "left", no_wrap=name != head[-1], overflow="fold")
    for row in cells:
        shown.add_row(*(Text(cell.text, style=cell.colour) for cell in row))
    console = Console(file=sys.stdout, width=width, markup=False, highlight=False, emoji=False)
    with console.capture() as captured:
        console.print(shown)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def _blocks(head: Sequence[str], cells: Sequence[Sequence[Cell]]) -> str:
    blocks = []
    for row in cells:
        named = [f"{name}: {cell.text}" for name, cell in zip(head, row, strict=True) if cell.text]
        blocks.append("\n".join([named[0], *(_INDENT + line for line in named[1:])] if named else []))
    return "\n".join(blocks)


def _clean(cell: str | Cell) -> Cell:
    cell = cell if isinstance(cell, Cell) else Cell(cell)
    return Cell(one_line(cell.text, MAX_CELL_CHARS), cell.colour)
