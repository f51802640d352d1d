"""`check --upgrade`: what stands in the way of an upgrade from HBase 2 to HBase 3, step by step."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from embedded.zookeeper import ZooKeeperServer
from tests.sessions import session_of
from tests.zk.hbase_znodes import HBaseZNodes, wal
from tests.zk.test_agreement import be_of, is_doing, is_migrating, knows, master, peer, peer_of_hbase_3
from walferry.admin.diagnosis.upgrade import upgrade_findings
from walferry.base.findings import Severity
from walferry.base.protos import hbase_pb2 as pb
from walferry.hbase.layout import QueueLayout
from walferry.replication.source.cluster import SourceCluster


@pytest.fixture
def zk(hbase: HBaseZNodes) -> KazooClient:
    return hbase.zk


@pytest.fixture
def source(hbase: HBaseZNodes, zookeeper: ZooKeeperServer, tmp_path: Path) -> SourceCluster:
    root = f"/walferry-{hbase.nodes.base[1:]}"
    return SourceCluster(quorum=zookeeper.quorum, wal_root=f"file://{tmp_path}", znode_parent=hbase.nodes.base, root=root)


def findings(zk: KazooClient, source: SourceCluster) -> list[tuple[Severity, str]]:
    return [(each.severity, each.sentence) for each in upgrade_findings(session_of(zk, source))]


def test_before_it_peers_claims_and_dead_servers_are_looked_at(
    zk: KazooClient, hbase: HBaseZNodes, source: SourceCluster
) -> None:
    with master(hbase, knows(peer()), is_doing()):
        ((severity, text),) = findings(zk, source)
        assert severity is Severity.WELL
        assert "Upgrade the HMaster, then set queue_layout to 3.x" in text


def test_before_it_what_hbase_3_cannot_finish_is_wrong(zk: KazooClient, hbase: HBaseZNodes, source: SourceCluster) -> None:
    hbase.add_peer("e", "ENABLED")
    hbase.add_wal("dead,1,1", "p", wal(1, "dead,1,1"))
    claiming = is_doing(("ClaimReplicationQueuesProcedure", pb.Procedure.WAITING))
    with master(hbase, knows(peer(), peer("e", "ENABLED")), claiming):
        enabled, claims, dead = findings(zk, source)
    assert enabled[0] is Severity.NOTE
    assert "peers are ENABLED: e. If all servers are stopped for the upgrade, disable these peers first" in enabled[1]
    assert claims == (Severity.WRONG, claims[1])
    assert "has not finished the claim of a dead server's queues. Wait" in claims[1]
    assert "1 queues of dead servers have 1 WALs" in dead[1]


def test_while_the_master_moves_the_queues_one_has_to_wait(zk: KazooClient, hbase: HBaseZNodes, source: SourceCluster) -> None:
    with master(hbase, knows(peer_of_hbase_3()), is_migrating(1, 2, 3, 4)):
        assert findings(zk, source) == [
            (Severity.WRONG, "the HMaster is moving the queues. Wait: batches are refused until it has, and then go on")
        ]


def test_after_that_the_connection_has_to_say_so(zk: KazooClient, hbase: HBaseZNodes, source: SourceCluster) -> None:
    with master(hbase, knows(peer_of_hbase_3()), is_migrating(1, 2, 3, 4, 5)):
        ((severity, text),) = findings(zk, source)
    assert severity is Severity.WRONG
    assert text.endswith("Set queue_layout in the connection's extra to 3.x")


def test_then_the_regionservers_are_left(zk: KazooClient, hbase: HBaseZNodes, source: SourceCluster) -> None:
    source = replace(source, queue_layout=QueueLayout.TABLE)
    be_of(hbase, "2.6.1")
    with master(hbase, *[knows(peer_of_hbase_3()), is_migrating(1, 2, 3, 4, 5)] * 2):
        ((severity, text),) = findings(zk, source)
        assert (severity, "1 RegionServers still run HBase 2" in text) == (Severity.NOTE, True)
        be_of(hbase, "3.0.0")
        ((severity, text),) = findings(zk, source)
        assert (severity, "all servers run HBase 3" in text) == (Severity.WELL, True)


def test_a_connection_that_is_ahead_of_the_master_is_wrong(zk: KazooClient, hbase: HBaseZNodes, source: SourceCluster) -> None:
    with master(hbase, knows(peer())):
        ((severity, text),) = findings(zk, replace(source, queue_layout=QueueLayout.TABLE))
    assert severity is Severity.WRONG
    assert "Set it to 2.x until it runs HBase 3" in text
