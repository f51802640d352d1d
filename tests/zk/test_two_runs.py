"""Two runs never ship one queue at the same time, even if the first one is cut off from ZooKeeper and from nothing else."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from embedded.zookeeper import ZooKeeperServer
from tests.cluster.proxy import proxied_zookeeper
from tests.unit.hbase.rpc.fake_server import FakeServer, Request, answer
from tests.zk.hbase_znodes import DEAD, HBaseZNodes, wal
from tests.zk.one_cell import queued_for_peer_cluster
from tests.zk.test_paused_shipment import brief_sessions
from walferry.base.protos import hbase_pb2 as pb
from walferry.base.zk import right
from walferry.engine.summary import Status
from walferry.hbase.names import parse_wal_name
from walferry.replication.peers.settings import PeerSettings, SinkKind
from walferry.shipping.group import ship_group
from walferry.shipping.group_job import GroupJob

__all__ = ["brief_sessions"]  # a fixture

NAME = wal(1_700_000_000_000, DEAD)
EDITS = 4000
CALL_SECONDS, SPARE_SECONDS = 5.0, 3.0


class PeerCluster:
    """Notes when each request came, and its last edit. The first run's requests are small, and slow."""

    def __init__(self) -> None:
        self.small: list[tuple[float, int]] = []
        self.large: list[tuple[float, int]] = []

    def __call__(self, request: Request) -> bytes:
        came = time.monotonic()
        numbers = [each.key.log_sequence_number for each in pb.ReplicateWALEntryRequest.FromString(request.param).entry]
        if len(numbers) < 20:
            time.sleep(0.25)
        (self.small if len(numbers) < 20 else self.large).append((came, numbers[-1]))
        return answer(request)


def test_a_run_that_is_cut_off_from_zookeeper_has_sent_its_last_request_before_the_next_run_sends_one(
    tmp_path: Path, zk: KazooClient, hbase: HBaseZNodes, zookeeper: ZooKeeperServer, brief_sessions: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(right, "MOST_SPARE_SECONDS", SPARE_SECONDS)
    peer_cluster = PeerCluster()
    with FakeServer(peer_cluster) as server, proxied_zookeeper(zookeeper.quorum) as proxy, ThreadPoolExecutor(1) as pool:
        source, at = queued_for_peer_cluster(tmp_path, zk, zookeeper.quorum, hbase, server.port, NAME, EDITS)
        path = source.nodes.wal(DEAD, "q", NAME)
        settings = PeerSettings(shipment_bytes=400, sink=SinkKind.REPLICATE, call_timeout_seconds=CALL_SECONDS)
        job = GroupJob(
            source=replace(at, quorum=f"127.0.0.1:{proxy.port}"), peer_id="q", group=parse_wal_name(NAME).group, run_id="r1",
            holder="first", deadline=time.time() + 60, settings=settings,
        )  # fmt: skip
        first = pool.submit(ship_group, job)
        while not zk.get(path)[0]:
            time.sleep(0.05)
        proxy.cut()
        larger = replace(settings, shipment_bytes=2 << 20)
        second = ship_group(replace(job, source=at, run_id="r2", holder="second", settings=larger))
        assert (second.status, source.queued("q")) == (Status.DONE, [])
        proxy.mend()
        assert first.result(120).status is Status.DONE
    assert peer_cluster.small, "the first run has shipped something"
    last, following = peer_cluster.small[-1][0], peer_cluster.large[0][0]
    assert last + CALL_SECONDS + SPARE_SECONDS < following, "its last request had its time"
    assert peer_cluster.large[-1][1] == EDITS - 1
