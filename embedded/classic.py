"""Runs HBase 1.7.2, whose RegionServers claim a dead server's queues themselves, under a `lock` znode in that server's own: the
classic layout. ZooKeeper is as old (3.4.10). HDFS and the Java client are the same as for the other clusters.

embedded.client can create tables here, write, scan, count, compare, list servers and regions, move regions, roll WALs and read
them. Calls that ask for a table's state fail (`drop_table`, `empty_table`, `table_exists`, `flush`): HBase 1 keeps it elsewhere.
Peers of HBase 1 exist only in ZooKeeper: its own tools write the znodes, and so do the functions here.

    with DistributedClusters(folder, {"source": classic_options()}) as clusters:
        add_managed_peer(clusters["source"].address, "2", peer_cluster.address.cluster_key)
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from embedded.distributed import ClusterOptions
from embedded.ephemerals import zookeeper
from embedded.hbase import ClusterAddress
from embedded.jars import HBASE_1
from embedded.processes import ClusterError, start_java

PBUF = b"PBUF"
DISABLED = PBUF + b"\x08\x01"
LOAD_SECONDS = 120


def classic_conf(*, multi: bool = False) -> dict[str, str]:
    """Return the settings of HBase 1. With `multi` its RegionServers move a queue by one multi, without a lock, as in HBase 2."""
    return {
        "hbase.replication": "true",
        "hbase.zookeeper.useMulti": str(multi).lower(),
        "hbase.regionserver.hostname": "localhost",
    }


def classic_options(
    conf: Mapping[str, str] | None = None, *, regionservers: int = 3, failover_sleep_ms: int = 1000, multi: bool = False
) -> ClusterOptions:
    """Return the options of a small cluster with the classic layout, or, with `multi`, with the layout of HBase 2.

    A RegionServer waits once or twice `failover_sleep_ms` (replication.sleep.before.failover) before it claims a dead server's
    queues, and again after each claimed queue.
    """
    return ClusterOptions(
        conf={**classic_conf(multi=multi), "replication.sleep.before.failover": str(failover_sleep_ms), **(conf or {})},
        regionservers=regionservers,
        regionserver_heap="320m",
        master_heap="320m",
        jars=HBASE_1,
    )


def add_managed_peer(
    address: ClusterAddress, peer_id: str, cluster_key: str, configuration: Mapping[str, str] | None = None
) -> None:
    """Add a managed peer: DISABLED, marked `walferry.managed=true`, with `configuration`. RegionServers notice it within moments.

    HBase 1's master has no call for this. As in ReplicationPeersZKImpl.addPeer and disablePeer, a peer is a znode with a child
    `peer-state`. This writes both at once, because a RegionServer that sees a peer without a state makes it ENABLED.
    """
    peer = f"{address.znode_parent}/replication/peers/{peer_id}"
    with zookeeper(address) as zk:
        transaction = zk.transaction()
        transaction.create(peer, _peer_value(cluster_key, {"walferry.managed": "true", **(configuration or {})}))
        transaction.create(f"{peer}/peer-state", DISABLED)
        for result in transaction.commit():
            if isinstance(result, Exception):
                raise ClusterError(f"peer {peer_id} was not added: {result!r}")


def remove_peer(address: ClusterAddress, peer_id: str) -> None:
    """Remove a peer as ReplicationPeersZKImpl.removePeer does; the RegionServers then delete its queues."""
    with zookeeper(address) as zk:
        zk.delete(f"{address.znode_parent}/replication/peers/{peer_id}", recursive=True)


def load_files(address: ClusterAddress, table: str, folder: str) -> None:
    """Bulk-load the HFiles in `folder`/<family> by HBase 1's own tool, in a JVM of its own: the client of HBase 2 asks for more
    than HBase 1 has. Raises ClusterError with the log's end.
    """
    with tempfile.TemporaryDirectory(prefix="walferry-load-") as name:
        process = start_java(
            "load", "org.apache.hadoop.hbase.mapreduce.LoadIncrementalHFiles", [folder, table],
            folder=Path(name), classpath=[address.hbase_site.parent], jars=HBASE_1,
        )  # fmt: skip
        try:
            process.popen.wait(LOAD_SECONDS)
        finally:
            process.kill()
        if process.popen.returncode:
            raise ClusterError(f"nothing was loaded into {table}", process.tail())


def _peer_value(cluster_key: str, configuration: Mapping[str, str]) -> bytes:
    """Encode PBUF ReplicationPeer{1 clusterkey, 4 repeated NameStringPair{1 name, 2 value}}."""
    pairs = [_field(4, _field(1, name.encode()) + _field(2, value.encode())) for name, value in configuration.items()]
    return PBUF + _field(1, cluster_key.encode()) + b"".join(pairs)


def _field(number: int, content: bytes) -> bytes:
    """Encode a length-delimited field of protobuf with short contents."""
    if len(content) > 127:
        raise ValueError(f"{len(content)} bytes are more than one byte of length can tell: {content!r}")
    return bytes([number << 3 | 2, len(content)]) + content
