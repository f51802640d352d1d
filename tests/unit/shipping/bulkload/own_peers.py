"""Stand-ins for the Master of a peer cluster that has peers of its own."""

from __future__ import annotations

from typing import Any

from walferry.base.protos import hbase_pb2 as pb

NOWHERE = "localhost:1:/hbase"
REPLICAS = "org.apache.hadoop.hbase.replication.regionserver.RegionReplicaReplicationEndpoint"


def described(
    peer_id: str, cluster_key: str = NOWHERE, state: pb.ReplicationState.State = pb.ReplicationState.ENABLED, **fields: Any
) -> pb.ReplicationPeerDescription:
    """A peer as the Master describes it."""
    config = pb.ReplicationPeer(**{"clusterkey": cluster_key, "replicate_all": True, **fields})
    return pb.ReplicationPeerDescription(id=peer_id, state=pb.ReplicationState(state=state), config=config)


class Master:
    """A connection to a Master that has these peers, or that answers with an error."""

    def __init__(self, *peers: pb.ReplicationPeerDescription, error: Exception | None = None) -> None:
        self._answer = pb.ListReplicationPeersResponse(peer_desc=peers)
        self._error = error

    def call(self, method: str, *_: object) -> pb.ListReplicationPeersResponse:
        assert method == "ListReplicationPeers"
        if self._error is not None:
            raise self._error
        return self._answer
