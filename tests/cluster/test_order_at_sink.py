"""The edits of a row take effect in their order, although HBase's own sink applies the edits of one request in any order."""

from __future__ import annotations

import uuid
from collections import Counter

from embedded.wire import put
from tests.cluster.walferry_runs import BY_REPLICATE, ship
from tests.unit.hbase.wal.encoder import PUT, Cell
from tests.unit.replication.filters.test_entry_filter import entry
from tests.unit.replication.sinks.hbase.edits import shipment_of
from walferry.base.protos.hbase_pb2 import ReplicateWALEntryResponse
from walferry.base.security.login import UNSECURED
from walferry.base.zk.client import connected
from walferry.engine.summary import Status
from walferry.hbase.cluster import live_servers
from walferry.hbase.layout import ZNodes
from walferry.hbase.rpc.admin import SERVICE
from walferry.replication.sinks.hbase.connections import connection_to
from walferry.replication.sinks.hbase.requests import MAX_MUTATIONS

ROWS = [f"r{i:02}" for i in range(60)]
THIRD = uuid.UUID(int=1 << 100)  # after the source in the HashMap of HBase's sink: it is applied first


def values(client, table: str) -> Counter[bytes]:
    return Counter(cell.value for cell in client.scan_all(table) if cell.row.decode() in ROWS)


@BY_REPLICATE
def test_edits_that_have_come_from_different_clusters_keep_their_order(sides, both, peer, sink):
    table = both()
    with connected(sides.at.quorum) as zk:
        server = min(live_servers(zk, ZNodes(sides.at.znode_parent)))
    sides.source.write(table, [put(row, {"f:q": b"A"}, timestamp=5) for row in ROWS])
    made = shipment_of([entry(Cell(row.encode(), b"f", b"q", 5, PUT, b"B"), table=table.encode(), ids=(THIRD,)) for row in ROWS])
    with connection_to(server, SERVICE, login=UNSECURED, max_response_bytes=1 << 20) as connection:  # as a third cluster would
        connection.call("ReplicateWALEntry", made.entries, ReplicateWALEntryResponse, made.cells)
    assert [summary.status for summary in ship(sides.at, peer)] == [Status.DONE]
    assert values(sides.peer_cluster, table) == values(sides.source, table) == {b"B": len(ROWS)}


@BY_REPLICATE
def test_edits_with_more_others_between_them_than_the_sink_sends_at_once_keep_their_order(sides, both, peer, sink):
    table = both()
    for value in (b"A", b"B"):
        sides.source.write(table, [put(row, {"f:q": value}, timestamp=5) for row in ROWS])
        if value == b"A":
            sides.source.write(table, [put(f"s{i:05}", {"f:q": b"x"}) for i in range(MAX_MUTATIONS)])
    assert [summary.status for summary in ship(sides.at, peer)] == [Status.DONE]
    assert values(sides.peer_cluster, table) == values(sides.source, table) == {b"B": len(ROWS)}
