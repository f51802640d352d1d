"""Peers between realms that do not trust each other. HBase's Master adds a peer only if it can read the slave's id itself."""

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
from walferry.replication.source.cluster import SourceCluster, for_slave

MANAGED = {"walferry.managed": "true"}
CONN_ID = "west"  # the slave's connection, as a peer names it


@contextmanager
def peer_with_nobody(source: SecuredSite, java: JavaClient, configuration: Mapping[str, str] = MANAGED) -> Iterator[str]:
    """A DISABLED peer whose slave is an id under another parent of the source's own ensemble."""
    peer_id, slave = f"p{uuid.uuid4().hex[:8]}", f"/slave-{uuid.uuid4().hex[:8]}"
    quorum = source.cluster.address.quorum
    with connected(quorum, login=login(source, "hbase/localhost")) as zk:
        zk.create(f"{slave}/hbaseid", PBUF + pb.ClusterId(cluster_id=str(uuid.uuid4())).SerializeToString(), makepath=True)
    java.roll_wals()
    java.add_peer(peer_id, f"{quorum}:{slave}", enabled=False, configuration=configuration)
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
    source: SecuredSite, java: JavaClient, slave: ClusterAddress, configuration: Mapping[str, str] = MANAGED
) -> Iterator[tuple[str, str]]:
    """A DISABLED peer, and its cluster key: a port that leads to the slave's ZooKeeper once the Master has added the peer.

    Until then it leads to the source's own, with the id of another cluster: the Master has its own id in memory.
    """
    peer_id, own = f"p{uuid.uuid4().hex[:8]}", source.cluster.address
    proxy = TcpProxy(_place(own))
    key, path = f"localhost:{proxy.port}:{slave.znode_parent}", ZNodes().hbaseid
    java.roll_wals()
    with zookeeper(own) as zk:
        there = zk.get(path)[0]
        zk.set(path, PBUF + pb.ClusterId(cluster_id=str(uuid.uuid4())).SerializeToString())
        try:
            java.add_peer(peer_id, key, enabled=False, configuration=configuration)
        finally:
            zk.set(path, there)
    proxy.lead_to(_place(slave))
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
    """Both sides through HBase's own client, and a managed peer that names the slave's connection."""

    source: JavaClient
    slave: JavaClient
    peer: str
    slave_site: SecuredSite
    source_site: SecuredSite
    key: str  # the slave's, as the peer has it

    def at(self, sink: SinkKind, **more: object) -> SourceCluster:
        """The source as Walferry sees it; `more` changes the fields of the slave's connection."""
        at = source_of(self.source_site.cluster.address, sink)
        slaves = {for_slave(CONN_ID, self.key): login(self.slave_site, **more).for_slaves()}
        return SourceCluster(
            quorum=at.quorum, wal_root=at.wal_root, replication=at.replication, login=login(self.source_site), slaves=slaves
        )
