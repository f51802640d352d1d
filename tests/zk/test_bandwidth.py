"""The groups that share a peer's bandwidth count one another in ZooKeeper."""

from __future__ import annotations

import threading
from contextlib import ExitStack

import pytest
from kazoo.client import KazooClient

from tests.sessions import session_of
from tests.zk.hbase_znodes import HBaseZNodes
from walferry.base.zk.client import children
from walferry.engine.bandwidth import Limit, limit_of
from walferry.replication.peers.reading import Peer
from walferry.replication.source.session import Session

PEER = Peer("p", "zk1:2181:/hbase", "DISABLED", {}, bandwidth=1000)


def members(session: Session) -> list[str] | None:
    return children(session.zk, session.own.shipping("p"))


def sharing(stack: ExitStack, session: Session) -> Limit:
    """The limit of a group that has something to send."""
    limit = stack.enter_context(limit_of(PEER, session, threading.Event()))
    stack.enter_context(limit.sending())
    limit.look()
    return limit


def test_groups_join_and_leave_and_the_last_one_leaves_nothing(hbase: HBaseZNodes, zk: KazooClient) -> None:
    session = session_of(zk, hbase)
    with ExitStack() as stack:
        stack.enter_context(limit_of(PEER, session, threading.Event())).look()
        assert members(session) is None  # it has nothing to send
        for count in (1, 2, 3):
            sharing(stack, session)
            assert len(members(session) or ()) == count
    assert members(session) is None


def test_a_group_whose_session_has_ended_does_not_count_until_it_looks_again(
    hbase: HBaseZNodes, new_client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("walferry.engine.bandwidth.SHARE_SECONDS", 0.0)
    killed, other = new_client(), session_of(new_client(), hbase)
    with ExitStack() as stack:
        first = sharing(stack, session_of(killed, hbase))
        sharing(stack, other)
        assert len(members(other) or ()) == 2
        killed.stop()
        assert len(members(other) or ()) == 1
        killed.start()
        first.look()
        assert len(members(other) or ()) == 2
    assert members(other) is None


def test_a_peer_without_bandwidth_leaves_nothing_in_zookeeper(hbase: HBaseZNodes, zk: KazooClient) -> None:
    session = session_of(zk, hbase)
    peer = Peer("p", "zk1:2181:/hbase", "DISABLED", {})
    with limit_of(peer, session, threading.Event()) as limit, limit.sending():
        limit.look()
        assert members(session) is None
