"""Gives each test its own cluster's znodes in the session's ZooKeeper."""

from collections.abc import Callable, Iterator

import pytest
from kazoo.client import KazooClient

from embedded.zookeeper import ZooKeeperServer
from tests.sessions import session_of
from tests.zk.hbase_znodes import HBaseZNodes, LastingZNodes
from walferry.base.zk import client
from walferry.base.zk.client import connect, disconnect
from walferry.replication.source.cluster import SourceCluster
from walferry.replication.source.session import Session

SESSION_TIMEOUT_SECONDS = 60.0  # this machine may stand still for a while; `expire` ends a session at once


@pytest.fixture
def refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """An ensemble that refuses connections counts as away at once. For tests that are not about a starting ensemble."""
    monkeypatch.setattr(client, "FIRST_LOOK_SECONDS", 0.2)
    monkeypatch.setattr(client, "UNREACHABLE_SECONDS", 0.2)


@pytest.fixture
def new_client(zookeeper: ZooKeeperServer) -> Iterator[Callable[[], KazooClient]]:
    clients: list[KazooClient] = []

    def start() -> KazooClient:
        clients.append(connect(zookeeper.quorum, session_timeout=SESSION_TIMEOUT_SECONDS, call_timeout=60))
        return clients[-1]

    yield start
    for each in clients:
        disconnect(each)


@pytest.fixture
def zk(new_client: Callable[[], KazooClient]) -> KazooClient:
    return new_client()


@pytest.fixture
def hbase(new_client: Callable[[], KazooClient]) -> HBaseZNodes:
    """A cluster's znodes as HBase writes them, with a managed peer `p` and a live server, over their own client."""
    cluster = HBaseZNodes.new(new_client())
    cluster.add_peer("p")
    return cluster


@pytest.fixture
def lasting_hbase(new_client: Callable[[], KazooClient]) -> LastingZNodes:
    """Like `hbase`, but its servers die only when they are stopped."""
    cluster = LastingZNodes.new(new_client())
    cluster.add_peer("p")
    return cluster


@pytest.fixture
def at(hbase: HBaseZNodes, zookeeper: ZooKeeperServer) -> SourceCluster:
    """The source that these znodes belong to. It has no WALs."""
    return SourceCluster(quorum=zookeeper.quorum, wal_root="file:///hbase", znode_parent=hbase.nodes.base, root=hbase.root)


@pytest.fixture
def session(zk: KazooClient, at: SourceCluster) -> Session:
    return session_of(zk, at)
