"""`walferry check` and `walferry doctor`: what is wrong, and what to do about it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from walferry.cli import options
from walferry.cli.show import BAD, GOOD, STUCK, WARNING, WELL, Cell, ShownTable, show, table
from walferry.cli.source import CONNECT_SECONDS, Chosen

if TYPE_CHECKING:
    from walferry.admin.diagnosis.findings import Finding

_HEAD = ("", "WHAT", "FINDING")
_COLOURS = {"well": GOOD, "note": WARNING, "wrong": BAD}
_STATUS = """\
Exit status: 0 if nothing is wrong; 1 if the source cannot be looked at; 2 for wrong arguments; 3 if something is wrong.
"""


@click.command(epilog=_STATUS)
@click.argument("peer_ids", nargs=-1, metavar="[PEER]...")
@options.as_json
@options.watch
@click.pass_obj
def check(chosen: Chosen, peer_ids: tuple[str, ...], as_json: bool, watch: float | None) -> int:
    """Tell whether peers can be shipped, from the files of the logins to the last right.

    Of the source: keytab, ticket and certificates, ZooKeeper, each RegionServer, the Master, ADMIN, the folders of WALs. Of these
    peers, or of all that are managed: the same of the slave, WRITE, the peer's configuration, its tables and families there, and
    its queues. A line each: what works, what does not, and what to do. It changes nothing.
    """

    def look() -> ShownTable:
        from walferry.admin.diagnosis.connections import check_connections

        return _view(list(check_connections(chosen.read(), peer_ids, CONNECT_SECONDS)))

    return show(look, as_json=as_json, watch=watch)


@click.command(epilog=_STATUS)
@options.as_json
@options.watch
@click.pass_obj
def doctor(chosen: Chosen, as_json: bool, watch: float | None) -> int:
    """Look through everything for a source.

    ZooKeeper, Walferry's own root in it, the Master, each RegionServer, the folders of WALs, the queues, each managed peer as
    `check` does, and queues that nobody ships. A line each: what works, what does not, and what to do.
    """

    def look() -> ShownTable:
        from walferry.admin.diagnosis.source import diagnose
        from walferry.replication.source.session import open_session

        with open_session(chosen.reached(), look_only=True) as session:
            return _view(list(diagnose(session)))

    return show(look, as_json=as_json, watch=watch)


def _view(findings: Sequence[Finding]) -> ShownTable:
    cells: list[list[str | Cell]] = [
        [Cell(str(each.state), _COLOURS[each.state]), each.what, f"{each.text}. {each.advice}" if each.advice else each.text]
        for each in findings
    ]
    wrong = any(each.state == "wrong" for each in findings)
    found = {"well": not wrong, "findings": [each.to_json() for each in findings]}
    return ShownTable(found, lambda: table(_HEAD, cells), STUCK if wrong else WELL)
