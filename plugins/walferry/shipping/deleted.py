"""Finds out whether a table or family that the slave lacks is deleted at the source too, so that its edits may be dropped.

With hbase.replication.drop.on.deleted.table or …columnfamily set, HBase asks its own cluster when the slave refuses edits, and
drops those of tables or families that it does not have itself. Walferry drops no others than those that the slave has named,
and none if the source's Master cannot be asked. The edits that an attempt reads were written before it began. So a table that
the source lacks during the attempt is not the one that these edits were written to, even if it is created again later.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from walferry.hbase.cluster import master as active_master
from walferry.hbase.errors import ClusterError, ZNodeValueError
from walferry.rpc import master
from walferry.rpc.errors import RpcError
from walferry.sinks.errors import NotAtSlave
from walferry.source.knobs import Knobs
from walferry.source.session import Session

MASTER_SECONDS = 20.0

log = logging.getLogger(__name__)

Deleted = Mapping[bytes, frozenset[bytes]]
"""Families by table that exist at neither cluster; an empty set is the whole table."""


def with_deleted(known: Deleted, session: Session, knobs: Knobs, missing: NotAtSlave) -> Deleted | None:
    """`known` and what the slave has just been found to lack; None if that exists at the source, or must not be dropped."""
    if not (knobs.drop_deleted_tables if missing.family is None else knobs.drop_deleted_families):
        return None
    try:
        at = active_master(session.zk, session.nodes)
        with master.connect(at, user=session.source.user, timeout=MASTER_SECONDS) as connection:
            families = master.replicated_families(connection, [missing.table]).get(missing.table)
    except (ClusterError, ZNodeValueError, RpcError) as error:
        log.warning("whether the source has table %s cannot be found out: %s", missing.table, error)
        return None
    table = missing.table.encode()
    if missing.family is None:
        return None if families is not None else _told({**known, table: frozenset()}, missing.table)
    if families is None or missing.family in families:  # without its table, HBase does not know which families are gone
        return None
    gone = known.get(table, frozenset()) | {missing.family.encode()}
    return _told({**known, table: gone}, f"{missing.table}, family {missing.family}")


def names_of(deleted: Deleted) -> list[str]:
    """The tables, and the families as `table:family`, sorted."""
    whole = [table for table, families in deleted.items() if not families]
    parts = [table + b":" + family for table, families in deleted.items() for family in families]
    return sorted(name.decode() for name in whole + parts)


def _told(deleted: Deleted, what: str) -> Deleted:
    log.warning("the edits of table %s are dropped: neither the slave nor the source has it", what)
    return deleted
