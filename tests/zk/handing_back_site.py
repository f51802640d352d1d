"""A peer of ours at a Master, and operators who hand it back to HBase."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from embedded.zookeeper import ZooKeeperServer
from tests.sessions import session_of
from tests.zk.hbase_znodes import SERVER, HBaseZNodes
from tests.zk.peer_master import PeerMaster, peer_master
from walferry.admin.handing_back import begin_hand_back
from walferry.admin.peers import PeerAdmin
from walferry.base.zk.fenced_lock import FencedLock
from walferry.hbase.names import parse_wal_name
from walferry.replication.queues.lease import acquire
from walferry.replication.queues.lease import lock_of as lease_of
from walferry.replication.source.cluster import SourceCluster

NEW = "n"


@dataclass
class Site:
    """A peer `p` of ours at a Master, and operators who hand it back."""

    master: PeerMaster
    at: SourceCluster
    new_client: Callable[[], KazooClient]
    slept: list[float] = field(default_factory=list)

    def admin(self, zk: KazooClient | None = None) -> PeerAdmin:
        """Return another command. Its sleeps are only noted."""
        return PeerAdmin(session_of(zk or self.new_client(), self.at), self.slept.append)

    @property
    def group(self) -> str:
        return parse_wal_name(self.master.open_wal).group

    def ship(self, peer_id: str = "p") -> None:
        """Ship as a batch with a roll does: all closed WALs leave the queue."""
        self.master.roll()
        with acquire(session_of(self.master.hbase.zk, self.at), peer_id, self.group, "a batch") as lease:
            for name in self.master.queued(peer_id)[:-1]:
                lease.remove_wal(name)

    def begin_shipped(self) -> PeerAdmin:
        """Begin handing back, and ship the edits from before."""
        admin = self.admin()
        begin_hand_back(admin, "p", NEW)
        self.ship()
        self.master.orders.clear()
        return admin


@pytest.fixture
def site(
    hbase: HBaseZNodes, zookeeper: ZooKeeperServer, new_client: Callable[[], KazooClient], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Site]:  # fmt: skip
    hbase.stop_server(SERVER)
    at = SourceCluster(quorum=zookeeper.quorum, wal_root=f"file://{tmp_path}", znode_parent=hbase.nodes.base, root=hbase.root)
    with peer_master(hbase, tmp_path) as master:
        yield Site(master, at, new_client)


def lease(site: Site, zk: KazooClient) -> FencedLock:
    return lease_of(session_of(zk, site.at), "p", site.group)
