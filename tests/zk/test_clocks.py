"""A glance at servers' web pages tells whether the clocks of two clusters are apart. A real ZooKeeper, and pages of the tests."""

from __future__ import annotations

import time
from collections.abc import Callable
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler

import pytest
from kazoo.client import KazooClient

from embedded.zookeeper import ZooKeeperServer
from tests.sessions import session_of
from tests.zk.fixtures import hbase, new_client, zk
from tests.zk.hbase_znodes import HBaseZNodes
from tests.zk.web_page import Answer, add_server, web_page
from walferry.replication.source.cluster import SourceCluster
from walferry.replication.source.peers import read_peer
from walferry.verification.clocks import glance, surely_apart_ms

__all__ = ["hbase", "new_client", "zk"]  # fixtures


def dated(ahead_seconds: float, status: int = 200) -> Answer:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response_only(status)
        handler.send_header("Date", formatdate(time.time() + ahead_seconds, usegmt=True))
        handler.end_headers()

    return answer


def headed(text: str) -> Answer:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response_only(200)
        handler.send_header("Date", text)
        handler.end_headers()

    return answer


@pytest.mark.parametrize("ahead", [-3600.0, -1.5, 0.0, 0.4, 10.0])
@pytest.mark.parametrize("status", [200, 401])
def test_the_true_skew_lies_within_the_bounds(zk: KazooClient, hbase: HBaseZNodes, ahead: float, status: int) -> None:
    with web_page(dated(ahead, status)) as port:
        add_server(hbase, port)
        (found,) = glance(zk, hbase.nodes)
    assert abs(found.ahead_ms - 1000 * ahead) <= found.within_ms
    assert found.within_ms < 2000


@pytest.mark.parametrize("text", ["", "soon", "Thu, 99 Foo 2026 00:00:00 GMT", "Sat, 28 Nov 2026 08:00:00", "9" * 5000])
def test_a_page_without_a_time_tells_nothing(zk: KazooClient, hbase: HBaseZNodes, text: str) -> None:
    with web_page(headed(text)) as port:
        add_server(hbase, port)
        assert glance(zk, hbase.nodes) == []


def test_one_server_of_the_peer_cluster_that_is_ahead_is_found_and_equal_clocks_are_not_called_apart(
    zk: KazooClient, hbase: HBaseZNodes, new_client: Callable[[], KazooClient], zookeeper: ZooKeeperServer
) -> None:
    """The peer cluster's znodes lie in the same ensemble, under another parent."""
    there = HBaseZNodes.new(new_client())
    at = SourceCluster(quorum=zookeeper.quorum, wal_root="file:///hbase", znode_parent=hbase.nodes.base, root=hbase.root)
    hbase.add_peer("q", clusterkey=f"{zookeeper.quorum}:{there.nodes.base}")
    session = session_of(zk, at)
    peer = read_peer(session, "q")
    with web_page(dated(0)) as right, web_page(dated(10)) as ahead:
        add_server(there, right, 1)
        assert surely_apart_ms(session, peer) == 0, "no page of the source"
        add_server(hbase, right, 1)
        assert surely_apart_ms(session, peer) == 0
        add_server(there, ahead, 2)
        assert 8000 < surely_apart_ms(session, peer) < 10_000
