"""The groups that share a peer's bandwidth count one another in ZooKeeper."""

from __future__ import annotations

import threading
from contextlib import ExitStack

from kazoo.client import KazooClient

from tests.sessions import session_of
from tests.zk.hbase_znodes import HBaseZNodes
from walferry.hbase.peers import Peer
from walferry.shipping.bandwidth import limit_of
from walferry.source.session import Session
from walferry.zk.client import children

PEER = Peer("p", "zk1:2181:/hbase", "DISABLED", {}, bandwidth=1000)


def members(session: Session) -> list[str] | None:
    return children(session.zk, session.own.shipping("p"))


def test_groups_join_and_leave_and_the_last_one_leaves_nothing(hbase: HBaseZNodes, zk: KazooClient) -> None:
    session = session_of(zk, hbase)
    with ExitStack() as stack:
        for count in (1, 2, 3):
            stack.enter_context(limit_of(PEER, session, threading.Event()))
            assert len(members(session) or ()) == count
    assert members(session) is None


def test_a_group_whose_session_has_ended_does_not_count(hbase: HBaseZNodes, new_client) -> None:
    killed, other = new_client(), session_of(new_client(), hbase)
    with limit_of(PEER, session_of(killed, hbase), threading.Event()), limit_of(PEER, other, threading.Event()):
        assert len(members(other) or ()) == 2
        killed.stop()
        assert len(members(other) or ()) == 1
        killed.start()
    assert members(other) is None


def test_a_peer_without_bandwidth_leaves_nothing_in_zookeeper(hbase: HBaseZNodes, zk: KazooClient) -> None:
    session = session_of(zk, hbase)
    with limit_of(Peer("p", "zk1:2181:/hbase", "DISABLED", {}), session, threading.Event()):
        assert members(session) is None
