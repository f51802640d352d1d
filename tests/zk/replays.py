"""A peer whose WALs of an interval are shipped again by tasks, and a peer cluster that notes the edits it gets."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from embedded.zookeeper import ZooKeeperServer
from tests.unit.hbase.rpc.fake_server import FakeServer, Request, answer
from tests.unit.hbase.wal.encoder import encode_wal
from tests.zk.hbase_znodes import DEAD, SERVER, HBaseZNodes, LastingZNodes, wal
from tests.zk.one_cell import edits_of_one_cell
from walferry.base.protos import hbase_pb2 as pb
from walferry.engine.summary import GroupSummary, Status
from walferry.hbase.files.listing import WalFile, WalPlace
from walferry.hbase.names import ServerName, parse_wal_name
from walferry.replay import shipment
from walferry.replay.files import GroupFiles
from walferry.replay.interval import Interval
from walferry.replay.job import ReplayJob
from walferry.replay.order import Stages
from walferry.replay.shipment import ship_group
from walferry.replication.peers.reading import check_shippable
from walferry.replication.peers.settings import PeerSettings, SinkKind
from walferry.replication.source.cluster import SourceCluster
from walferry.replication.source.peers import read_peer
from walferry.replication.source.session import Session

NAMES = [wal(1_700_000_000_000 + number, DEAD) for number in range(2)]
EDITS = 60  # of each WAL
MANAGED = {"walferry.managed": "true"}


class PeerCluster:
    """Takes a while for each request, and notes the edits that it has got."""

    def __init__(self) -> None:
        self.seconds = 0.2
        self.got: list[int] = []

    def __call__(self, request: Request) -> bytes:
        time.sleep(self.seconds)
        found = pb.ReplicateWALEntryRequest.FromString(request.param).entry
        self.got += [each.key.log_sequence_number for each in found]
        return answer(request)


class World:
    """A peer whose cluster notes its edits, and two WALs with edits for the peer."""

    def __init__(self, folder: Path, zk: KazooClient, hbase: HBaseZNodes, quorum: str, server: FakeServer) -> None:
        (folder / "hbase" / "oldWALs").mkdir(parents=True)
        wals = []
        for number, name in enumerate(NAMES):
            path = folder / "hbase" / "oldWALs" / name
            path.write_bytes(encode_wal(edits_of_one_cell(range(number * EDITS, (number + 1) * EDITS))))
            wals.append(WalFile(parse_wal_name(name), f"file://{path}", path.stat().st_size, None, WalPlace.OLD))
        self.files = GroupFiles(wals[0].name.group, ServerName.parse(DEAD), tuple(wals))
        hbase.stop_server(SERVER)
        hbase.zk.create(f"{hbase.nodes.rs}/127.0.0.1,{server.port},1", ephemeral=True)
        self.source = LastingZNodes.new(zk)
        self._key = {"clusterkey": f"{quorum}:{hbase.nodes.base}"}
        self.source.add_peer("q", **self._key)
        at = SourceCluster(
            quorum=quorum, wal_root=f"file://{folder}/hbase", znode_parent=self.source.nodes.base, root=self.source.root
        )
        self.job = ReplayJob(
            source=at, peer_id="q", interval=Interval(0, 1 << 60), run_id="again", deadline=time.time() + 120,
            settings=PeerSettings(shipment_bytes=400, sink=SinkKind.REPLICATE),
        )  # fmt: skip

    def pause(self, paused: bool) -> None:
        config = {**MANAGED, "walferry.paused": "true"} if paused else MANAGED
        self.source.zk.set(self.source.nodes.peer("q"), self.source._peer(config, **self._key))

    def ship(self, **changes: Any) -> GroupSummary:
        begun = GroupSummary(group=self.files.group, status=Status.DONE)
        return ship_group(replace(self.job, **changes), self.files, Stages(), 0, begun)


@pytest.fixture
def peer_cluster() -> PeerCluster:
    return PeerCluster()


@pytest.fixture
def world(
    tmp_path: Path,
    zk: KazooClient,
    hbase: HBaseZNodes,
    zookeeper: ZooKeeperServer,
    peer_cluster: PeerCluster,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[World]:
    def check_peer(session: Session, peer_id: str) -> Any:  # there is no Master to ask
        peer = read_peer(session, peer_id)
        check_shippable(peer)
        return peer

    monkeypatch.setattr(shipment, "check_peer", check_peer)
    with FakeServer(peer_cluster) as server:
        yield World(tmp_path, zk, hbase, zookeeper.quorum, server)


def soon(peer_cluster: PeerCluster, number: int) -> Callable[[], bool]:
    return lambda: number in peer_cluster.got
