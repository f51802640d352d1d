"""`walferry merge`: brings the tables of state of a peer's lake up to date, without Spark."""

from __future__ import annotations

import json
from typing import Any

import click

from walferry.cli import options
from walferry.cli.show import BAD, ERROR, WELL, Cell, ShownTable, plain, show, table, tell
from walferry.cli.source import Chosen

_HEAD = ("TABLE", "CHANGES", "FILES", "CELLS", "PROBLEM")
_STATUS = """\
Exit status: 0 if all tables of state are up to date; 1 if the command is refused or a table cannot be merged; 2 for wrong
arguments.
"""


@click.command(epilog=_STATUS)
@click.argument("peer_id", metavar="PEER")
@click.argument("tables", nargs=-1, metavar="[[NAMESPACE:]TABLE]...")
@options.workers
@options.as_json
@click.pass_obj
def merge(chosen: Chosen, /, peer_id: str, tables: tuple[str, ...], workers: int, as_json: bool) -> int:
    """Bring the tables of state of a peer's lake up to date with its tables of changes.

    Without tables, it merges all tables that have changes in the lake. It does the same as the DAG merge_changes, in processes of
    this machine instead of Spark. Called again, it goes on.
    """
    from walferry.cli.local_ship import run_name
    from walferry.jobs.workers import LocalProcesses
    from walferry.state_tables.merge_run import MergeRun

    run = MergeRun(source=chosen.reached(), peer_id=peer_id, run_id=run_name("merge"), tables=tables)
    done = run.run(LocalProcesses(workers), tell)
    found: list[dict[str, Any]] = json.loads(done.result)
    report = {"peer": peer_id, "ok": not done.failed, "tables": found}
    return show(lambda: ShownTable(report, lambda: _shown(found), ERROR if done.failed else WELL, done.errors), as_json=as_json)


def _shown(found: list[dict[str, Any]]) -> str:
    if not found:
        return "The lake has no table of changes yet. A batch makes it: walferry ship"
    rows = [
        [each["table"], *(f"{each[name]:,}" for name in ("changes", "files", "cells")), Cell(plain([each["problem"]])[0], BAD)]
        for each in found
    ]
    return table(_HEAD, rows, _HEAD[1:4])
