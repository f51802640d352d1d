"""`walferry regions`: shows regions in transition of a cluster of HBase 1, and changes them for operators.

A command that changes something only shows what it would do, unless `--yes` is given. With `--yes` it acts as the cluster's
master until it is done.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from walferry.base.users import user_name
from walferry.cli import options
from walferry.cli.options import PORT, SECONDS
from walferry.cli.show import STUCK, WELL, ShownTable, plain, put, show, tell
from walferry.cli.source import Chosen

if TYPE_CHECKING:  # importing numba takes too long for `--help`
    from walferry.master.requests import OperatorRequest
    from walferry.master.snapshot import ClusterSnapshot
    from walferry.master.survey import RegionSurvey, SurveyRow

LIMIT_SECONDS = 600.0
WAIT_SECONDS = 600.0
_DONE = "Done"
_HOW = {  # the key: whether the command acts next to an HMaster
    False: "this command acts as the cluster's master and does it",
    True: "this command does it beside the HMaster",
}
_STATUS = """\
Exit status: 0 if it is done, or would be; `list` and `explain`: if nothing is stuck. 1 if the command is refused or fails; 2 for
wrong arguments; 3 if something is stuck, unknown or needs an operator.
"""
_SERVER = "HOST,PORT,STARTCODE"
MAX_SHOWN = 20  # regions that a terminal shows
_TABLE_HEAD = ("STATE", "SECONDS", "REGION", "TABLE")
_INDENT = "    "


_LIMITED = options.added(
    options.as_json,
    click.option(
        "--limit", type=SECONDS, default=LIMIT_SECONDS, show_default=True, metavar="SECONDS",
        help="How long a live server may take for its own part before it counts as stuck.",
    ),
)  # fmt: skip
_SHOWN = options.added(_LIMITED, options.watch, click.pass_obj)
_WRITES = options.added(  # for commands that change something
    _LIMITED,
    click.option("--yes", is_flag=True, help="Do it; meanwhile the command is the cluster's master."),
    click.option("--host", help="The name under which RegionServers reach this machine (default: its full name)."),
    click.option("--listen", metavar="ADDRESS", help="The address to listen on (default: that of --host)."),
    click.option("--port", type=PORT, default=0, help="The port to listen on (default: any free one)."),
    click.option(
        "--wait", type=SECONDS, default=WAIT_SECONDS, show_default=True, metavar="SECONDS", help="Give up after this time."
    ),
)


@click.group()
def regions() -> None:
    """Regions of HBase 1 and their transitions.

    These commands find and cure regions of a cluster of HBase 1 that are stuck in transition. Begin with `list`, which changes
    nothing. They are not for HBase 2, which has HBCK2, nor for a cluster whose HMaster works: use HBase's shell there.
    """


@regions.command("list", epilog=_STATUS)
@_SHOWN
def list_regions(chosen: Chosen, limit: float, as_json: bool, watch: float | None) -> int:
    """List regions in transition or in trouble.

    A region is in trouble if no server serves it, or two do. The command changes nothing.
    """
    from walferry.master.survey import survey

    def look() -> ShownTable:
        found = survey(_look(chosen, limit))
        terminal = shutil.get_terminal_size() if sys.stdout.isatty() else None
        return ShownTable(found, lambda: "\n".join(plain(as_table(found, terminal))), WELL if found.well else STUCK)

    return show(look, as_json=as_json, watch=watch)


@regions.command(epilog=_STATUS)
@click.argument("region")
@_SHOWN
def explain(chosen: Chosen, region: str, limit: float, as_json: bool, watch: float | None) -> int:
    """Show all that is known of a region.

    It also shows what comes next, and changes nothing. REGION is the encoded name, or the full name as HBase's shell shows it.
    """
    from walferry.master.explain import as_lines
    from walferry.master.explain import explain as report_of

    def look() -> ShownTable:
        reported: dict[str, Any] = report_of(_look(chosen, limit), region)
        status = STUCK if reported["problems"] or reported.get("stuck") else WELL
        return ShownTable(reported, lambda: "\n".join(plain(as_lines(reported))), status)

    return show(look, as_json=as_json, watch=watch)


def _changing(name: str, *given: Callable[[Any], Any]) -> Callable[[Callable[..., int]], click.Command]:
    """Return a decorator for a command that changes something, with the `given` arguments and options."""
    return lambda command: regions.command(name, epilog=_STATUS)(options.added(*given, _WRITES)(click.pass_obj(command)))


@_changing(
    "assign", click.argument("region"), click.option("--server", metavar=_SERVER, help="Where (default: the balancer chooses)."),
)  # fmt: skip
def assign(chosen: Chosen, region: str, server: str | None, **how: Any) -> int:
    """Open a region that no server serves. Without --yes it only shows what it would do."""
    return _write(chosen, how, "assign", region, server)


@_changing("move", click.argument("region"), click.argument("server", metavar=_SERVER))
def move(chosen: Chosen, region: str, server: str, **how: Any) -> int:
    """Close a region and open it at another server. Without --yes it only shows what it would do."""
    return _write(chosen, how, "move", region, server)


@_changing("unstick", click.argument("regions", nargs=-1, metavar="[REGION]..."))
def unstick(chosen: Chosen, regions: tuple[str, ...], **how: Any) -> int:
    """Bring regions to the end of their transitions.

    Without arguments, it does so for all regions. Next to an active HMaster it gives up opens that the HMaster waits for in vain.
    Without --yes it only shows what it would do.
    """
    return _write(chosen, how, "unstick", regions, beside_hmaster=True)


@_changing(
    "close-copy", click.argument("region"), click.argument("server", metavar=_SERVER),
    click.option("--named-by-meta", is_flag=True, help="Close it even if it is the copy that hbase:meta names."),
)  # fmt: skip
def close_copy(chosen: Chosen, region: str, server: str, named_by_meta: bool, **how: Any) -> int:
    """Close a copy of a region that two servers serve.

    It closes the copy on SERVER. Without --yes it only shows what it would do.
    """
    return _write(chosen, how, "close-copy", region, server, named_by_meta=named_by_meta)


@_changing("enable", click.argument("table", metavar="[NAMESPACE:]TABLE"))
def enable(chosen: Chosen, table: str, **how: Any) -> int:
    """Open all regions of a table. Without --yes it only shows what it would do."""
    return _write(chosen, how, "enable", table)


@_changing("disable", click.argument("table", metavar="[NAMESPACE:]TABLE"))
def disable(chosen: Chosen, table: str, **how: Any) -> int:
    """Close all regions of a table. Without --yes it only shows what it would do."""
    return _write(chosen, how, "disable", table)


@_changing("balance")
def balance(chosen: Chosen, **how: Any) -> int:
    """Move regions until all servers have about the same number. Without --yes it only shows what it would do."""
    return _write(chosen, how, "balance")


def _look(chosen: Chosen, limit: float) -> ClusterSnapshot:
    from walferry.master import snapshot, work
    from walferry.replication.source.session import open_session

    with open_session(chosen.reached()) as session:
        return snapshot.look_and_decide(work.cluster_of(session), limit)


def _write(chosen: Chosen, how: dict[str, Any], command: str, *asked: Any, beside_hmaster: bool = False, **more: Any) -> int:
    """Show what would be done, or do it: the request that the command names, with these arguments. Returns the exit status."""
    from walferry.master import requests, role, snapshot, work
    from walferry.replication.source.session import open_session

    reported: list[str] = []
    request_of = getattr(requests, command.replace("-", "_"))

    def ask(snapshot: ClusterSnapshot) -> OperatorRequest:
        request: OperatorRequest = request_of(snapshot, *asked, **more)
        return request

    def say(line: str) -> None:
        reported.append(line)
        if not how["as_json"]:
            put(line)

    with open_session(chosen.reached()) as session:
        seen = snapshot.look_and_decide(work.cluster_of(session), how["limit"])
        beside = beside_hmaster and seen.hmaster is not None
        if not beside:
            role.check_no_master(session.zk, session.nodes)
        request = ask(seen)  # a refusal comes before the role is taken
        if request.idle or not how["yes"]:
            for line in filter(None, (*request.lines, request.idle)):
                say(line)
            _end(reported, "Nothing was done" if request.idle else f"Nothing was done. With --yes {_HOW[beside]}", how["as_json"])
            return _for_operator(request) if how["yes"] else WELL
        holder = f"{user_name()}: regions {command}"
        terms = work.WorkTerms(holder, None, how["host"], how["listen"], how["port"], how["limit"], how["wait"])
        (work.unstick_beside if beside else work.carry_out)(session, ask, terms, say)
    _end(reported, _DONE, how["as_json"])
    return _for_operator(request)


def _for_operator(request: OperatorRequest) -> int:
    for line in request.for_operator:
        tell(f"this needs an operator: {line}")
    return STUCK if request.for_operator else WELL


def _end(reported: list[str], last: str, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({"done": last == _DONE, "lines": reported}))
    else:
        click.echo(last, err=last == _DONE)


def as_table(found: RegionSurvey, terminal: os.terminal_size | None) -> list[str]:
    """Write a survey for people: on a terminal its most urgent rows, wrapped; otherwise all rows, each in one line."""
    lines = [*found.summary(), *found.unknown]
    lines += [f"the WALs of {server}, which is dead, are not split" for server in found.recovering]
    lines += [f"cannot be read: {problem}" for problem in found.problems]
    rows = found.rows if terminal is None else found.rows[:MAX_SHOWN]
    if not rows:
        return lines
    cells = [_TABLE_HEAD, *map(_row, rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    head, *reported = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in cells]
    lines += ["", head]
    for row, line in zip(rows, reported, strict=True):
        text = f"{row.where}: {row.verdict}" if row.where else row.verdict
        lines += [f"{line}  {text}"] if terminal is None else [line, *_wrapped(text, terminal.columns)]
    if len(found.rows) > len(rows):
        lines.append(f"({len(found.rows) - len(rows):,} more regions: send the output through `less` to see all of them)")
    return lines


def _wrapped(text: str, columns: int) -> list[str]:
    return textwrap.wrap(text, columns, initial_indent=_INDENT, subsequent_indent=_INDENT, break_on_hyphens=False)


def _row(row: SurveyRow) -> Sequence[str]:
    seconds = "-" if row.seconds is None else f"{row.seconds:.0f}"
    return (row.state, seconds, row.region, row.table)
