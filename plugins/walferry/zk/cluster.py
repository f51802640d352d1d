"""What an HBase cluster says of itself in ZooKeeper."""

import uuid

from kazoo.client import KazooClient

from walferry.wal.names import ServerName
from walferry.zk.client import Watch, children, hosts, read
from walferry.zk.errors import ClusterError, StorageError, ZNodeValueError
from walferry.zk.layout import ZNodes
from walferry.zk.values import decode_cluster_id, decode_master


def cluster_id(zk: KazooClient, nodes: ZNodes) -> uuid.UUID:
    """The cluster's id, which marks its edits. Raises ClusterError, ZNodeValueError."""
    found = read(zk, nodes.hbaseid)
    if found is None:
        raise ClusterError(
            f"{nodes.hbaseid} is not there on {hosts(zk)}: no HBase cluster has started under {nodes.base}. "
            "Check quorum and znode_parent (zookeeper.znode.parent)"
        )
    return decode_cluster_id(found.value, nodes.hbaseid)


def live_servers(zk: KazooClient, nodes: ZNodes, watch: Watch | None = None) -> frozenset[ServerName]:
    """The RegionServers that hold a session now; empty when all of them are down. Raises ClusterError, ZNodeValueError.

    `watch` is called once when one comes or goes.
    """
    names = children(zk, nodes.rs, watch)
    if names is None:
        raise ClusterError(f"{nodes.rs} is not there on {hosts(zk)}: check quorum and znode_parent (zookeeper.znode.parent)")
    try:
        return frozenset(map(ServerName.parse, names))
    except ValueError as error:
        raise ZNodeValueError(nodes.rs, f"a child is no server name ({error})", "Is this an HBase cluster's rs znode?") from error


def is_live(zk: KazooClient, nodes: ZNodes, server: str) -> bool:
    """Whether the RegionServer of that name holds a session now. Raises as `live_servers`."""
    return server in map(str, live_servers(zk, nodes))


def master(zk: KazooClient, nodes: ZNodes) -> ServerName:
    """The active master. Raises ClusterError when there is none, ZNodeValueError."""
    found = read(zk, nodes.master)
    if found is None:
        raise ClusterError(f"{nodes.master} is not there on {hosts(zk)}: no master is active. Start one and try again")
    name = decode_master(found.value, nodes.master).master
    return ServerName(name.host_name, name.port, name.start_code)


def check_storage(zk: KazooClient, nodes: ZNodes) -> None:
    """Raises StorageError if the cluster's replication queues are not kept in ZooKeeper."""
    if zk_has(zk, nodes.queues):
        return
    cluster_id(zk, nodes)
    raise StorageError(
        f"{nodes.queues} is not there on {hosts(zk)}: this cluster keeps its replication queues elsewhere (HBase 3 in table "
        "hbase:replication) or has never had a peer. Walferry serves HBase 2.x with queues in ZooKeeper"
    )


def zk_has(zk: KazooClient, path: str) -> bool:
    """Whether the znode is there."""
    return read(zk, path) is not None
