"""The slave's own peers, which might need what is loaded, from a real ZooKeeper."""

from __future__ import annotations

import uuid

import pytest
from kazoo.client import KazooClient

from embedded.zookeeper import ZooKeeperServer
from tests.zk.hbase_znodes import DEAD, SERVER, HBaseZNodes, wal
from walferry.bulkload.fitness import OwnPeers, read_own_peers

pytestmark = pytest.mark.usefixtures("refused_at_once")

SOURCE_ID, OTHER_ID = uuid.UUID(int=1), uuid.UUID(int=2)


def test_peers_count_whatever_their_state_but_not_that_of_read_replicas(zk: KazooClient, hbase: HBaseZNodes) -> None:
    hbase.add_peer("enabled", state="ENABLED")
    hbase.add_peer("custom", replicationEndpointImpl="org.example.Endpoint")
    replicas = "org.apache.hadoop.hbase.replication.regionserver.RegionReplicaReplicationEndpoint"
    hbase.add_peer("region_replica_replication", replicationEndpointImpl=replicas)
    found = read_own_peers(zk, hbase.nodes, SOURCE_ID)
    assert sorted(found.choices) == ["custom", "enabled", "p"]
    assert found.takers(b"t", b"f") == "its peer custom, enabled, p takes it"


def test_a_slave_that_never_had_a_peer_has_none(zk: KazooClient, hbase: HBaseZNodes) -> None:
    hbase.zk.delete(hbase.nodes.peers.rpartition("/")[0], recursive=True)
    assert read_own_peers(zk, hbase.nodes, SOURCE_ID) == OwnPeers({})


def test_peers_that_cannot_be_read_may_take_everything(zk: KazooClient, hbase: HBaseZNodes) -> None:
    hbase.zk.set(hbase.nodes.peer("p"), b"PBUF\xff")
    assert hbase.nodes.peer("p") in read_own_peers(zk, hbase.nodes, SOURCE_ID).takers(b"t", b"f")
    hbase.zk.delete(hbase.nodes.peers, recursive=True)
    hbase.add_wal(SERVER, f"p-{DEAD}", wal(1, DEAD))
    assert "peer.storage.impl=filesystem" in read_own_peers(zk, hbase.nodes, SOURCE_ID).takers(b"t", b"f")


@pytest.mark.parametrize(("there", "counts"), [(SOURCE_ID, False), (OTHER_ID, True), (None, True)], ids=["source", "third", "no"])
def test_a_peer_counts_unless_it_is_seen_to_lead_to_the_source(
    zk: KazooClient, hbase: HBaseZNodes, zookeeper: ZooKeeperServer, there: uuid.UUID | None, counts: bool
) -> None:
    base = f"{hbase.nodes.base}-there"
    if there:
        zk.create(f"{base}/hbaseid", str(there).encode(), makepath=True)
    key = f"{zookeeper.quorum}:{base}"
    hbase.add_peer("back", clusterkey=key)
    hbase.add_peer("custom", clusterkey=key, replicationEndpointImpl="org.example.Endpoint")
    found = read_own_peers(zk, hbase.nodes, SOURCE_ID)
    assert ("back" in found.choices, "custom" in found.choices) == (counts, True)
