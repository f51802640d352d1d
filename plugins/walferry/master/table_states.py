"""The states of tables in ZooKeeper, and the only way to change them.

    <base>/table/<table>    value = "PBUF" Table{ state }; a table without a znode is enabled

    ENABLED → DISABLING → DISABLED → ENABLING → ENABLED

A change is made at the version that was read, in one multi with the checks of the master's role.

Source: HBase's ZKTableStateManager, EnableTableHandler, DisableTableHandler (branch-1.4).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from kazoo.client import KazooClient, TransactionRequest

from walferry.base.protos import hbase_pb2 as pb
from walferry.base.zk.acls import readable_by_all
from walferry.base.zk.client import expected, read, read_children
from walferry.base.zk.errors import ZNodeValueError
from walferry.base.zk.fenced_lock import FencedLock
from walferry.hbase.layout import ZNodes
from walferry.hbase.values import PBUF, decode_table_state
from walferry.master.errors import TableStateChanged, WrongTableState
from walferry.master.writes import NOT_AS_READ


class TableState(IntEnum):
    """What a table's znode says."""

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
WANTED = frozenset({TableState.ENABLED, TableState.ENABLING})  # regions of these tables are to be open


@dataclass(frozen=True)
class StoredState:
    """A table's state as read; `version` is None if the table has no znode."""

    state: TableState
    version: int | None


ABSENT = StoredState(TableState.ENABLED, None)


def read_states(zk: KazooClient, nodes: ZNodes) -> tuple[dict[str, StoredState], dict[str, ZNodeValueError]]:
    """Read the states of all tables that have a znode, and what is wrong with those that cannot be read."""
    states, broken = {}, {}
    for name, found in read_children(zk, nodes.tables).items():
        try:
            states[name] = StoredState(TableState(decode_table_state(found.value, nodes.table(name)).state), found.stat.version)
        except ZNodeValueError as error:
            broken[name] = error
    return states, broken


def read_state(zk: KazooClient, nodes: ZNodes, table: str) -> StoredState:
    """Read one table's state. Raises ZNodeValueError."""
    path = nodes.table(table)
    found = read(zk, path)
    return ABSENT if found is None else StoredState(TableState(decode_table_state(found.value, path).state), found.stat.version)


def write_state(nodes: ZNodes, lock: FencedLock, table: str, seen: StoredState, state: TableState) -> None:
    """Change a table's state. Raises WrongTableState, TableStateChanged, the role's errors, ConnectError."""
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
