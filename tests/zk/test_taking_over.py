"""A peer that HBase has shipped is taken over once its RegionServers have come to rest. A real ZooKeeper, and a Master."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from embedded.zookeeper import ZooKeeperServer
from tests.sessions import session_of
from tests.zk.hbase_znodes import SERVER, HBaseZNodes
from tests.zk.peer_master import PeerMaster, peer_master
from walferry.admin.creating import take_over
from walferry.admin.peers import PeerAdmin, Refused
from walferry.replication.queues.lease import acquire
from walferry.replication.source.cluster import SourceCluster


@pytest.fixture
def master(hbase: HBaseZNodes, tmp_path: Path) -> Iterator[PeerMaster]:
    hbase.stop_server(SERVER)
    hbase.add_peer("theirs", "ENABLED", {})
    with peer_master(hbase, tmp_path) as found:
        yield found


@pytest.fixture
def admin(master: PeerMaster, zookeeper: ZooKeeperServer, new_client: Callable[[], KazooClient], tmp_path: Path) -> PeerAdmin:
    at = SourceCluster(
        quorum=zookeeper.quorum, wal_root=f"file://{tmp_path}", znode_parent=master.hbase.nodes.base, root=master.hbase.root
    )
    return PeerAdmin(session_of(new_client(), at), lambda seconds: None)


def test_it_waits_as_long_as_a_call_may_take_effect_and_says_why(
    master: PeerMaster, admin: PeerAdmin, caplog: pytest.LogCaptureFixture
) -> None:
    master.hbase.set_state("theirs", "DISABLED")
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        assert master.orders == [], "it is not ours yet"

    with caplog.at_level("INFO"):
        assert take_over(PeerAdmin(admin.session, sleep), "theirs").managed
    (pause,) = slept
    assert 85 < pause <= 90
    assert f"peer theirs: waiting {pause:.0f} s: it was disabled a moment ago, and calls of its RegionServers" in caplog.text


def test_a_peer_that_is_enabled_while_it_waits_is_not_taken_over(master: PeerMaster, admin: PeerAdmin) -> None:
    master.hbase.set_state("theirs", "DISABLED")
    waiting = PeerAdmin(admin.session, lambda seconds: master.hbase.set_state("theirs", "ENABLED"))
    with pytest.raises(Refused, match="peer theirs is ENABLED"):
        take_over(waiting, "theirs")
    assert master.orders == []


def test_a_peer_that_was_always_disabled_is_not_waited_for(master: PeerMaster, admin: PeerAdmin) -> None:
    master.hbase.add_peer("idle", config={})
    master.hbase.add_wal(master.server, "idle", master.open_wal)
    began: list[float] = []
    assert take_over(PeerAdmin(admin.session, began.append), "idle").managed
    assert began == []
    acquire(admin.session, "idle", "g%2C1%2C1", "a batch").release()
