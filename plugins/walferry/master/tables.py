"""Enables and disables tables. Their states are in ZooKeeper, and only this module changes them.

    <base>/table/<table>    value = "PBUF" Table{ state }; a table without a znode is enabled

    ENABLED → DISABLING → DISABLED → ENABLING → ENABLED

The state itself is the request: ENABLING or DISABLING. Each pass takes the next steps from there, and the last pass writes
ENABLED or DISABLED. So the next master, or HBase's own, finishes the work of a master that dies. A change is made at the version
that was read, in one multi with the checks of the master's role.

Source: HBase's ZKTableStateManager, EnableTableHandler, DisableTableHandler (branch-1.4).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

from kazoo.client import KazooClient, TransactionRequest

from walferry.base.errors import WalferryError
from walferry.base.protos import hbase_pb2 as pb
from walferry.base.zk.acls import readable_by_all
from walferry.base.zk.client import NOT_AS_READ, ZNode, expected, read, read_children
from walferry.base.zk.fenced_lock import FencedLock
from walferry.hbase.layout import ZNodes
from walferry.hbase.names import table_text
from walferry.hbase.values import PBUF, decode_message
from walferry.master.calls import CalledServers
from walferry.master.decide import Region
from walferry.master.errors import TableStateChanged, WrongTableState
from walferry.master.plans import Plan
from walferry.master.reconcile import ClusterView, PassOutcome, begin_to_close
from walferry.master.writes import MasterWrites
from walferry.master.znodes import Readings, decoded

DISABLE = Plan(None, False, "the table is disabled")
_META = "hbase:meta"  # is never disabled, whatever its znode says: otherwise no region could be opened


class TableState(IntEnum):
    """The state in a table's znode."""

    ENABLED = 0
    DISABLED = 1
    DISABLING = 2
    ENABLING = 3


_BEFORE = {
    TableState.DISABLING: {TableState.ENABLED, TableState.DISABLING},
    TableState.DISABLED: {TableState.DISABLING},
    TableState.ENABLING: {TableState.DISABLED, TableState.ENABLING},
    TableState.ENABLED: {TableState.ENABLING},
}
WANTED = frozenset({TableState.ENABLED, TableState.ENABLING})  # regions of these tables should be open


@dataclass(frozen=True)
class StoredState:
    """A table's state as read; `version` is None if the table has no znode."""

    state: TableState
    version: int | None


ABSENT = StoredState(TableState.ENABLED, None)


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
    servers: CalledServers,
) -> tuple[list[PassOutcome], dict[str, str]]:
    """Take the next steps of all tables that are being enabled or disabled.

    Returns the steps begun, and the result for each table that is finished or cannot go on. Raises the role's errors.
    """
    begun, reported = [], {}
    regions = _by_table(view)
    unknown = {table_of(known.info) for encoded, known in view.catalog.items() if encoded not in view.regions}
    for table, stored in states.items():
        if table == _META:
            continue
        its = regions.get(table, {})
        if stored.state in (TableState.DISABLING, TableState.DISABLED):  # an open that another master has begun may end later
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
            reported[table] = f"it is {end.name}"
        except WalferryError as error:
            lock.check()
            reported[table] = str(error)
    return begun, reported


def read_states(zk: KazooClient, nodes: ZNodes) -> Readings[StoredState]:
    """Read the states of all tables with a znode, and the errors of unreadable states."""
    return decoded(read_children(zk, nodes.tables), nodes.tables, _stored)


def read_state(zk: KazooClient, nodes: ZNodes, table: str) -> StoredState:
    """Read one table's state. Raises ZNodeValueError."""
    path = nodes.table(table)
    found = read(zk, path)
    return ABSENT if found is None else _stored(found, path)


def _stored(found: ZNode, path: str) -> StoredState:
    return StoredState(TableState(decode_message(pb.Table, found.value, path).state), found.stat.version)


def write_state(nodes: ZNodes, lock: FencedLock, table: str, seen: StoredState, state: TableState) -> None:
    """Change a table's state from `seen`. Raises WrongTableState, TableStateChanged, the role's errors, ConnectError."""
    if seen.state not in _BEFORE[state]:
        raise WrongTableState(table, seen.state.name, state.name)
    value = PBUF + pb.Table(state=state.name).SerializeToString()

    def operations(multi: TransactionRequest) -> None:
        if seen.version is None:
            multi.create(nodes.table(table), value, acl=readable_by_all(multi.client))
        else:
            multi.set_data(nodes.table(table), value, seen.version)

    if expected(lock.write(operations).refusal, *NOT_AS_READ) is not None:
        # A write whose outcome was unknown is repeated, and the next pass sees whether it was carried out.
        raise TableStateChanged(table, state.name)


def table_of(info: pb.RegionInfo) -> str:
    """Return the name of a region's table in the form of the table's znode."""
    return table_text(info.table_name, "replace")


def _by_table(view: ClusterView) -> dict[str, dict[str, Region]]:
    """Return the regions of each table in hbase:meta."""
    found: dict[str, dict[str, Region]] = defaultdict(dict)
    for encoded, known in view.catalog.items():
        if encoded in view.regions:
            found[table_of(known.info)][encoded] = view.regions[encoded]
    return found
