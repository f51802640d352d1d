"""A repair holds the peer lock while it ships, in a real ZooKeeper."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from kazoo.client import KazooClient

from embedded.zookeeper import ZooKeeperServer
from tests.sessions import session_of
from tests.zk.hbase_znodes import HBaseZNodes
from walferry.hbase.errors import MissingPeer, PausedPeer
from walferry.replication.locks.peer_lock import NO_TURN, PeerLocked, holding_peer, turn_of
from walferry.replication.peers.reading import DISABLED, Peer
from walferry.replication.source.cluster import SourceCluster
from walferry.verification import repair
from walferry.verification.repair import repairing

PEER = Peer("p", "127.0.0.1:2181:/peer_cluster", DISABLED, {})


@pytest.fixture
def at(hbase: HBaseZNodes, zookeeper: ZooKeeperServer, monkeypatch: pytest.MonkeyPatch) -> SourceCluster:
    @contextmanager
    def no_peer_cluster(*args: object) -> Iterator[object]:
        yield None

    monkeypatch.setattr(repair, "row_shipment", no_peer_cluster)
    return SourceCluster(quorum=zookeeper.quorum, wal_root="file:///hbase", znode_parent=hbase.nodes.base, root=hbase.root)


def test_a_batch_leaves_the_peer_to_a_repair(zk: KazooClient, at: SourceCluster) -> None:
    planned = turn_of(session_of(zk, at), "p", "batch").number
    batch = holding_peer(at, "p", "batch", "batch 1", planned)
    with repairing(session_of(zk, at), PEER, "t"), pytest.raises(PeerLocked, match="a repair of table t on"), batch:
        pytest.fail("two runs hold the peer lock")


def test_a_repair_waits_for_a_batch(zk: KazooClient, at: SourceCluster) -> None:
    begun = threading.Event()

    def run() -> None:
        with repairing(session_of(zk, at), PEER, "t"):
            begun.set()

    with ThreadPoolExecutor(1) as pool:
        with holding_peer(at, "p", "batch", "batch 1", NO_TURN):
            ran = pool.submit(run)
            assert not begun.wait(2)
        ran.result(60)
        assert begun.is_set()


def test_ranges_of_one_run_have_the_peer_one_after_the_other(zk: KazooClient, at: SourceCluster) -> None:
    inside: list[str] = []

    def run(name: str) -> None:
        with repairing(session_of(zk, at), PEER, "t"):
            inside.append(name)
            threading.Event().wait(1)
            inside.append(name)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(run, "ab"))
    assert inside[0] == inside[1]
    assert inside[2] == inside[3]


@pytest.mark.parametrize(("change", "error"), [("pause", PausedPeer), ("remove", MissingPeer)])
def test_a_peer_that_was_paused_or_removed_while_a_repair_waited_is_not_shipped(
    zk: KazooClient, hbase: HBaseZNodes, at: SourceCluster, change: str, error: type[Exception]
) -> None:
    if change == "pause":
        hbase.set_config("p", {"walferry.managed": "true", "walferry.paused": "true"})
    else:
        hbase.zk.delete(hbase.nodes.peer("p"), recursive=True)
    with pytest.raises(error), repairing(session_of(zk, at), PEER, "t"):
        pytest.fail("it may ship")
