"""`walferry check`: shows what works, what does not, and what to do about it."""

from __future__ import annotations

import click

from walferry.cli import options
from walferry.cli.show import BAD, GOOD, STUCK, WARNING, WELL, Cell, ShownTable, show, table
from walferry.cli.source import CONNECT_SECONDS, Chosen, connect_server

_HEAD = ("", "WHAT", "FINDING")
_COLOURS = {"well": GOOD, "note": WARNING, "wrong": BAD}
_STATUS = "Exit status: 0 if nothing is wrong; 2 for wrong arguments; 3 if something is wrong."


@click.command(epilog=_STATUS)
@click.argument("peer_ids", nargs=-1, metavar="[PEER]...")
@click.option("--upgrade", is_flag=True, help="Also check what the next step of an upgrade from HBase 2 to 3 needs.")
@click.option("--connect-conn-id", metavar="ID", help="Also run a small job on the Spark Connect server of this connection.")
@options.shown
def check(
    chosen: Chosen, peer_ids: tuple[str, ...], upgrade: bool, connect_conn_id: str | None, as_json: bool, watch: float | None
) -> int:
    """Look through everything for a source and its peers, from the files of the logins to the queues.

    Of the source, it checks keytab, ticket and certificates, ZooKeeper, Walferry's own root there, each RegionServer, the Master,
    ADMIN, and the folders of WALs. Of these peers, or of all managed peers, it checks the configuration, the peer cluster's
    logins and servers, WRITE, tables and families there, and queues. If no peer is named, it also checks dead servers' queues,
    and queues and peers that are not shipped by any run. Each line says what works, or what does not and what to do. A failure
    with the cause of an earlier line is left out. The command changes nothing.
    """

    def look() -> ShownTable:
        from walferry.admin.diagnosis.source import check
        from walferry.admin.diagnosis.spark import connect_server_findings

        findings = list(check(chosen.read(), peer_ids, CONNECT_SECONDS, upgrade=upgrade))
        if connect_conn_id is not None:
            findings += connect_server_findings(lambda: connect_server(connect_conn_id))
        wrong = any(each.severity == "wrong" for each in findings)
        rows = [(Cell(str(each.severity), _COLOURS[each.severity]), each.what, each.sentence) for each in findings]
        found = {"well": not wrong, "findings": [each.to_json() for each in findings]}
        return ShownTable(found, lambda: table(_HEAD, rows), STUCK if wrong else WELL)

    return show(look, as_json=as_json, watch=watch)
