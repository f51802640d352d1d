"""Detects whether a table of the source has been replaced by another one. The events that do this are in no WAL.

A table is disabled before it is truncated, dropped or restored from a snapshot, and the Master writes down its state each time:

    hbase:meta, row <table>, table:state                HBase 2: the cell's timestamp (TableStateManager)
    <znode parent>/table/<table>                        HBase 1: when it was made and last set (ZKTableStateManager)

So a table that was only disabled and enabled again counts as another one, too. Regions show less: a split looks like a
truncation, and a restored table may have the same regions as before. HBase 2.6 can truncate a single region without disabling its
table (`truncate_region`); this is not detected.
"""

from __future__ import annotations

from collections.abc import Collection

from walferry.base.zk.client import read_all
from walferry.hbase.rpc.errors import RemoteError
from walferry.hbase.tables.regions import META
from walferry.hbase.tables.scan import ScanSpec
from walferry.hbase.tables.tables import Tables
from walferry.hbase.wal.cells import split_cells
from walferry.replication.source.session import Session

_FAMILY = b"table"
_STATE = (_FAMILY, b"state")


def lives(session: Session, names: Collection[str]) -> dict[str, str]:
    """Return a text for each of the source's tables that differs for each life of the table; no text for deleted tables.

    hbase:meta is read once. Raises RegionUnavailable, ScanGivenUp, RpcError, ConnectError.
    """
    with Tables(session.zk, session.nodes, login=session.source.login) as tables:
        try:
            found = _in_meta(tables)
        except RemoteError as error:
            if error.class_name.rpartition(".")[2] != "NoSuchColumnFamilyException":
                raise
            found = _in_zookeeper(session, sorted(names))
    return {name: found[name] for name in names if name in found}


def _in_meta(tables: Tables) -> dict[str, str]:
    found = {}
    for block in tables.scan(META, ScanSpec(families=(_FAMILY,))):
        for i in range(len(block)):
            times = [cell.timestamp for cell in split_cells(block.row(i)) if cell.column == _STATE]
            if times:
                found[block.key(i).decode(errors="replace")] = str(max(times))
    return found


def _in_zookeeper(session: Session, names: list[str]) -> dict[str, str]:
    znodes = read_all(session.zk, [session.nodes.table(name) for name in names])
    stats = {name: znode.stat for name, znode in zip(names, znodes, strict=True) if znode is not None}
    return {name: f"{stat.czxid}-{stat.mzxid}" for name, stat in stats.items()}
