"""A real ZooKeeper server for the whole session, and for each test a cluster's znodes of its own in it."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from embedded.zookeeper import ZooKeeperServer
from tests.zk.hbase_znodes import HBaseZNodes, LastingZNodes
from walferry.zk.client import connect, disconnect

SESSION_TIMEOUT_SECONDS = 60.0  # this machine may stand still for a while; `expire` ends a session at once


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    with ZooKeeperServer(Path(tmp_path_factory.mktemp("zookeeper"))) as server:
        yield server


@pytest.fixture
def new_client(zookeeper: ZooKeeperServer) -> Iterator[Callable[[], KazooClient]]:
    clients: list[KazooClient] = []

    def start() -> KazooClient:
        clients.append(connect(zookeeper.quorum, session_timeout=SESSION_TIMEOUT_SECONDS, call_timeout=60))
        return clients[-1]

    yield start
    for client in clients:
        disconnect(client)


@pytest.fixture
def zk(new_client: Callable[[], KazooClient]) -> KazooClient:
    return new_client()


@pytest.fixture
def hbase(new_client: Callable[[], KazooClient]) -> HBaseZNodes:
    """A cluster's znodes as HBase writes them, with a managed peer `p` and a live server, by a client of their own."""
    cluster = HBaseZNodes.new(new_client())
    cluster.add_peer("p")
    return cluster


@pytest.fixture
def lasting_hbase(new_client: Callable[[], KazooClient]) -> LastingZNodes:
    """Like `hbase`, but its servers die only when they are stopped."""
    cluster = LastingZNodes.new(new_client())
    cluster.add_peer("p")
    return cluster
