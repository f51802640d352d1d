"""`python -m walferry`: commands for replication peers, WALs and regions. They need neither an HBase shell nor Airflow."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence

from walferry.admin.creating import create, meant
from walferry.admin.handing_back import begin_hand_back, finish_hand_back
from walferry.admin.peers import PeerAdmin, peer_admin
from walferry.admin.removing import remove
from walferry.admin.showing import Told, describe, table
from walferry.admin.tables import Asked, parse_tables
from walferry.admin.taking_over import take_over
from walferry.errors import WalferryError
from walferry.inspection.commands import add_commands as add_wal_commands
from walferry.regions.commands import add_commands as add_region_commands
from walferry.source.connection import from_env, from_text
from walferry.texts import lines_only


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Returns the exit status: 0 for done, 1 for refused, failed or a problem (stderr says which).

    walferry.inspection.commands has the exit status of `wal`, and walferry.regions.commands that of `regions`.
    """
    to_terminal = logging.StreamHandler(sys.stderr)
    to_terminal.setFormatter(_ForTerminal("%(message)s"))
    logging.basicConfig(handlers=[to_terminal], level=logging.INFO)
    logging.getLogger("kazoo").setLevel(logging.WARNING)
    parsed = _parser().parse_args(arguments)
    try:
        status: int = parsed.main(parsed)
    except WalferryError as error:
        print(f"walferry: {lines_only(str(error))}", file=sys.stderr)
        return 1
    return status


class _ForTerminal(logging.Formatter):
    """Keeps what servers and znodes say from controlling the terminal."""

    def format(self, record: logging.LogRecord) -> str:
        return lines_only(super().format(record))


def _peers(parsed: argparse.Namespace) -> int:
    """Run a command for peers. Returns the exit status."""
    source = from_text(parsed.source) if parsed.source else from_env()
    with peer_admin(source) as peers:
        told = parsed.run(peers, parsed)
    told = told if isinstance(told, Told) else Told(told)
    print(told.text)
    if told.problem:
        print(f"walferry: {told.problem}", file=sys.stderr)
    return 1 if told.problem else 0


def _list(peers: PeerAdmin, _: argparse.Namespace) -> Told:
    return table(peers)


def _show(peers: PeerAdmin, parsed: argparse.Namespace) -> Told:
    return describe(peers, parsed.id)


def _create(peers: PeerAdmin, parsed: argparse.Namespace) -> str:
    tables = meant(peers, [asked for argument in parsed.table_cfs for asked in argument])
    peer = create(
        peers,
        parsed.id,
        parsed.cluster_key,
        namespaces=parsed.namespaces,
        table_cfs=tables,
        allow_missing=parsed.allow_missing,
    )
    return f"peer {peer.id} to {peer.cluster_key} is managed by Walferry: what is written from now on is queued for it"


def _take_over(peers: PeerAdmin, parsed: argparse.Namespace) -> str:
    peer = take_over(peers, parsed.id)
    return f"peer {peer.id} to {peer.cluster_key} is managed by Walferry; never enable it again, hand it back instead"


def _hand_back(peers: PeerAdmin, parsed: argparse.Namespace) -> str:
    if parsed.finish:
        finish_hand_back(peers, parsed.id, parsed.to)
        return f"peer {parsed.id} is removed; HBase ships by {parsed.to}"
    begin_hand_back(peers, parsed.id, parsed.to)
    return (
        f"peer {parsed.to} is ENABLED: HBase ships what is written from now on. Next, let batches (with roll) of {parsed.id} "
        f"drain what was queued before, then: peers hand-back {parsed.id} --to {parsed.to} --finish"
    )


def _remove(peers: PeerAdmin, parsed: argparse.Namespace) -> str:
    remove(peers, parsed.id, drop_backlog=parsed.drop_backlog)
    return f"peer {parsed.id} and its queues are removed"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m walferry", description="Walferry's commands for operators")
    parser.add_argument(
        "--source", help="the source cluster, as Airflow's JSON or URI of a connection (default: AIRFLOW_CONN_HBASE_SOURCE)"
    )
    groups = parser.add_subparsers(required=True, metavar="peers|regions|wal")
    add_wal_commands(groups)
    add_region_commands(groups)
    peers = groups.add_parser("peers", help="replication peers of the source")
    peers.set_defaults(main=_peers)
    commands = peers.add_subparsers(required=True, metavar="command")

    command = commands.add_parser("list", help="list all peers and say which are managed")
    command.set_defaults(run=_list)

    command = _with_id(commands, "show", "show a peer's configuration, its queues and what is left to ship")
    command.set_defaults(run=_show)

    command = _with_id(commands, "create", "add a peer that Walferry ships")
    command.add_argument("--cluster-key", required=True, help="the slave's ZooKeeper: host,host:port:/znode")
    command.add_argument("--namespaces", nargs="+", default=[], metavar="NAMESPACE", help="replicate only these")
    command.add_argument(
        "--table-cfs",
        nargs="+",
        default=[],
        type=_tables,
        metavar="[NAMESPACE:]TABLE[=CF,CF]",
        help="replicate only these; also as HBase writes them: TABLE:CF,CF or { 'NAMESPACE:TABLE' => ['CF'] }",
    )
    command.add_argument(
        "--allow-missing",
        action="store_true",
        help="add the peer even if tables, families or namespaces are missing, or the slave is down",
    )
    command.set_defaults(run=_create)

    command = _with_id(commands, "take-over", "let Walferry ship an existing peer that is DISABLED, with its backlog")
    command.set_defaults(run=_take_over)

    command = _with_id(commands, "hand-back", "let HBase ship again through a new peer, in two steps")
    command.add_argument("--to", required=True, metavar="NEW_ID", help="id of the new peer, which HBase ships")
    command.add_argument("--finish", action="store_true", help="second step: remove the managed peer once it is drained")
    command.set_defaults(run=_hand_back)

    command = _with_id(commands, "remove", "remove a managed peer")
    command.add_argument("--drop-backlog", action="store_true", help="remove it even if edits in its queues were not shipped")
    command.set_defaults(run=_remove)
    return parser


def _tables(text: str) -> list[Asked]:
    try:
        return parse_tables(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _with_id(commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, text: str) -> argparse.ArgumentParser:
    command = commands.add_parser(name, help=text, description=text)
    command.add_argument("id", help="the peer's id")
    return command


if __name__ == "__main__":
    sys.exit(main())
