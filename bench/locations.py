"""Has the peer cluster's RegionServers learn where the table's regions are, as they know it on a cluster that has taken edits
before.

A table that is emptied gets new regions. The RegionServers through which HBase's replication comes would only find that out as
they pass edits on: each sends a first batch, which may be 64 MB, to regions that are gone, and then a second time. That would be
the benchmark's fault, not that of replication.

So each of them is sent an entry of its own kind, with a delete for each region that deletes nothing.
"""

from __future__ import annotations

import struct

from bench.clusters import TABLE, Bench
from walferry.base.protos import hbase_pb2 as pb
from walferry.hbase.names import ServerName
from walferry.hbase.rpc.admin import SERVICE
from walferry.hbase.rpc.codec import KEY_VALUE_CODEC_WITH_TAGS
from walferry.hbase.rpc.connection import Connection
from walferry.hbase.wal.cells import CellType

METHOD = "ReplicateWALEntry"
FAMILY = b"f"
LONG_AGO = 1  # ms since the epoch


def tell_locations(on: Bench) -> None:
    """Send every RegionServer of the peer cluster an entry with edits of all regions."""
    rows = [region.start_key or b"0" for region in on.peer_cluster.regions(TABLE)]
    key = pb.WALKey(encoded_region_name=b"0" * 32, table_name=TABLE.encode(), log_sequence_number=1, write_time=LONG_AGO)
    request = pb.ReplicateWALEntryRequest(entry=[pb.WALEntry(key=key, associated_cell_count=len(rows))])
    cells = b"".join(map(_deletes_nothing, rows))
    for server in map(ServerName.parse, on.peer_cluster.region_servers()):
        with Connection(server.host, server.port, SERVICE, cell_codec=KEY_VALUE_CODEC_WITH_TAGS) as connection:
            connection.call(METHOD, request, pb.ReplicateWALEntryResponse, [cells])


def _deletes_nothing(row: bytes) -> bytes:
    """A delete marker that is older than all cells."""
    key = struct.pack(">H", len(row)) + row + bytes([len(FAMILY)]) + FAMILY + struct.pack(">qB", LONG_AGO, CellType.DELETE_FAMILY)
    return struct.pack(">iii", 8 + len(key), len(key), 0) + key
