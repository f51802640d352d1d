"""The step before a Spark job: the logins to the slave, which Spark has no connection to read from."""

from __future__ import annotations

from walferry.hbase.errors import MissingPeer
from walferry.replication.peers.reading import read_peer
from walferry.replication.source.cluster import SourceCluster
from walferry.replication.source.session import open_session
from walferry.replication.source.slaves import with_slaves_of


def for_job(source: SourceCluster, peer_id: str) -> SourceCluster:
    """The source as a job for this peer gets it. It holds names of files, no secrets. Raises WalferryError."""
    with open_session(source, look_only=True) as session:
        try:
            peers = [read_peer(session.zk, session.nodes, peer_id)]
        except MissingPeer:  # the job tells of that
            peers = []
    return with_slaves_of(source, peers)
