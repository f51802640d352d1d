"""Finds out which tables and families that the slave lacks are deleted at the source too, so that their edits may be dropped.

With hbase.replication.drop.on.deleted.table or …columnfamily set, HBase asks its own cluster when the slave refuses edits, and
drops those of tables or families that it does not have itself. Walferry drops no others than those that the slave has named, and
none if the source's Master cannot be asked.

The Master answers for a table whose descriptor it cannot read as for one that it does not have. So a table counts as deleted only
if it has no region in hbase:meta either.

The Master is asked after an attempt has found its WALs. So all edits of the attempt were written before, and if the source then
lacks the table, none of them belong to a table that was created again under its name.
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
from walferry.replication.sinks.errors import NotAtSlave
from walferry.replication.source.session import Session

MAX_NAMED_CHARS = 2000
MASTER_SECONDS = 20.0

log = logging.getLogger(__name__)

Missing = tuple[str, str | None]
"""A table, or one of its families, that the slave lacks."""
Deleted = Mapping[bytes, frozenset[bytes]]
"""Families by table that exist at neither cluster; an empty set is the whole table."""


def may_be_dropped(settings: PeerSettings, missing: Missing) -> bool:
    """Whether the settings say that edits of such a table or family are dropped, if it is deleted at the source too."""
    _, family = missing
    return settings.drop_deleted_tables if family is None else settings.drop_deleted_families


def attempt_without(settings: PeerSettings, right: Right, attempt: Callable[[Collection[Missing]], None]) -> None:
    """Call `attempt`, and again for each table or family that the slave lacks and that the settings allow to drop.

    It is given all of these that are known so far, and sends by `right`.

    Raises what it raises, and NotAtSlave for what must not be dropped.
    """
    missing: list[Missing] = []
    while True:
        try:
            attempt(missing)
            return
        except NotAtSlave as error:
            what = error.table, error.family
            if what in missing or not may_be_dropped(settings, what):
                raise
            missing.append(what)
            right.begin_anew()  # other senders may have had requests under way


def deleted_at_source(session: Session, missing: Collection[Missing]) -> Deleted:
    """Those of the tables and families that the slave lacks which the source has no more; none if it cannot be asked."""
    if not missing:
        return {}
    try:
        at = active_master(session.zk, session.nodes)
        with master.connect(at, login=session.source.login, timeout=MASTER_SECONDS) as connection:
            there = master.replicated_families(connection, sorted({table for table, _ in missing}))
        in_meta = {table for table, family in missing if family is None and table not in there and _has_regions(session, table)}
    except (ClusterError, ZNodeValueError, RpcError, RegionUnavailable, ScanGivenUp) as error:
        log.warning("whether the source has what the slave lacks cannot be found out, so nothing is dropped: %s", error)
        return {}
    deleted: dict[bytes, frozenset[bytes]] = {}
    for table, family in missing:
        if family is None and table not in there and table not in in_meta:
            deleted[table.encode()] = frozenset()
    for table, family in missing:
        # As in HBase, a table that is gone does not tell which of its families are.
        if family is not None and table in there and family not in there[table]:
            deleted[table.encode()] = deleted.get(table.encode(), frozenset()) | {family.encode()}
    if deleted:
        named = visible(", ".join(names_of(deleted)), MAX_NAMED_CHARS)
        log.warning("edits are dropped of what neither the slave nor the source has: %s", named)
    return deleted


def _has_regions(session: Session, table: str) -> bool:
    with Tables(session.zk, session.nodes, login=session.source.login, patience_seconds=MASTER_SECONDS) as tables:
        try:
            tables.regions(table)
        except MissingTable:
            return False
    return True


def names_of(deleted: Deleted) -> list[str]:
    """The tables, and the families as `table:family`, sorted."""
    whole = [table for table, families in deleted.items() if not families]
    parts = [table + b":" + family for table, families in deleted.items() for family in families]
    return sorted(name.decode() for name in whole + parts)
