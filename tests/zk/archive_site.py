"""A source with an archive, whose dead server left WALs for two peers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from embedded.zookeeper import ZooKeeperServer
from tests.unit.hbase.rpc.fake_server import FakeServer
from tests.unit.hbase.wal.encoder import encode_wal
from tests.zk.hbase_znodes import DEAD, HBaseZNodes, LastingZNodes, wal
from tests.zk.test_paused_shipment import entries
from walferry.engine.summary import GroupSummary
from walferry.hbase.files import clients
from walferry.hbase.files.quarantine import BrokenWals
from walferry.hbase.names import parse_wal_name
from walferry.hbase.values import decode_position
from walferry.replication.peers.settings import PeerSettings, SinkKind
from walferry.replication.retention.archive import WalArchive
from walferry.replication.source.cluster import SourceCluster
from walferry.shipping.group import ship_group
from walferry.shipping.group_job import GroupJob

NAMES = [wal(1_700_000_000_000 + number, DEAD) for number in range(3)]
EMPTY = NAMES[1]
GROUP = parse_wal_name(NAMES[0]).group


class Site:
    """A source whose server died with three WALs queued for the peers p and q. The second WAL has no edits."""

    def __init__(self, folder: Path, hbase: LastingZNodes, peer_cluster: HBaseZNodes, quorum: str) -> None:
        self.hbase, self.folder = hbase, folder
        (folder / "hbase" / "oldWALs").mkdir(parents=True)
        for peer in ("p", "q"):
            hbase.add_peer(peer, clusterkey=f"{quorum}:{peer_cluster.nodes.base}")
            for name in NAMES:
                hbase.add_wal(DEAD, peer, name)
        for name in NAMES:
            data = encode_wal(() if name == EMPTY else entries())
            (folder / "hbase" / "oldWALs" / name).write_bytes(data)
        self.at = SourceCluster(
            quorum=quorum, wal_root=f"file://{folder}/hbase", znode_parent=hbase.nodes.base, root=hbase.root,
            archive=f"file://{folder}/archive", quarantine=f"file://{folder}/quarantine",
        )  # fmt: skip
        self.archive = WalArchive(self.at.archive or "")

    def ship(self, peer: str = "p", run: str = "r", deadline: float = 60, broken: BrokenWals = BrokenWals.STOP) -> GroupSummary:
        job = GroupJob(
            source=self.at, peer_id=peer, group=GROUP, run_id=run, holder=run, deadline=time.time() + deadline,
            broken_wals=broken, settings=PeerSettings(sink=SinkKind.REPLICATE),
        )  # fmt: skip
        return ship_group(job)

    def queued(self, peer: str = "p") -> dict[str, int]:
        """The positions of the peer's queued WALs, by name."""
        values = self.hbase.values(self.hbase.queued(peer))
        return {path.rpartition("/")[2]: decode_position(value, path) for path, value in values.items()}

    def archived(self) -> dict[str, bytes]:
        """The archive's content."""
        return {kept.name.text: Path(clients.local_path(kept.url)).read_bytes() for kept in self.archive.wals()}

    def files(self) -> dict[str, bytes]:
        """The files of the WALs with edits."""
        return {name: (self.folder / "hbase" / "oldWALs" / name).read_bytes() for name in NAMES if name != EMPTY}


@pytest.fixture
def peer_cluster(hbase: HBaseZNodes) -> Iterator[FakeServer]:
    with FakeServer() as server:
        for name in hbase.zk.get_children(hbase.nodes.rs):
            hbase.stop_server(name)
        hbase.zk.create(f"{hbase.nodes.rs}/127.0.0.1,{server.port},1", ephemeral=True)
        yield server


@pytest.fixture
def site(
    tmp_path: Path,
    hbase: HBaseZNodes,
    peer_cluster: FakeServer,
    zookeeper: ZooKeeperServer,
    new_client: Callable[[], KazooClient],
) -> Site:
    return Site(tmp_path, LastingZNodes.new(new_client()), hbase, zookeeper.quorum)
