"""Chooses the tables and families of a peer to compare, range by range."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from walferry.base.errors import WalferryError
from walferry.base.protos import hbase_pb2 as pb
from walferry.hbase.binary_text import from_binary_text
from walferry.hbase.cluster import master as active_master
from walferry.hbase.errors import CustomEndpointPeer
from walferry.hbase.names import without_default_namespace
from walferry.hbase.rpc import master
from walferry.hbase.tables.errors import MissingTable
from walferry.hbase.tables.regions import Region
from walferry.hbase.tables.tables import Tables
from walferry.load.copied_tables import has_new_version_behavior
from walferry.replication.filters.rules import PeerTables
from walferry.replication.peers.peer_tables import peer_tables
from walferry.replication.peers.reading import INTER_CLUSTER_ENDPOINTS, Peer, check_understood
from walferry.replication.source.peers import read_peer
from walferry.replication.source.session import Session
from walferry.verification.job import Options, TableRange


class NothingToCompare(WalferryError):
    """The peer does not get a table that was asked for, or the table does not exist."""

    retry_helps = False


class RepairRefused(WalferryError):
    """A repair would harm a table that was asked for."""

    retry_helps = False


@dataclass(frozen=True)
class VerifyPlan:
    """The ranges to compare, and why other tables cannot be compared."""

    peer: Peer
    parts: tuple[TableRange, ...]
    problems: Mapping[str, str] = field(default_factory=dict)  # by table


def plan_verification(session: Session, peer_id: str, asked: Collection[str], options: Options) -> VerifyPlan:
    """Plan one range for each region of the source, for the `asked` tables, or else for all tables that the peer gets.

    Only families with a scope other than 0 are compared, and only if the peer's configuration includes them. The peer may be in
    any state, and need not be Walferry's.

    Raises PeerError, NothingToCompare, RepairRefused, ClusterError, ConnectError, RpcError.
    """
    peer = _comparable(session, peer_id)
    families = _families(session, peer, set(map(without_default_namespace, asked)))
    if peer.lake:
        return _of_lake(session, peer, families, options)
    parts: list[TableRange] = []
    problems: dict[str, str] = {}
    with both_sides(session, peer) as (source, peer_cluster):
        if options.repair:
            _check_both_sides(source, peer_cluster, families)
        for table, names in sorted(families.items()):
            try:
                peer_cluster.regions(table)
                parts += _ranges(table, names, source.regions(table), options)
            except MissingTable as error:
                problems[table] = str(error)
    return VerifyPlan(peer, tuple(parts), problems)


def _of_lake(session: Session, peer: Peer, families: Mapping[str, tuple[bytes, ...]], options: Options) -> VerifyPlan:
    """Plan ranges whose rows are compared with a lake's tables of state. Raises NothingToCompare, LakeError, and as above."""
    if asked := [name for name in ("repair", "from_files", "deleted") if getattr(options, name)]:
        raise NothingToCompare(
            f"peer {peer.id} goes to {peer.target}, and {asked[0]} is for peers with a peer cluster", f"Leave out {asked[0]}"
        )
    from walferry.shipping.lake.catalog import Lake  # these need PyIceberg, which not everybody has
    from walferry.state_tables.reading import StateFiles

    lake, parts, problems = Lake.of(session, peer, peer.lake or ""), list[TableRange](), dict[str, str]()
    with Tables(session.zk, session.nodes, login=session.source.login) as source:
        for table, names in sorted(families.items()):
            try:
                state = StateFiles.of(lake, table)
                ranges = _ranges(table, names, source.regions(table), options)
            except WalferryError as error:
                problems[table] = str(error)
            else:
                parts += (replace(part, state=state.within(part.start, part.stop)) for part in ranges)
    return VerifyPlan(peer, tuple(parts), problems)


def check_repair(session: Session, peer_id: str, asked: Collection[str]) -> None:
    """Raise what stands against a repair of the asked tables, or else of all, without planning ranges. Raises as above."""
    peer = _comparable(session, peer_id)
    families = _families(session, peer, set(map(without_default_namespace, asked)))
    with both_sides(session, peer) as (source, peer_cluster):
        _check_both_sides(source, peer_cluster, families)


def _comparable(session: Session, peer_id: str) -> Peer:
    peer = read_peer(session, peer_id)
    if peer.endpoint_impl not in INTER_CLUSTER_ENDPOINTS:
        raise CustomEndpointPeer(peer_id, f"it has the endpoint {peer.endpoint_impl}", "Only HBase clusters can be compared")
    check_understood(peer)
    return peer


@contextmanager
def both_sides(session: Session, peer: Peer) -> Iterator[tuple[Tables, Tables]]:
    """Connect to the tables of source and peer cluster while the block runs."""
    with (
        peer_tables(peer, session.source.login_to(peer)) as peer_cluster,
        Tables(session.zk, session.nodes, login=session.source.login) as source,
    ):
        yield source, peer_cluster


def _check_both_sides(source: Tables, peer_cluster: Tables, families: Mapping[str, Collection[bytes]]) -> None:
    check_repairable(_schemas(source, families), families)
    check_repairable(_schemas(peer_cluster, families), families, " at the peer cluster")


def check_repairable(schemas: Mapping[str, pb.TableSchema], families: Mapping[str, Collection[bytes]], where: str = "") -> None:
    """Refuse families whose rows cannot be shipped again from a scan, on either side. Raises RepairRefused."""
    for table, schema in sorted(schemas.items()):
        for family in schema.column_families:
            if family.name in families.get(table, ()) and has_new_version_behavior(family):
                raise RepairRefused(
                    f"family {family.name.decode(errors='replace')} of table {table}{where} has NEW_VERSION_BEHAVIOR, so a "
                    "repair could hide puts behind older deletes",
                    "Name the other tables, or compare this one without a repair",
                )


def _schemas(side: Tables, tables: Collection[str]) -> dict[str, pb.TableSchema]:
    with master.connect(active_master(side.zk, side.nodes), login=side.login) as connection:
        return master.table_schemas(connection, sorted(tables))


def _families(session: Session, peer: Peer, asked: Collection[str]) -> dict[str, tuple[bytes, ...]]:
    """Return the families of each table that the peer gets. Raises NothingToCompare if it gets none of an asked table."""
    with master.connect(active_master(session.zk, session.nodes), login=session.source.login) as connection:
        known = master.replicated_families(connection, asked or None)
    choice = PeerTables.of_peer(peer)
    wanted = {
        table: tuple(
            family for text, replicated in sorted(families.items())
            if replicated and choice.wants(table.encode(), family := from_binary_text(text))
        )
        for table, families in known.items()
    }  # fmt: skip
    for table in sorted(asked):
        if table not in known:
            raise NothingToCompare(f"table {table} does not exist at the source")
        if choice.only_rows_of(table.encode()):
            raise NothingToCompare(f"a filter of peer {peer.id} chooses rows of table {table}", "Name the other tables")
        if not wanted[table]:
            raise NothingToCompare(
                f"peer {peer.id} gets no family of table {table}",
                "A family needs REPLICATION_SCOPE => 1, and the peer's configuration must not leave it out",
            )
    return {table: families for table, families in wanted.items() if families and not choice.only_rows_of(table.encode())}


def _ranges(table: str, families: tuple[bytes, ...], regions: Collection[Region], options: Options) -> list[TableRange]:
    """Return the ranges between the regions' borders, within the rows that the options ask for."""
    borders = sorted({region.start for region in regions if region.start > options.start_row} - {b""})
    if options.stop_row:
        borders = [border for border in borders if border < options.stop_row]
    starts, stops = [options.start_row, *borders], [*borders, options.stop_row]
    return [TableRange(table, families, start, stop) for start, stop in zip(starts, stops, strict=True)]
