"""Finds out which tables and families that the peer cluster lacks are deleted at the source too: their edits may be dropped.

If the peer cluster refuses edits and hbase.replication.drop.on.deleted.table or …columnfamily is set, HBase asks its own cluster.
It drops the edits of tables or families that its own cluster lacks too. Walferry drops edits only of tables and families that the
peer cluster has named, and drops nothing if the source's Master does not answer.

The Master gives the same answer for a missing table and for a table whose descriptor it cannot read. So a table counts as deleted
only if hbase:meta has no region of it either.

Walferry asks the Master after an attempt has found its WALs. So all edits of the attempt were written before the question. If the
source then lacks the table, none of the edits belong to a later table of the same name.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping

from walferry.base.texts import visible
from walferry.base.zk.errors import ZNodeValueError
from walferry.base.zk.right import Right
from walferry.hbase.cluster import master as active_master
from walferry.hbase.errors import ClusterError
from walferry.hbase.rpc import master
from walferry.hbase.rpc.errors import RpcError
from walferry.hbase.tables.errors import MissingTable, RegionUnavailable, ScanGivenUp
from walferry.hbase.tables.tables import Tables
from walferry.replication.peers.settings import PeerSettings
from walferry.replication.sinks.errors import NotAtPeerCluster
from walferry.replication.source.session import Session

MAX_NAMED_CHARS = 2000
MASTER_SECONDS = 20.0

log = logging.getLogger(__name__)

Missing = tuple[str, str | None]
"""A table, or one of its families, that the peer cluster lacks."""
Deleted = Mapping[bytes, frozenset[bytes]]
"""The deleted families, by table, that neither cluster has; an empty set stands for the whole table."""


def may_be_dropped(settings: PeerSettings, missing: Missing) -> bool:
    """Return whether the settings allow to drop edits of this table or family once the source has deleted it too."""
    _, family = missing
    return settings.drop_deleted_tables if family is None else settings.drop_deleted_families


def attempt_without(settings: PeerSettings, right: Right, attempt: Callable[[Collection[Missing]], None]) -> None:
    """Call `attempt`, and call it again after each missing table or family whose edits the settings allow to drop.

    `attempt` sends by `right`, and gets all tables and families that are known to be missing so far. Raises NotAtPeerCluster if
    the edits must not be dropped, and whatever `attempt` raises.
    """
    missing: list[Missing] = []
    while True:
        try:
            attempt(missing)
            return
        except NotAtPeerCluster as error:
            what = error.table, error.family
            if what in missing or not may_be_dropped(settings, what):
                raise
            missing.append(what)
            right.begin_anew()  # other senders may have had requests under way


def deleted_at_source(session: Session, missing: Collection[Missing]) -> Deleted:
    """Return the `missing` tables and families that the source lacks too; nothing if the source does not answer."""
    if not missing:
        return {}
    try:
        at = active_master(session.zk, session.nodes)
        with master.connect(at, login=session.source.login, timeout=MASTER_SECONDS) as connection:
            there = master.replicated_families(connection, sorted({table for table, _ in missing}))
        gone = [table for table, family in missing if family is None and table not in there and not _has_regions(session, table)]
    except (ClusterError, ZNodeValueError, RpcError, RegionUnavailable, ScanGivenUp) as error:
        log.warning("whether the source has what the peer cluster lacks cannot be found out, so nothing is dropped: %s", error)
        return {}
    deleted = {table.encode(): frozenset[bytes]() for table in gone}
    for table, family in missing:
        # As in HBase: the families of a deleted table are not checked.
        if family is not None and table in there and family not in there[table]:
            deleted[table.encode()] = deleted.get(table.encode(), frozenset()) | {family.encode()}
    if deleted:
        named = visible(", ".join(names_of(deleted)), MAX_NAMED_CHARS)
        log.warning("edits are dropped of what neither the peer cluster nor the source has: %s", named)
    return deleted


def _has_regions(session: Session, table: str) -> bool:
    with Tables(session.zk, session.nodes, login=session.source.login, patience_seconds=MASTER_SECONDS) as tables:
        try:
            tables.regions(table)
        except MissingTable:
            return False
    return True


def names_of(deleted: Deleted) -> list[str]:
    """Return the names of the tables, and of the families as `table:family`, sorted."""
    whole = [table for table, families in deleted.items() if not families]
    parts = [table + b":" + family for table, families in deleted.items() for family in families]
    return sorted(name.decode() for name in whole + parts)
