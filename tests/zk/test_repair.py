"""A repair has the peer in hand while it ships, in a real ZooKeeper."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from kazoo.client import KazooClient

from embedded.processes import wait_until
from embedded.zookeeper import ZooKeeperServer
from tests.sessions import session_of
from tests.zk.hbase_znodes import HBaseZNodes, expire
from walferry.shipping.in_hand import NO_TURN, InHand, InOtherHands, RightLost, in_hand, turn_of
from walferry.source.cluster import SourceCluster
from walferry.verification import repair
from walferry.verification.repair import TurnGround, repairing
from walferry.zk.right import Right, spare_seconds

PEER: Any = SimpleNamespace(id="p", config={})


@pytest.fixture
def at(hbase: HBaseZNodes, zookeeper: ZooKeeperServer, monkeypatch: pytest.MonkeyPatch) -> SourceCluster:
    @contextmanager
    def no_slave(*args: object) -> Iterator[object]:
        yield None

    monkeypatch.setattr(repair, "row_shipment", no_slave)
    return SourceCluster(quorum=zookeeper.quorum, wal_root="file:///hbase", znode_parent=hbase.nodes.base, root=hbase.root)


def test_a_batch_leaves_the_peer_to_a_repair(zk: KazooClient, at: SourceCluster) -> None:
    planned = turn_of(session_of(zk, at), "p", "batch").number
    batch = in_hand(at, "p", "batch", "batch 1", planned)
    with repairing(session_of(zk, at), PEER, "t"), pytest.raises(InOtherHands, match="a repair of table t on"), batch:
        pytest.fail("two runs have the peer in hand")


def test_a_repair_waits_for_a_batch(zk: KazooClient, at: SourceCluster) -> None:
    begun = threading.Event()

    def run() -> None:
        with repairing(session_of(zk, at), PEER, "t"):
            begun.set()

    with ThreadPoolExecutor(1) as pool:
        with in_hand(at, "p", "batch", "batch 1", NO_TURN):
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


def test_nothing_more_is_sent_once_another_run_has_the_peer(zk: KazooClient, at: SourceCluster) -> None:
    session = session_of(zk, at)
    with in_hand(at, "p", "a", "repair", NO_TURN) as mine:
        ground = TurnGround(session, "p", mine)
        assert ground.is_sure()
    with in_hand(at, "p", "b", "batch 1", turn_of(session, "p", "b").number), pytest.raises(RightLost, match="peer p in hand"):
        ground.is_sure()


@pytest.mark.parametrize("killed_too", [False, True])
def test_what_a_killed_repair_has_sent_has_its_time_before_a_batch_has_the_peer(
    new_client: Callable[[], KazooClient], zk: KazooClient, at: SourceCluster, killed_too: bool
) -> None:
    """A server that stood still may carry it out late, over what the batch ships. The batch may be killed while it waits."""
    repairs = Right(TurnGround(session_of(zk, at), "p", killed := has_peer(new_client(), at, "repair", calls_seconds=1.0)), 1.0)
    repairs.begin(2.0).may_go_on()  # it has more time than usual
    end(zk, killed)
    if killed_too:
        end(zk, has_peer(new_client(), at, "batch 1"))
    began = time.monotonic()
    with in_hand(at, "p", "b", "batch 2", turn_of(session_of(zk, at), "p", "b").number):
        assert time.monotonic() - began > 2.0 + spare_seconds(2.0)
    began = time.monotonic()
    with in_hand(at, "p", "c", "batch 3", turn_of(session_of(zk, at), "p", "c").number):
        assert time.monotonic() - began < 1


def has_peer(zk: KazooClient, at: SourceCluster, run: str, calls_seconds: float = 0.0) -> InHand:
    """A run of its own client that has the peer in hand."""
    found = InHand(session_of(zk, at), "p", run, run, calls_seconds)
    found.take(turn_of(session_of(zk, at), "p", run).number)
    return found


def end(zk: KazooClient, killed: InHand) -> None:
    """Let a run be killed, and its session end."""
    killed._ended.set()
    expire(killed._zk)
    wait_until(lambda: not zk.get_children(killed._path), "its session has ended", processes=[], timeout=30)
