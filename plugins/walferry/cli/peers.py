"""`walferry peers`: shows replication peers of the source, and adds, changes and removes them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import click

from walferry.base.texts import shell_word
from walferry.cli import options
from walferry.cli.options import Parsed, text_of_file
from walferry.cli.show import BAD, ERROR, GOOD, STUCK, WARNING, WELL, Cell, ShownTable, plain, put, show, table
from walferry.cli.source import Chosen

if TYPE_CHECKING:
    from walferry.admin.peers import PeerAdmin
    from walferry.admin.showing import Described, Overview, PeerLine

_HEAD = ("ID", "STATE", "MANAGED", "QUEUES", "WALS", "CLUSTER")


def _tables_of(text: str) -> list[Any]:
    from walferry.admin.tables import parse_tables

    return list(parse_tables(text))


def _value_of(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise ValueError(f"{text!r} is not KEY=VALUE")
    return name.strip(), text_of_file(value[1:]) if value.startswith("@") else value


_TABLES = Parsed("tables", _tables_of)
_VALUE = Parsed("value", _value_of)
_TEXT = Parsed("file", text_of_file)
_TABLES_METAVAR = "[NAMESPACE:]TABLE[=CF,CF]"


@click.group()
def peers() -> None:
    """Replication peers of the source: show, create, change, pause and remove them."""


def _of_peer(name: str | None = None) -> Callable[[Callable[..., int]], click.Command]:
    """Return a decorator for a command on one peer, whose id is the command's first argument."""
    return lambda command: peers.command(name)(click.argument("peer_id", metavar="ID")(click.pass_obj(command)))


@peers.command("list")
@options.shown
def list_peers(chosen: Chosen, as_json: bool, watch: float | None) -> int:
    """List all peers, and show which are managed."""
    from walferry.admin.showing import overview

    def look() -> ShownTable:
        with _admin(chosen) as admin:
            return _view_of_all(overview(admin))

    return show(look, as_json=as_json, watch=watch)


@peers.command("show")
@click.argument("peer_id", metavar="ID")
@options.shown
def show_peer(chosen: Chosen, peer_id: str, as_json: bool, watch: float | None) -> int:
    """Show a peer, its queues and its backlog."""
    from walferry.admin.showing import describe

    def look() -> ShownTable:
        with _admin(chosen) as admin:
            return _view_of(describe(admin, peer_id))

    return show(look, as_json=as_json, watch=watch)


@_of_peer()
@click.option("--cluster-key", metavar="HOST,HOST:PORT:/ZNODE", help="The peer cluster's ZooKeeper.")
@click.option(
    "--lake",
    metavar="CATALOG",
    help="Instead of a peer cluster: a catalog of PyIceberg's configuration, whose tables of changes get the edits.",
)
@click.option(
    "--columns", type=_TEXT, metavar="FILE",
    help="For --lake: which typed columns its tables have beside the bytes, as catalogs of hbase-connectors in JSON.",
)  # fmt: skip
@click.option("--kafka", metavar="HOST:PORT,…", help="Instead of a peer cluster: brokers of Kafka, to which the edits go.")
@click.option("--records", type=click.Choice(["avro", "debezium"]), help="For --kafka: the form of the records; default avro.")
@click.option(
    "--rules", type=_TEXT, metavar="FILE",
    help="For --kafka: which edits go into which topics, as a rules file of HBase's Kafka proxy. Default: a topic a table.",
)  # fmt: skip
@click.option("--namespaces", multiple=True, metavar="NAMESPACE[,…]", help="Replicate only these; may be repeated.")
@click.option(
    "--table-cfs", multiple=True, type=_TABLES, metavar=_TABLES_METAVAR,
    help="Replicate only these, several of them split by semicolons; may be repeated. Also as HBase writes them: TABLE:CF,CF or "
    "{ 'NAMESPACE:TABLE' => ['CF'] }.",
)  # fmt: skip
@click.option("--peer-conn-id", metavar="CONN_ID", help="The connection that says as whom the peer cluster is talked to.")
@options.allow_missing
def create(
    chosen: Chosen, peer_id: str, cluster_key: str | None, lake: str | None, columns: str | None, kafka: str | None,
    records: str | None, rules: str | None, namespaces: tuple[str, ...], table_cfs: tuple[list[Any], ...],
    peer_conn_id: str | None, allow_missing: bool,
) -> int:  # fmt: skip
    """Add a peer that Walferry ships. Without namespaces and tables it gets all user tables."""
    if sum(each is not None for each in (cluster_key, lake, kafka)) != 1:
        raise click.UsageError("one of --cluster-key, --lake and --kafka is required, and no two of them")
    if lake is None and columns is not None:
        raise click.UsageError("--columns is for --lake")
    if kafka is None and (records, rules) != (None, None):
        raise click.UsageError("--records and --rules are for --kafka")
    from walferry.admin.creating import create, meant, to_kafka, to_lake
    from walferry.admin.showing import scope, typed_columns
    from walferry.replication.peers.settings import Records

    goes_to = to_lake(lake, columns or "") if lake is not None else None
    if kafka is not None:
        goes_to = to_kafka(kafka, Records(records or Records.AVRO), rules or "")
    names = [name.strip() for each in namespaces for name in each.split(",")]
    with _admin(chosen) as admin:
        tables = meant(admin, [asked for each in table_cfs for asked in each])
        peer = create(
            admin, peer_id, cluster_key, namespaces=names, table_cfs=tables, peer_conn_id=peer_conn_id, goes_to=goes_to,
            allow_missing=allow_missing,
        )  # fmt: skip
    put(f"peer {peer.id} to {peer.target} is managed by Walferry: all edits from now on are queued for it")
    put(f"it gets edits of {scope(peer)}")
    for line in typed_columns(peer):
        put(line.strip())
    return WELL


@_of_peer("take-over")
def take_over(chosen: Chosen, peer_id: str) -> int:
    """Let Walferry ship an existing DISABLED peer.

    Walferry also ships the peer's queued WALs.
    """
    from walferry.admin.creating import take_over

    with _admin(chosen) as admin:
        peer = take_over(admin, peer_id)
    put(f"peer {peer.id} to {peer.target} is managed by Walferry; never enable it again, hand it back instead")
    return WELL


@_of_peer("hand-back")
@click.option("--to", "new_id", required=True, metavar="NEW_ID", help="Id of the new peer, which HBase is to ship.")
@click.option("--finish", is_flag=True, help="Second step: remove the managed peer once it is drained, and enable the new one.")
def hand_back(chosen: Chosen, peer_id: str, new_id: str, finish: bool) -> int:
    """Let HBase ship again through a new peer, in two steps.

    The first step adds the new peer, DISABLED: its queues collect new edits, and Walferry goes on shipping. The second step ends
    all shipping by Walferry, and then lets HBase ship. Both steps may be repeated.
    """
    from walferry.admin.handing_back import begin_hand_back, finish_hand_back
    from walferry.admin.peers import finish_command

    with _admin(chosen) as admin:
        if finish:
            finish_hand_back(admin, peer_id, new_id)
            put(f"peer {peer_id} is removed, and {new_id} is ENABLED: HBase ships")
            return WELL
        begin_hand_back(admin, peer_id, new_id)
    put(
        f"peer {new_id} is DISABLED, and collects all edits from now on; {peer_id} is shipped as before. Next, let batches "
        f"(with roll) ship the older edits, then {finish_command(peer_id, new_id)} has HBase ship"
    )
    return WELL


@_of_peer()
def pause(chosen: Chosen, peer_id: str) -> int:
    """Ship nothing of a managed peer until it is resumed.

    New edits stay queued. Batches and drains leave the peer alone and end well. A run that ships it now stops within seconds.
    """
    from walferry.admin.changing import pause

    with _admin(chosen) as admin:
        peer = pause(admin, peer_id)
    until = f"walferry peers resume {shell_word(peer.id)}"
    put(f"peer {peer.id} is paused: new edits stay queued, and fill the disk, until `{until}`")
    return WELL


@_of_peer()
def resume(chosen: Chosen, peer_id: str) -> int:
    """Let the next batch ship a paused peer again."""
    from walferry.admin.changing import resume

    with _admin(chosen) as admin:
        peer = resume(admin, peer_id)
    put(f"peer {peer.id} is not paused: the next batch ships its queued edits")
    return WELL


@_of_peer("set")
@click.argument("values", nargs=-1, required=True, type=_VALUE, metavar="KEY=VALUE...")
@options.allow_missing
def set_values(chosen: Chosen, peer_id: str, values: tuple[tuple[str, str], ...], allow_missing: bool) -> int:
    """Change settings of a managed peer, from the next batch on.

    KEY is a setting such as `sink` or `replication.source.ratio`, `max_lag` (seconds that the peer's oldest edit may wait before
    an alert), `bandwidth` (bytes a second), `peer_conn_id` (the connection with the login to the peer cluster), `lake.columns`
    (the mapping of a lake's typed columns), or `namespaces` (split by commas). An empty VALUE stands for the default, and @FILE
    for what the file has.
    """
    from walferry.admin import changing
    from walferry.admin.showing import scope, typed_columns
    from walferry.replication.peers.settings import LAKE_COLUMNS, NAMESPACES, PREFIX

    with _admin(chosen) as admin:
        peer = changing.set_values(admin, peer_id, dict(values), allow_missing=allow_missing)
    settings = changing.settings_of(peer)
    shown = ", ".join(f"{name} = {changing.shown_value(value)}" for name, value in settings.items())
    put(f"peer {peer.id}: {shown or 'it has no settings'}")
    if any(name.removeprefix(PREFIX) == NAMESPACES.name for name, _ in values):
        put(f"it gets edits of {scope(peer)}")
    if any(name.removeprefix(PREFIX) == LAKE_COLUMNS.name for name, _ in values):
        for line in typed_columns(peer):
            put(line.strip())
    return WELL


@_of_peer("set-table-cfs")
@click.argument("tables", nargs=-1, type=_TABLES, metavar=f"[{_TABLES_METAVAR}]...")
@click.option("--all", "everything", is_flag=True, help="All user tables of all namespaces, without exception.")
@options.allow_missing
def set_table_cfs(chosen: Chosen, peer_id: str, tables: tuple[list[Any], ...], everything: bool, allow_missing: bool) -> int:
    """Choose the tables that a managed peer gets.

    These tables replace the present ones from the next batch on. Split several tables by semicolons, as in 'ns:table:cf1,cf2;
    table2'. The new choice also holds for edits that are queued already. The peer's namespaces stay, unless --all is given.
    """
    if everything == bool(tables):
        raise click.UsageError("give the tables, or --all")
    from walferry.admin.changing import set_tables
    from walferry.admin.creating import meant
    from walferry.admin.showing import scope

    with _admin(chosen) as admin:
        names = meant(admin, [asked for each in tables for asked in each])
        peer = set_tables(admin, peer_id, names, [] if everything else None, allow_missing=allow_missing)
    put(f"peer {peer.id} gets edits of {scope(peer)}")
    return WELL


@_of_peer()
@click.option("--drop-backlog", is_flag=True, help="Remove it even if edits in its queues were not shipped.")
def remove(chosen: Chosen, peer_id: str, drop_backlog: bool) -> int:
    """Remove a managed peer."""
    from walferry.admin.removing import remove

    with _admin(chosen) as admin:
        remove(admin, peer_id, drop_backlog=drop_backlog)
    put(f"peer {peer_id} and its queues are removed")
    return WELL


def _admin(chosen: Chosen) -> AbstractContextManager[PeerAdmin]:
    from walferry.admin.peers import peer_admin

    return peer_admin(chosen.reached())


def _view_of_all(found: Overview) -> ShownTable:
    def text() -> str:
        lines = table(_HEAD, [_row(peer) for peer in found.peers], ("QUEUES", "WALS"))
        return "\n".join([lines, *plain(found.unreadable)])

    status = ERROR if found.store_problem else STUCK if found.unreadable else WELL
    return ShownTable(found.to_json(), text, status, [found.store_problem] if found.store_problem else ())


def _row(peer: PeerLine) -> list[str | Cell]:
    managed = Cell("paused", WARNING) if peer.managed and peer.paused else Cell("yes", GOOD) if peer.managed else Cell("no")
    wrong = peer.managed and peer.state != "DISABLED"
    return [peer.id, Cell(peer.state, BAD if wrong else ""), managed, f"{peer.queues:,}", f"{peer.wals:,}", peer.peer_cluster]


def _view_of(found: Described) -> ShownTable:
    wrong = "; ".join(filter(None, (found.stale, found.store_problem)))
    status = ERROR if wrong else STUCK if found.stuck else WELL
    problems = [text for text in (wrong, found.stuck) if text]
    return ShownTable(found.to_json(), lambda: "\n".join(plain(found.lines())), status, problems)
