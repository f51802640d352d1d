"""The servers of secured sites, as ZooKeeper has them."""

from __future__ import annotations

from embedded.standalone import StandaloneCluster
from walferry.base.zk.client import connected
from walferry.hbase.cluster import live_servers
from walferry.hbase.layout import ZNodes
from walferry.hbase.names import ServerName


def server_of(cluster: StandaloneCluster) -> ServerName:
    """A live RegionServer of the cluster. Its list may be read without a login."""
    with connected(cluster.address.quorum) as zk:
        return next(iter(live_servers(zk, ZNodes())))
