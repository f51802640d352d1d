"""A source to look at, with a peer that is behind, for tests."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from embedded.zookeeper import ZooKeeperServer
from tests.zk.hbase_znodes import SERVER, HBaseZNodes, wal
from walferry.replication.source.cluster import SourceCluster

HOUR = 3_600_000


@pytest.fixture
def source(hbase: HBaseZNodes, zookeeper: ZooKeeperServer, tmp_path: Path) -> SourceCluster:
    (tmp_path / "oldWALs").mkdir()
    root = f"file://{tmp_path}"
    return SourceCluster(quorum=zookeeper.quorum, wal_root=root, znode_parent=hbase.nodes.base, root=hbase.root)


def text_of(source: SourceCluster) -> str:
    extra = {"wal_root": source.wal_root, "znode_parent": source.znode_parent, "walferry_root": source.root}
    return json.dumps({"host": source.quorum, "extra": extra})


def behind(hbase: HBaseZNodes, max_lag: str) -> None:
    """Make the peer p be an hour behind."""
    begun = int(time.time() * 1000) - HOUR
    hbase.set_config("p", {"walferry.managed": "true", "walferry.max_lag": max_lag})
    hbase.add_wal(SERVER, "p", wal(begun))
    hbase.add_wal(SERVER, "p", wal(begun + 1000))
