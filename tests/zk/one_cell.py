"""Edits of one cell with one timestamp: the last one must be the last at the peer cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from kazoo.client import KazooClient

from tests.unit.hbase.wal.encoder import PUT, Cell, Entry, encode_wal
from tests.zk.hbase_znodes import DEAD, SERVER, HBaseZNodes, LastingZNodes
from walferry.base.protos import hbase_pb2 as pb
from walferry.replication.source.cluster import SourceCluster


def edits_of_one_cell(numbers: Iterable[int]) -> Iterator[Entry]:
    """Yield an edit for each number, which is the edit's sequence number and value."""
    for number in numbers:
        key = pb.WALKey(encoded_region_name=b"r", table_name=b"t", log_sequence_number=number)
        key.write_time, key.following_kv_count = 1_700_000_000_001 + number, 1
        key.scopes.add(family=b"f", scope_type=pb.REPLICATION_SCOPE_GLOBAL)
        yield Entry(key, (Cell(b"row", b"f", b"q", 5, PUT, b"v%04d" % number),))


def queued_for_peer_cluster(
    folder: Path, zk: KazooClient, quorum: str, peer_cluster: HBaseZNodes, port: int, wal: str, edits: int
) -> tuple[LastingZNodes, SourceCluster]:
    """Make a source with one WAL of a dead server, which is queued for peer q. The peer cluster is the server at this port."""
    old = folder / "hbase" / "oldWALs"
    old.mkdir(parents=True, exist_ok=True)
    (old / wal).write_bytes(encode_wal(edits_of_one_cell(range(edits))))
    peer_cluster.stop_server(SERVER)
    peer_cluster.zk.create(f"{peer_cluster.nodes.rs}/127.0.0.1,{port},1", ephemeral=True)
    source = LastingZNodes.new(zk)
    source.add_peer("q", clusterkey=f"{quorum}:{peer_cluster.nodes.base}")
    source.add_wal(DEAD, "q", wal)
    at = SourceCluster(quorum=quorum, wal_root=f"file://{folder}/hbase", znode_parent=source.nodes.base, root=source.root)
    return source, at
