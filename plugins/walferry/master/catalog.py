"""Reads the catalog: each region as hbase:meta and the tables' states describe it.

It takes one scan of hbase:meta and one listing of the tables' states, however many regions there are. The server of hbase:meta's
own region is in ZooKeeper. While no live server serves hbase:meta, the catalog contains only that region.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from kazoo.client import KazooClient

from walferry.base.errors import WalferryError
from walferry.base.protos import hbase_pb2 as pb
from walferry.base.security.login import UNSECURED, Login
from walferry.base.zk.client import read
from walferry.base.zk.errors import ZNodeValueError
from walferry.hbase.cluster import live_servers
from walferry.hbase.layout import ZNodes
from walferry.hbase.names import ServerName
from walferry.hbase.rpc.errors import RpcError
from walferry.hbase.tables.errors import RegionUnavailable, ScanGivenUp
from walferry.hbase.tables.regions import INFO, META, META_REGION, MetaRow, read_meta_row
from walferry.hbase.tables.scan import ScanSpec
from walferry.hbase.tables.tables import Tables
from walferry.hbase.values import decode_message
from walferry.master.reconcile import Known
from walferry.master.tables import ABSENT, WANTED, StoredState, read_states, table_of
from walferry.master.znodes import META_ENCODED_NAME, encoded_name, is_encoded_name

SCAN_PATIENCE_SECONDS = 10.0  # the next pass tries again
META_INFO = pb.RegionInfo(region_id=1, table_name=pb.TableName(namespace=b"hbase", qualifier=b"meta"), start_key=b"", end_key=b"")

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class CatalogRead:
    """The regions by encoded name, the tables' stored states, and what could not be read.

    `complete` is False if hbase:meta could not be read: then its own region is the only one.
    """

    regions: dict[str, Known]
    states: dict[str, StoredState] = field(default_factory=dict)
    broken: list[WalferryError] = field(default_factory=list)
    complete: bool = True


def read_catalog(zk: KazooClient, nodes: ZNodes, *, login: Login = UNSECURED) -> CatalogRead:
    """Read hbase:meta and the tables' states. Raises ClusterError, ZNodeValueError for hbase:meta's own znode, ConnectError."""
    server = meta_server(zk, nodes)
    regions = {META_ENCODED_NAME: Known(META_REGION, META_INFO, server, True)}
    states, broken_states = read_states(zk, nodes)
    broken: list[WalferryError] = list(broken_states.values())
    if server is None or server not in live_servers(zk, nodes):
        return CatalogRead(regions, states, broken, complete=False)
    try:
        with Tables(zk, nodes, login=login, patience_seconds=SCAN_PATIENCE_SECONDS) as tables:
            rows, unreadable = _rows(tables)
    except (RpcError, RegionUnavailable, ScanGivenUp) as error:
        log.warning("hbase:meta at %s cannot be read: %s. The next pass tries again", server, error)
        return CatalogRead(regions, states, [*broken, error], complete=False)
    for row in rows:
        table = table_of(row.info)
        wanted = table not in broken_states and states.get(table, ABSENT).state in WANTED
        regions[encoded_name(row.name)] = Known(row.name, row.info, row.server, wanted, row.opened_ms)
    return CatalogRead(regions, states, [*broken, *unreadable])


def meta_server(zk: KazooClient, nodes: ZNodes) -> ServerName | None:
    """Read which server has hbase:meta, or had it last; None if there is none. Raises ZNodeValueError."""
    found = read(zk, nodes.meta_server)
    if found is None:
        return None
    name = decode_message(pb.MetaRegionServer, found.value, nodes.meta_server).server
    try:
        return ServerName.in_message(name.host_name, name.port, name.start_code)
    except ValueError as error:
        raise ZNodeValueError(nodes.meta_server, str(error), "Delete the znode while no master is running") from error


def _rows(tables: Tables) -> tuple[list[MetaRow], list[WalferryError]]:
    """Return the rows of regions that may be open, and the errors of unreadable rows."""
    rows: list[MetaRow] = []
    broken: list[WalferryError] = []
    for block in tables.scan(META, ScanSpec(families=(INFO,))):
        for i in range(len(block)):
            try:
                row = read_meta_row(block.key(i), block.row(i))
            except RegionUnavailable as error:
                broken.append(error)
                continue
            if row is None or not row.may_be_open:
                continue
            if is_encoded_name(encoded_name(row.name)):
                rows.append(row)
            else:
                broken.append(RegionUnavailable(f"hbase:meta has a row {row.name[:200]!r} whose key is not the name of a region"))
    return rows, broken
