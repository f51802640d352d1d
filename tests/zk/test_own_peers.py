"""The peer cluster's own peers, which might need loaded edits: its Master names them, and one leads to a real ZooKeeper."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from kazoo.client import KazooClient

from embedded.zookeeper import ZooKeeperServer
from tests.unit.shipping.bulkload.own_peers import Master, described
from tests.zk.hbase_znodes import HBaseZNodes
from walferry.shipping.bulkload.fitness import read_own_peers

pytestmark = pytest.mark.usefixtures("refused_at_once")

SOURCE_ID, OTHER_ID = uuid.UUID(int=1), uuid.UUID(int=2)


@pytest.mark.parametrize(("there", "counts"), [(SOURCE_ID, False), (OTHER_ID, True), (None, True)], ids=["source", "third", "no"])
def test_a_peer_counts_unless_it_is_seen_to_lead_to_the_source(
    zk: KazooClient, hbase: HBaseZNodes, zookeeper: ZooKeeperServer, there: uuid.UUID | None, counts: bool
) -> None:
    base = f"{hbase.nodes.base}-there"
    if there:
        zk.create(f"{base}/hbaseid", str(there).encode(), makepath=True)
    key = f"{zookeeper.quorum}:{base}"
    master: Any = Master(described("back", key), described("custom", key, replicationEndpointImpl="org.example.Endpoint"))
    found = read_own_peers(master, SOURCE_ID)
    assert ("back" in found.choices, "custom" in found.choices) == (counts, True)
