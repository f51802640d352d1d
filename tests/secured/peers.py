"""Peers between realms that do not trust each other. HBase's Master adds a peer only if it can read the peer cluster's id
itself."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from embedded.client import JavaClient
from embedded.ephemerals import zookeeper
from embedded.hbase import ClusterAddress
from embedded.secured_site import SecuredSite
from tests.cluster.proxy import TcpProxy
from tests.cluster.walferry_runs import source_of
from tests.secured.logins import login
from walferry.base.protos import hbase_pb2 as pb
from walferry.base.zk.client import connected
from walferry.hbase.layout import ZNodes
from walferry.hbase.values import PBUF, decode_peer
from walferry.replication.peers.settings import SinkKind
from walferry.replication.source.cluster import SourceCluster, for_peer_cluster

MANAGED = {"walferry.managed": "true"}
CONN_ID = "west"  # the peer cluster's connection, as a peer names it


@contextmanager
def peer_with_nobody(source: SecuredSite, java: JavaClient, configuration: Mapping[str, str] = MANAGED) -> Iterator[str]:
    """A DISABLED peer whose cluster is an id under another parent of the source's own ensemble."""
    peer_id, peer_cluster = f"p{uuid.uuid4().hex[:8]}", f"/peer-cluster-{uuid.uuid4().hex[:8]}"
    quorum = source.cluster.address.quorum
    with connected(quorum, login=login(source, "hbase/localhost")) as zk:
        zk.create(f"{peer_cluster}/hbaseid", PBUF + pb.ClusterId(cluster_id=str(uuid.uuid4())).SerializeToString(), makepath=True)
    java.roll_wals()
    java.add_peer(peer_id, f"{quorum}:{peer_cluster}", enabled=False, configuration=configuration)
    yield peer_id
    if any(each.id == peer_id for each in java.list_peers()):
        java.remove_peer(peer_id)


def lead_to(source: SecuredSite, peer_id: str, cluster_key: str) -> None:
    """Have the peer lead to another cluster, as ZooKeeper has it. The source's servers need not know of that."""
    path = ZNodes().peer(peer_id)
    with connected(source.cluster.address.quorum, login=login(source, "hbase/localhost")) as zk:
        peer = decode_peer(zk.get(path)[0], path)
        peer.clusterkey = cluster_key
        zk.set(path, PBUF + peer.SerializeToString())


@contextmanager
def peer_that_the_master_knows(
    source: SecuredSite, java: JavaClient, peer_cluster: ClusterAddress, configuration: Mapping[str, str] = MANAGED
) -> Iterator[tuple[str, str]]:
    """A DISABLED peer, and its cluster key: a port that leads to the peer cluster's ZooKeeper once the Master has added the peer.

    Until then it leads to the source's own, with the id of another cluster: the Master has its own id in memory.
    """
    peer_id, own = f"p{uuid.uuid4().hex[:8]}", source.cluster.address
    proxy = TcpProxy(_place(own))
    key, path = f"localhost:{proxy.port}:{peer_cluster.znode_parent}", ZNodes().hbaseid
    java.roll_wals()
    with zookeeper(own) as zk:
        there = zk.get(path)[0]
        zk.set(path, PBUF + pb.ClusterId(cluster_id=str(uuid.uuid4())).SerializeToString())
        try:
            java.add_peer(peer_id, key, enabled=False, configuration=configuration)
        finally:
            zk.set(path, there)
    proxy.lead_to(_place(peer_cluster))
    try:
        yield peer_id, key
        java.remove_peer(peer_id)
    finally:
        proxy.cut()


def _place(cluster: ClusterAddress) -> tuple[str, int]:
    host, _, port = cluster.quorum.rpartition(":")
    return host, int(port)


@dataclass(frozen=True)
class Pair:
    """Both sides through HBase's own client, and a managed peer that names the peer cluster's connection."""

    source: JavaClient
    peer_cluster: JavaClient
    peer: str
    peer_site: SecuredSite
    source_site: SecuredSite
    key: str  # the peer cluster's, as the peer has it

    def at(self, sink: SinkKind, **more: object) -> SourceCluster:
        """The source as Walferry sees it; `more` changes the fields of the peer cluster's connection."""
        at = source_of(self.source_site.cluster.address, sink)
        peer_clusters = {for_peer_cluster(CONN_ID, self.key): login(self.peer_site, **more).for_peer_clusters()}
        return SourceCluster(
            quorum=at.quorum,
            wal_root=at.wal_root,
            replication=at.replication,
            login=login(self.source_site),
            peer_clusters=peer_clusters,
        )
