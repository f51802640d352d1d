"""`python -m walferry regions`: regions in transition of a cluster of HBase 1, and what operators do about them.

What changes something only says what it would do, unless `--yes` is given. Then it acts as the cluster's master until it is done.
"""

from __future__ import annotations

import argparse
import getpass
import json
import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Sequence
from typing import Any

from walferry.regions import requests
from walferry.regions.explain import as_lines, explain
from walferry.regions.looked import Looked, look_and_decide
from walferry.regions.reconcile import LIMIT_SECONDS
from walferry.regions.requests import Request
from walferry.regions.role import check_no_master
from walferry.regions.survey import Row, Survey, survey
from walferry.regions.work import WAIT_SECONDS, Terms, carry_out, cluster_of, unstick_beside
from walferry.source.connection import from_env, from_text
from walferry.source.session import open_session

DONE, LEFT = 0, 1
MAX_SECONDS = 1e6
MAX_PORT = 65535
MAX_SHOWN = 20  # regions that a terminal shows
_HEAD = ("STATE", "SECONDS", "REGION", "TABLE")
_INDENT = "    "
_DONE = "Done"
_HOW = {  # by whether it is beside an HMaster
    False: "this command acts as the cluster's master and does it",
    True: "this command does it beside the HMaster",
}
_ABOUT = """\
Finds and cures regions of a cluster of HBase 1 that are stuck in transition. Begin with `list`, which changes nothing. These
commands are not for HBase 2, which has HBCK2, nor for a cluster whose HMaster works: use HBase's shell there.
"""
_STATUS = """\
Exit status: 0 if it is done, or would be; `list` and `explain`: if nothing is stuck. 1 if the command is refused or fails, or
something is stuck, unknown or needs an operator; 2 for wrong arguments.
"""
_DRY = "It only says what it would do, unless --yes is given."

Ask = Callable[[Looked, argparse.Namespace], Request]


def add_commands(groups: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands of `regions`."""
    about = "regions of a cluster of HBase 1, and their transitions in ZooKeeper"
    commands = groups.add_parser("regions", help=about, description=_ABOUT).add_subparsers(required=True, metavar="command")

    _reading(commands, "list", "list regions that are in transition, that no server serves, or that two servers serve", _list)
    command = _reading(commands, "explain", "tell all that is known of a region, and what comes next", _explain)
    _add_region(command)

    command = _writing(commands, "assign", "open a region that no server serves", _assign)
    _add_region(command)
    command.add_argument("--server", metavar="HOST,PORT,STARTCODE", help="where (default: the balancer chooses)")

    command = _writing(commands, "move", "close a region and open it at another server", _move)
    _add_region(command)
    command.add_argument("server", metavar="HOST,PORT,STARTCODE", help="the server that is to have it")

    text = "bring regions to the end of their transitions; beside an active HMaster, give up opens that it waits for in vain"
    command = _writing(commands, "unstick", text, _unstick)
    command.add_argument("regions", nargs="*", metavar="REGION", help="only these (default: all)")
    command.set_defaults(beside_hmaster=True)

    command = _writing(commands, "close-stray", "close one copy of a region that two servers serve", _close_stray)
    _add_region(command)
    command.add_argument("server", metavar="HOST,PORT,STARTCODE", help="the server whose copy is closed")
    command.add_argument("--named-by-meta", action="store_true", help="close it even if it is the copy that hbase:meta names")

    for name, text, ask in (
        ("enable", "open all regions of a table", _enable),
        ("disable", "close all regions of a table", _disable),
    ):
        command = _writing(commands, name, text, ask)
        command.add_argument("table", metavar="[NAMESPACE:]TABLE")

    _writing(commands, "balance", "move regions until the servers have about as many each", _balance)


def run_reading(parsed: argparse.Namespace) -> int:
    """Look, and print what is found. Returns the exit status."""
    with _session(parsed) as session:
        looked = look_and_decide(cluster_of(session), parsed.limit)
    status: int = parsed.show(looked, parsed)
    return status


def run_writing(parsed: argparse.Namespace) -> int:
    """Say what would be done, or do it. Returns the exit status."""
    told: list[str] = []

    def tell(line: str) -> None:
        told.append(line)
        if not parsed.json:
            print(line, flush=True)

    def ask(looked: Looked) -> Request:
        request: Request = parsed.ask(looked, parsed)
        return request

    with _session(parsed) as session:
        cluster = cluster_of(session)
        looked = look_and_decide(cluster, parsed.limit)
        beside = parsed.beside_hmaster and looked.hmaster is not None
        if not beside:
            check_no_master(session.zk, session.nodes)
        request = ask(looked)  # what is refused is refused before the role is taken
        if request.idle or not parsed.yes:
            for line in filter(None, (*request.lines, request.idle)):
                tell(line)
            _end(parsed, told, "Nothing was done" if request.idle else f"Nothing was done. With --yes {_HOW[beside]}")
            return _for_operator(request) if parsed.yes else DONE
        holder = f"{getpass.getuser()}: regions {parsed.command}"
        terms = Terms(holder, None, parsed.host, parsed.listen, parsed.port, parsed.limit, parsed.wait)
        (unstick_beside if beside else carry_out)(session, ask, terms, tell)
    _end(parsed, told, _DONE)
    return _for_operator(request)


def _for_operator(request: Request) -> int:
    for line in request.for_operator:
        print(f"walferry: this needs an operator: {line}", file=sys.stderr)
    return LEFT if request.for_operator else DONE


def as_table(found: Survey, terminal: os.terminal_size | None) -> list[str]:
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


def _cells(row: Row) -> Sequence[str]:
    seconds = "-" if row.seconds is None else f"{row.seconds:.0f}"
    return (row.state, seconds, row.region, row.table)


def _list(looked: Looked, parsed: argparse.Namespace) -> int:
    found = survey(looked)
    if parsed.json:
        print(json.dumps(found.to_json()))
    else:
        print("\n".join(as_table(found, shutil.get_terminal_size() if sys.stdout.isatty() else None)))
    return DONE if found.well else LEFT


def _explain(looked: Looked, parsed: argparse.Namespace) -> int:
    told: dict[str, Any] = explain(looked, parsed.region)
    print(json.dumps(told) if parsed.json else "\n".join(as_lines(told)))
    return LEFT if told["problems"] or told.get("stuck") else DONE


def _assign(looked: Looked, parsed: argparse.Namespace) -> Request:
    return requests.assign(looked, parsed.region, parsed.server)


def _move(looked: Looked, parsed: argparse.Namespace) -> Request:
    return requests.move(looked, parsed.region, parsed.server)


def _unstick(looked: Looked, parsed: argparse.Namespace) -> Request:
    return requests.unstick(looked, parsed.regions)


def _close_stray(looked: Looked, parsed: argparse.Namespace) -> Request:
    return requests.close_stray(looked, parsed.region, parsed.server, named_by_meta=parsed.named_by_meta)


def _enable(looked: Looked, parsed: argparse.Namespace) -> Request:
    return requests.enable(looked, parsed.table)


def _disable(looked: Looked, parsed: argparse.Namespace) -> Request:
    return requests.disable(looked, parsed.table)


def _balance(looked: Looked, _: argparse.Namespace) -> Request:
    return requests.balance(looked)


def _reading(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, text: str, show: Callable[..., int]
) -> argparse.ArgumentParser:
    command = _command(commands, name, text, f"{text}. It changes nothing.")
    command.set_defaults(main=run_reading, show=show)
    return command


def _writing(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, text: str, ask: Ask
) -> argparse.ArgumentParser:
    command = _command(commands, name, text, f"{text}. {_DRY}")
    command.add_argument("--yes", action="store_true", help="do it; meanwhile the command is the cluster's master")
    command.add_argument("--host", help="the name under which RegionServers reach this machine (default: its full name)")
    command.add_argument("--listen", metavar="ADDRESS", help="the address to listen on (default: that of --host)")
    command.add_argument("--port", type=port, default=0, help="the port to listen on (default: any free one)")
    wait = "give up after this time (default: %(default).0f)"
    command.add_argument("--wait", type=seconds, default=WAIT_SECONDS, metavar="SECONDS", help=wait)
    command.set_defaults(main=run_writing, ask=ask, command=name, beside_hmaster=False)
    return command


def _command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, text: str, about: str
) -> argparse.ArgumentParser:
    command = commands.add_parser(name, help=text, description=about, epilog=_STATUS)
    command.add_argument("--json", action="store_true", help="print one JSON object")
    limit = "how long a live server may take for its own part before it counts as stuck (default: %(default).0f)"
    command.add_argument("--limit", type=seconds, default=LIMIT_SECONDS, metavar="SECONDS", help=limit)
    return command


def _add_region(command: argparse.ArgumentParser) -> None:
    command.add_argument("region", metavar="REGION", help="its encoded name, or its full name as HBase's shell shows it")


def seconds(text: str) -> float:
    """Read a command line's number of seconds."""
    found = float(text)
    if not 0 <= found <= MAX_SECONDS:
        raise argparse.ArgumentTypeError(f"{text} is not a number of seconds")
    return found


def port(text: str) -> int:
    """Read a command line's port."""
    found = int(text)
    if not 0 <= found <= MAX_PORT:
        raise argparse.ArgumentTypeError(f"{text} is not a port")
    return found


def _session(parsed: argparse.Namespace) -> Any:
    source = from_text(parsed.source) if parsed.source else from_env()
    return open_session(source)


def _end(parsed: argparse.Namespace, told: list[str], last: str) -> None:
    if parsed.json:
        print(json.dumps({"done": last == _DONE, "lines": told}))
    else:
        print(last, file=sys.stderr if last == _DONE else sys.stdout)
