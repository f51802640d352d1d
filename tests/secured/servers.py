"""The servers of secured sites, as ZooKeeper has them."""

from __future__ import annotations

from embedded.standalone import StandaloneCluster
from walferry.hbase.cluster import live_servers
from walferry.hbase.layout import ZNodes
from walferry.names import ServerName
from walferry.zk.client import connected


def server_of(cluster: StandaloneCluster) -> ServerName:
    """A live RegionServer of the cluster. Its list may be read without a login."""
    with connected(cluster.address.quorum) as zk:
        return next(iter(live_servers(zk, ZNodes())))
