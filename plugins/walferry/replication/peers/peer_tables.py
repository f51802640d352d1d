"""The tables of a peer's cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from walferry.base.security.login import Login
from walferry.base.zk.client import connected
from walferry.hbase.errors import NoPeerCluster
from walferry.hbase.layout import ZNodes
from walferry.hbase.tables.tables import Tables
from walferry.replication.peers.reading import Peer, peer_cluster_of


@contextmanager
def peer_tables(peer: Peer, login: Login) -> Iterator[Tables]:
    """Connect to the peer cluster while the block runs. Raises ConnectError, PeerError."""
    if not peer.in_hbase:
        raise NoPeerCluster(peer.id, peer.target)
    key = peer.peer_cluster
    whose, nodes = peer_cluster_of(peer.id, key), ZNodes(key.znode_parent)
    with connected(key.connect_string, whose=whose, login=login) as zk, Tables(zk, nodes, login=login) as tables:
        yield tables
