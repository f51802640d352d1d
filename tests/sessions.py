"""Sessions with the clusters of tests."""

from __future__ import annotations

from typing import Any

from kazoo.client import KazooClient

from walferry.hbase.layout import OwnZNodes, ZNodes
from walferry.replication.source.cluster import SourceCluster
from walferry.replication.source.session import Session


def session_of(zk: KazooClient, cluster: Any) -> Session:
    """Return a session of `zk` with `cluster`: a SourceCluster, an object with one in `source`, or the paths of a cluster."""
    if isinstance(cluster, SourceCluster):
        return Session(cluster, zk)
    if hasattr(cluster, "source"):
        return Session(cluster.source, zk)
    if isinstance(cluster, ZNodes):
        cluster = OwnZNodes("/walferry", cluster)
    nodes = cluster.cluster if isinstance(cluster, OwnZNodes) else cluster.nodes
    return Session(
        SourceCluster(quorum="", wal_root="file:///hbase", znode_parent=nodes.base, root=cluster.root, queue_layout=nodes.layout),
        zk,
    )
