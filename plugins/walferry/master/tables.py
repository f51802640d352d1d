"""Enables and disables tables.

The table's state in ZooKeeper is the request: ENABLING or DISABLING. From it each pass takes the next steps, and at the end it
writes ENABLED or DISABLED. So a master that dies leaves nothing that the next one, or HBase's own, does not finish.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from kazoo.client import KazooClient

from walferry.base.errors import WalferryError
from walferry.base.zk.fenced_lock import FencedLock
from walferry.hbase.layout import ZNodes
from walferry.master.catalog import table_of
from walferry.master.closing import begin_to_close
from walferry.master.decide import Region
from walferry.master.plans import Plan
from walferry.master.reconcile import ClusterView, PassOutcome, RegionServers
from walferry.master.table_states import StoredState, TableState, read_state, write_state
from walferry.master.writes import MasterWrites

DISABLE = Plan(None, False, "the table is disabled")
_META = "hbase:meta"  # is never disabled, whatever a znode says: no other region could be opened then


def enable(zk: KazooClient, nodes: ZNodes, lock: FencedLock, table: str) -> None:
    """Ask for a table's regions to be opened. Raises WrongTableState, TableStateChanged, the role's errors, ConnectError."""
    write_state(nodes, lock, table, read_state(zk, nodes, table), TableState.ENABLING)


def disable(zk: KazooClient, nodes: ZNodes, lock: FencedLock, table: str) -> None:
    """Ask for a table's regions to be closed. Raises WrongTableState, TableStateChanged, the role's errors, ConnectError."""
    write_state(nodes, lock, table, read_state(zk, nodes, table), TableState.DISABLING)


def advance(
    view: ClusterView,
    states: Mapping[str, StoredState],
    nodes: ZNodes,
    lock: FencedLock,
    writes: MasterWrites,
    servers: RegionServers,
) -> tuple[list[PassOutcome], dict[str, str]]:
    """Take the next steps of all tables that are being enabled or disabled.

    Returns what was begun, and what came of each table that has reached its end or cannot go on. Raises the role's errors.
    """
    begun, told = [], {}
    regions = _by_table(view)
    unknown = {table_of(known.info) for encoded, known in view.catalog.items() if encoded not in view.regions}
    for table, stored in states.items():
        if table == _META:
            continue
        its = regions.get(table, {})
        if stored.state in (TableState.DISABLING, TableState.DISABLED):  # another master may have left an open that ends later
            closable = [name for name, region in its.items() if region.served_by and region.znode is None]
            begun += begin_to_close(view, dict.fromkeys(closable, DISABLE), writes, servers)
        if stored.state is TableState.DISABLING:
            done = not view.silent and not any(region.served_by or region.znode for region in its.values())
            end = TableState.DISABLED
        elif stored.state is TableState.ENABLING:
            done = all(len(region.served_by) == 1 and region.znode is None for region in its.values())
            end = TableState.ENABLED
        else:
            continue
        if not done or table in unknown:  # a region's znode cannot be read
            continue
        try:
            write_state(nodes, lock, table, stored, end)
            told[table] = f"it is {end.name}"
        except WalferryError as error:
            lock.check()
            told[table] = str(error)
    return begun, told


def _by_table(view: ClusterView) -> dict[str, dict[str, Region]]:
    """The regions of each table that hbase:meta has."""
    found: dict[str, dict[str, Region]] = defaultdict(dict)
    for encoded, known in view.catalog.items():
        if encoded in view.regions:
            found[table_of(known.info)][encoded] = view.regions[encoded]
    return found
