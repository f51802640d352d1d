"""Checks whether edits can arrive at the peer cluster: it answers, is another cluster, and has the tables and families."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from walferry.admin.peers import PeerAdmin, Refused
from walferry.admin.tables import missing, missing_at_source, missing_of_all, table_name
from walferry.base.errors import WalferryError
from walferry.base.zk.client import connected
from walferry.hbase.cluster import cluster_id
from walferry.hbase.cluster import master as active_master
from walferry.hbase.cluster_key import parse_cluster_key
from walferry.hbase.layout import ZNodes
from walferry.hbase.rpc import master
from walferry.hbase.rpc.connection import Connection
from walferry.replication.filters.rules import PeerTables
from walferry.replication.peers.reading import DISABLED, Peer, peer_cluster_of
from walferry.replication.sinks.of_peer import target_answers
from walferry.replication.source.peers import peer_ids, read_peers

CONNECT_SECONDS = 10.0  # a command at a terminal does not wait longer for a peer cluster's ZooKeeper
MAX_REPORTED = 20
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Wanted:
    """The edits that a peer is to get, and its peer cluster. Without namespaces and tables it gets all user tables."""

    id: str
    cluster_key: str
    namespaces: Sequence[str] = ()
    table_cfs: Mapping[str, Sequence[str]] = field(default_factory=dict)
    peer_conn_id: str | None = None
    goes_to: Mapping[str, str] = field(default_factory=dict)  # the settings that lead the edits elsewhere, not to a cluster

    @property
    def all(self) -> bool:
        """Whether the peer gets all user tables."""
        return not self.namespaces and not self.table_cfs

    def by_namespace(self, table: str, _: str) -> bool:
        """Return whether the peer gets the table because of its namespace."""
        return self.all or table_name(table)[0] in self.namespaces


def check_ends(admin: PeerAdmin, wanted: Wanted, *, allow_missing: bool) -> None:
    """Raise Refused if edits would not arrive. With `allow_missing` the reasons are only logged."""
    try:
        problems = _problems_of_source(admin, wanted) if wanted.goes_to else problems_at_ends(admin, wanted)
    except Refused:
        raise
    except WalferryError as error:
        problems = [f"whether edits can arrive at {wanted.cluster_key} cannot be found out: {error}"]
    _refuse(
        problems,
        "Correct it and try again; with --allow-missing it is done all the same, and edits that have no place at the peer "
        "cluster wait in the peer's queues",
        allow_missing=allow_missing,
    )


def _refuse(problems: Sequence[str], advice: str, *, allow_missing: bool) -> None:
    """Raise Refused if there are problems. With `allow_missing` they are only logged."""
    if problems and not allow_missing:
        raise Refused("; ".join(problems), advice)
    for problem in problems:
        log.warning("%s", problem)


def check_mapped(admin: PeerAdmin, peer: Peer, *, allow_missing: bool) -> None:
    """Raise Refused if typed columns of a peer's lake would never be filled. With `allow_missing` the reasons are only logged.

    Raises PeerError if the mapping makes no sense, WalferryError if the source does not answer.
    """
    families = {
        table: sorted({column.family.decode() for column in mapping.columns}) for table, mapping in peer.lake_columns.items()
    }
    if not families:
        return
    tables = PeerTables.of_peer(peer)
    problems = [
        f"the mapping of table {table}: peer {peer.id} gets no edits of {table}{f':{family}' if family else ''}"
        for table, each in families.items()
        for family in each or [""]
        if not (tables.wants(table.encode(), family.encode()) if family else tables.has(table.encode()))
    ]
    with admin.master() as source:
        problems += [f"the mapping of table {table}: {line}" for table, each in families.items()
                     for line in missing_at_source(source, (), {table: each})]  # fmt: skip
    advice = "Correct the mapping; with --allow-missing it is taken all the same, and such columns stay null"
    _refuse(problems[:MAX_REPORTED], advice, allow_missing=allow_missing)


def _problems_of_source(admin: PeerAdmin, wanted: Wanted) -> list[str]:
    tables = {table: tuple(families) for table, families in wanted.table_cfs.items()}
    peer = Peer(
        wanted.id, wanted.cluster_key, DISABLED, wanted.goes_to, replicate_all=wanted.all,
        namespaces=frozenset(wanted.namespaces), table_cfs=tables or None,
    )  # fmt: skip
    with admin.master() as source:
        problems = missing_at_source(source, wanted.namespaces, wanted.table_cfs)[:MAX_REPORTED]
        problems += _fed_twice(admin, source, peer)[:MAX_REPORTED]
    if not problems and peer.kafka:
        try:
            target_answers(peer, admin.session.source)
        except WalferryError as error:
            problems.append(str(error))
    return problems


def _fed_twice(admin: PeerAdmin, source: Connection, peer: Peer) -> list[str]:
    """Return which tables of a lake another peer feeds, too. Raises RpcError, StorageError."""
    if not peer.lake or not peer_ids(admin.session):  # the cluster may never have had a peer
        return []
    found = read_peers(admin.session).peers
    others = [each for each in found if each.managed and each.id != peer.id and each.lake == peer.lake]
    if not others:
        return []
    mine, names = PeerTables.of_peer(peer), [name.encode() for name in master.replicated_families(source)]
    problems = []
    for other in others:
        theirs = PeerTables.of_peer(other)
        if both := sorted(name.decode() for name in names if mine.has(name) and theirs.has(name)):
            more = f" and {len(both) - 1:,} other tables" if len(both) > 1 else ""
            problems.append(
                f"peer {other.id} feeds {peer.target} with edits of {both[0]}{more}, too: they would be there twice, and no "
                "state could be made of them"
            )
    return problems


def problems_at_ends(admin: PeerAdmin, wanted: Wanted, wants: Callable[[str, str], bool] | None = None) -> list[str]:
    """Return why edits would not arrive, a bounded number of reasons.

    `wants(table, family)` says whether the peer gets a family; the default is `wanted`. Raises Refused if the cluster key leads
    to the source itself, WalferryError if the source or the peer cluster does not answer.
    """
    key = parse_cluster_key(wanted.cluster_key)
    nodes = ZNodes(key.znode_parent)
    login = admin.session.source.login_at(wanted.cluster_key, wanted.peer_conn_id)
    with connected(key.connect_string, CONNECT_SECONDS, peer_cluster_of(wanted.id, key), login) as zk:
        if cluster_id(zk, nodes) == cluster_id(admin.session.zk, admin.session.nodes):
            raise Refused(f"the cluster key {wanted.cluster_key} leads to the source cluster itself", "Correct it")
        with admin.master() as source, master.connect(active_master(zk, nodes), login=login) as peer_cluster:
            problems = missing(source, peer_cluster, wanted.namespaces, wanted.table_cfs)
            if wanted.all or wanted.namespaces:
                found = missing_of_all(source, peer_cluster, wants or wanted.by_namespace)
                problems += [problem for problem in found if problem not in problems]
    more = len(problems) - MAX_REPORTED
    return [*problems[:MAX_REPORTED], f"and {more:,} more of this kind"] if more > 0 else problems
