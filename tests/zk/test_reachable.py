"""A quick look at a peer cluster never fails because of its ZooKeeper or the peer's cluster key."""

from __future__ import annotations

import pytest
from kazoo.client import KazooClient
from kazoo.security import make_acl

from embedded.zookeeper import ZooKeeperServer
from walferry.base.security.login import Login
from walferry.replication.peers.reading import Peer
from walferry.replication.sinks.of_peer import why_down
from walferry.replication.source.cluster import SourceCluster

SOURCE = SourceCluster(quorum="", wal_root="file:///hbase", login=Login(user="u"))


def look(zookeeper: ZooKeeperServer, parent: str) -> str | None:
    host, _, port = zookeeper.quorum.partition(":")
    return why_down(Peer("2", f"{host}:{port}:{parent}", "DISABLED", {}), SOURCE, 5.0)


@pytest.mark.parametrize(
    "parent",
    ["/h\x01", "/h\x1b[31m", "/h\rFAILED", "/h\n", "/h\x85x", "/h\u2028x", "/a/../b", "/./x", "//x", "/h\ue000",
     "/" + "h" * 100_000],
)  # fmt: skip
def test_a_znode_parent_that_no_cluster_can_have_is_a_reason_in_one_line(zookeeper: ZooKeeperServer, parent: str) -> None:
    why = look(zookeeper, parent)
    assert why
    assert why.isprintable()
    assert len(why) <= 1000


@pytest.mark.parametrize("closed", ["hbaseid", "rs"])
def test_a_peer_cluster_whose_znodes_may_not_be_read_is_a_reason(
    zk: KazooClient, zookeeper: ZooKeeperServer, closed: str
) -> None:
    parent = f"/closed-{closed}"
    zk.create(f"{parent}/hbaseid", b"0f5bd3b0-3c9b-4a5e-9d3a-1d8a7c1e9f00", makepath=True)
    zk.create(f"{parent}/rs")
    zk.set_acls(f"{parent}/{closed}", [make_acl("ip", "10.255.255.255", all=True)])
    assert "NoAuth" in (look(zookeeper, parent) or "")


def test_a_server_s_name_of_great_length_is_cut(zk: KazooClient, zookeeper: ZooKeeperServer) -> None:
    zk.create("/long/hbaseid", b"0f5bd3b0-3c9b-4a5e-9d3a-1d8a7c1e9f00", makepath=True)
    zk.create("/long/rs/" + "x" * 500_000, makepath=True)
    assert len(look(zookeeper, "/long") or "") == 1000
