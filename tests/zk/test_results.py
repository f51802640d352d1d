"""The results of comparisons: kept for the report, bounded, replaced, and deleted with their peers."""

from __future__ import annotations

import pytest
from kazoo.client import KazooClient

from embedded.zookeeper import ZooKeeperServer
from tests.sessions import session_of
from tests.zk.hbase_znodes import HBaseZNodes
from walferry.base.zk.errors import ZNodeValueError
from walferry.hbase.layout import quoted
from walferry.replication.source.cluster import SourceCluster
from walferry.verification.outcome import DifferenceKind, Sample, VerificationOutcome
from walferry.verification.results import MAX_SAMPLES, MAX_TABLES, delete_of_gone_peers, read_result, write_result


def test_a_result_is_read_by_its_run_only_and_goes_with_its_peer(zk: KazooClient, hbase: HBaseZNodes, zookeeper: ZooKeeperServer):
    at = SourceCluster(quorum=zookeeper.quorum, wal_root="file:///hbase", znode_parent=hbase.nodes.base, root=hbase.root)
    session = session_of(zk, at)
    differing = VerificationOutcome(
        "t", good=5, samples=[Sample(DifferenceKind.MISSING, "r", "1 cells at the source, 0 at the peer cluster")]
    )
    differing.bad[DifferenceKind.MISSING] = 1
    write_result(session, "p", "dag/first", [VerificationOutcome("a", good=1), differing])
    assert read_result(session, "p", "dag/first") == [differing, VerificationOutcome("a", good=1)]
    write_result(session, "p", "dag/second", [])
    assert read_result(session, "p", "dag/first") is None
    assert read_result(session, "p", "dag/second") == []
    write_result(session, "gone", "dag/second", [])
    delete_of_gone_peers(session)
    assert read_result(session, "gone", "dag/second") is None
    assert read_result(session, "p", "dag/second") == []


def test_the_largest_result_fits_into_a_znode(zk: KazooClient, hbase: HBaseZNodes, zookeeper: ZooKeeperServer):
    at = SourceCluster(quorum=zookeeper.quorum, wal_root="file:///hbase", znode_parent=hbase.nodes.base, root=hbase.root)
    sample = Sample(DifferenceKind.DIFFERENT, "\\xFF" * 200, "x" * 1200)
    outcomes = [VerificationOutcome(f"{'n' * 200}{i}", samples=[sample] * 60, problem="p" * 5000) for i in range(2 * MAX_TABLES)]
    write_result(session_of(zk, at), "p", "run", outcomes)
    found = read_result(session_of(zk, at), "p", "run")
    assert found is not None
    assert (len(found), sum(len(outcome.samples) for outcome in found)) == (MAX_TABLES, MAX_SAMPLES)


@pytest.mark.parametrize("value", [b"\xff", b"{}", b"[" * 200_000, b'{"run_id": "run", "outcomes": [{"table": 7}]}'])
def test_a_result_that_cannot_be_read_is_named(zk: KazooClient, hbase: HBaseZNodes, zookeeper: ZooKeeperServer, value: bytes):
    at = SourceCluster(quorum=zookeeper.quorum, wal_root="file:///hbase", znode_parent=hbase.nodes.base, root=hbase.root)
    session = session_of(zk, at)
    write_result(session, "p", "run", [])
    path = f"{at.root}/verifications/{quoted(at.znode_parent)}/p"
    zk.set(path, value)
    with pytest.raises(ZNodeValueError, match="it is not the result of a comparison") as refused:
        read_result(session, "p", "run")
    assert path in str(refused.value)
