"""The source's ZooKeeper stops in mid-shipment for longer than a session lasts. When it goes on, so does the group."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from embedded.zookeeper import ZooKeeperServer
from tests.unit.hbase.rpc.fake_server import FakeServer, Request, answer
from tests.unit.hbase.wal.encoder import PUT, Cell, Entry, encode_wal
from tests.zk.hbase_znodes import DEAD, HBaseZNodes, LastingZNodes, wal
from walferry.base.protos import hbase_pb2 as pb
from walferry.base.security.login import Login
from walferry.base.zk.client import connect, disconnect
from walferry.engine.summary import Status
from walferry.hbase.names import parse_wal_name
from walferry.replication.peers.settings import PeerSettings, SinkKind
from walferry.replication.source.cluster import SourceCluster
from walferry.shipping.group import ship_group
from walferry.shipping.group_job import GroupJob

SESSION_SECONDS = 3.0
ENTRIES = 400
NAME = wal(1_700_000_000_000, DEAD)


def entries() -> Iterator[Entry]:
    for i in range(ENTRIES):
        key = pb.WALKey(encoded_region_name=b"r%d" % (i % 5), table_name=b"t", log_sequence_number=i)
        key.write_time = 1_700_000_000_001 + i
        key.following_kv_count = 1
        key.scopes.add(family=b"f", scope_type=pb.REPLICATION_SCOPE_GLOBAL)
        yield Entry(key, (Cell(b"row%d" % i, b"f", b"q", i, PUT, b"v" * 50),))


def slowly(request: Request) -> bytes:
    time.sleep(0.1)
    return answer(request)


def arrived(peer_cluster: FakeServer) -> set[int]:
    requests = [pb.ReplicateWALEntryRequest.FromString(request.param) for request in list(peer_cluster.requests)]
    return {entry.key.log_sequence_number for request in requests for entry in request.entry}


@pytest.fixture
def brief_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def connected(quorum: str, login: Login) -> Iterator[KazooClient]:
        zk = connect(quorum, session_timeout=SESSION_SECONDS, call_timeout=5, login=login)
        try:
            yield zk
        finally:
            disconnect(zk)

    monkeypatch.setattr("walferry.replication.source.session.connected", connected)


@pytest.mark.slow
def test_a_group_goes_on_in_a_new_session_with_a_new_lease(
    tmp_path: Path, hbase: HBaseZNodes, zookeeper: ZooKeeperServer, brief_sessions: None, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "hbase" / "oldWALs").mkdir(parents=True)
    (tmp_path / "hbase" / "oldWALs" / NAME).write_bytes(encode_wal(entries()))
    with ZooKeeperServer(tmp_path / "source") as server, FakeServer(slowly) as peer_cluster:
        hbase.zk.create(f"{hbase.nodes.rs}/127.0.0.1,{peer_cluster.port},1", ephemeral=True)
        for name in set(hbase.zk.get_children(hbase.nodes.rs)) - {f"127.0.0.1,{peer_cluster.port},1"}:
            hbase.stop_server(name)
        zk = connect(server.quorum, session_timeout=120)
        source = LastingZNodes.new(zk)
        source.add_peer("p", clusterkey=f"{zookeeper.quorum}:{hbase.nodes.base}")
        path = source.add_wal(DEAD, "p", NAME)
        at = SourceCluster(
            quorum=server.quorum, wal_root=f"file://{tmp_path}/hbase", znode_parent=source.nodes.base, root=source.root
        )
        job = GroupJob(
            source=at, peer_id="p", group=parse_wal_name(NAME).group, run_id="r", holder="h", deadline=time.time() + 120,
            settings=PeerSettings(shipment_bytes=400, sink=SinkKind.REPLICATE),
        )  # fmt: skip
        with ThreadPoolExecutor(1) as pool:
            shipped = pool.submit(ship_group, job)
            give_up = time.monotonic() + 60
            while not zk.get(path)[0]:  # its first position
                assert time.monotonic() < give_up
                time.sleep(0.05)
            assert server.process
            os.kill(server.process.pid, signal.SIGSTOP)
            threading.Event().wait(3 * SESSION_SECONDS)
            os.kill(server.process.pid, signal.SIGCONT)
            summary = shipped.result(120)
        assert summary.status is Status.DONE, summary.error
        assert arrived(peer_cluster) == set(range(ENTRIES))
        assert source.queued("p") == []
        disconnect(zk)
    assert "begins again where it is registered" in caplog.text
