"""The wait for a cluster without a master, against a real ZooKeeper."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest
from kazoo.client import KazooClient

from embedded.zookeeper import ZooKeeperServer
from tests.zk.fixtures import lasting_hbase as hbase
from tests.zk.fixtures import new_client
from tests.zk.hbase_znodes import HBaseZNodes
from walferry.base.zk import watcher
from walferry.hbase.errors import ClusterError
from walferry.master.no_master_stream import NoMasterStream
from walferry.replication.source.cluster import SourceCluster

__all__ = ["hbase", "new_client"]  # fixtures

PATIENCE_SECONDS = 1.0
LIMIT_SECONDS = 60


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watcher, "SETTLE_SECONDS", 0.05)


@pytest.fixture
def source(hbase: HBaseZNodes, zookeeper: ZooKeeperServer) -> SourceCluster:
    hbase.zk.ensure_path(hbase.nodes.running)
    return SourceCluster(quorum=zookeeper.quorum, wal_root="file:///hbase", znode_parent=hbase.nodes.base, root=hbase.root)


@pytest.fixture
def zk(source: SourceCluster, hbase: HBaseZNodes) -> KazooClient:
    return hbase.zk


def wait(source: SourceCluster, *meanwhile: Callable[[], Any]) -> tuple[float, float]:
    """Wait for the stream, and do things half a second apart. Returns what it says, and the seconds since the last of them."""

    async def waiting() -> tuple[float, float]:
        async with NoMasterStream(source, PATIENCE_SECONDS) as stream:
            found = asyncio.ensure_future(stream.next())
            began = time.monotonic()
            for each in meanwhile:
                await asyncio.sleep(0.5)
                assert not found.done()
                began = time.monotonic()
                await asyncio.to_thread(each)
            return await asyncio.wait_for(found, LIMIT_SECONDS), time.monotonic() - began

    return asyncio.run(waiting())


def test_a_cluster_without_a_master_is_announced_after_a_while(source: SourceCluster) -> None:
    said, took = wait(source)
    assert said >= PATIENCE_SECONDS
    assert took >= PATIENCE_SECONDS


def test_while_there_is_a_master_nothing_is_announced(source: SourceCluster, zk: KazooClient) -> None:
    master = source.nodes.master
    zk.create(master, b"m", ephemeral=True)
    _, took = wait(source, lambda: None, lambda: None, lambda: None, lambda: zk.delete(master))
    assert took >= PATIENCE_SECONDS


def test_a_master_that_comes_back_in_time_is_not_missed(source: SourceCluster, zk: KazooClient) -> None:
    master = source.nodes.master

    def come() -> None:
        zk.create(master, b"m", ephemeral=True)

    _, took = wait(source, come, lambda: zk.delete(master), come, lambda: None, lambda: None, lambda: zk.delete(master))
    assert took >= PATIENCE_SECONDS


def test_a_cluster_that_was_shut_down_wants_no_master(source: SourceCluster, zk: KazooClient) -> None:
    running = source.nodes.running
    zk.delete(running)
    _, took = wait(source, lambda: None, lambda: None, lambda: None, lambda: zk.create(running, b""))
    assert took >= PATIENCE_SECONDS


def test_where_no_cluster_is_nothing_is_waited_for(source: SourceCluster, zookeeper: ZooKeeperServer) -> None:
    nowhere = SourceCluster(quorum=zookeeper.quorum, wal_root="file:///hbase", znode_parent="/nowhere")
    with pytest.raises(ClusterError, match="no HBase cluster has started under /nowhere"):
        wait(nowhere)
