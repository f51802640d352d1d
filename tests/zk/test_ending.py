"""Requests that a run has under way when it ends take effect before anything that the next run ships."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from embedded.processes import wait_until
from embedded.zookeeper import ZooKeeperServer
from tests.unit.hbase.rpc.fake_server import FakeServer, Request, answer
from tests.zk.hbase_znodes import DEAD, HBaseZNodes, wal
from tests.zk.one_cell import queued_for_peer_cluster
from walferry.base.protos import hbase_pb2 as pb
from walferry.base.zk import right
from walferry.engine import run
from walferry.engine.summary import GroupSummary, Status
from walferry.hbase.layout import OwnZNodes
from walferry.hbase.names import parse_wal_name
from walferry.replication.peers.settings import PeerSettings, SinkKind
from walferry.replication.sinks.hbase import peer_cluster as peer_cluster_module
from walferry.shipping import attempt
from walferry.shipping.group import ship_group
from walferry.shipping.group_job import GroupJob

NAME = wal(1_700_000_000_000, DEAD)
EDITS = 40


class PeerCluster:
    """Applies requests; the first one takes until `may_go_on`."""

    def __init__(self) -> None:
        self.busy, self.may_go_on = threading.Event(), threading.Event()
        self.applied: list[int] = []

    def __call__(self, request: Request) -> bytes:
        numbers = [each.key.log_sequence_number for each in pb.ReplicateWALEntryRequest.FromString(request.param).entry]
        if not self.busy.is_set():
            self.busy.set()
            assert self.may_go_on.wait(60)
        self.applied += numbers
        return answer(request)


class StuckPeerCluster:
    """Its handlers hang while the first run ships. They go on with each request just before its time is over, as HBase may.

    It answers nothing meanwhile.
    """

    def __init__(self) -> None:
        self.stuck = True
        self.under_way: set[int] = set()
        self.applied: list[int] = []

    def __call__(self, request: Request) -> bytes:
        if request.header.method_name != "ReplicateWALEntry":
            time.sleep(5.0 * self.stuck)
        else:
            self.under_way.add(id(request))
            time.sleep((request.header.timeout / 1000 - 0.5) * self.stuck)
            entries = pb.ReplicateWALEntryRequest.FromString(request.param).entry
            self.applied += [each.key.log_sequence_number for each in entries]
            self.under_way.discard(id(request))
        return answer(request)


@pytest.fixture
def job_to(tmp_path: Path, zk: KazooClient, hbase: HBaseZNodes, zookeeper: ZooKeeperServer) -> Callable[..., GroupJob]:
    """`job_to(server, **options)` is for a WAL of a dead server that is queued for a peer whose cluster is the server."""

    def job_to(server: FakeServer, **settings: Any) -> GroupJob:
        _, at = queued_for_peer_cluster(tmp_path, zk, zookeeper.quorum, hbase, server.port, NAME, EDITS)
        return GroupJob(
            source=at, peer_id="q", group=parse_wal_name(NAME).group, run_id="r", holder="first", deadline=time.time() + 120,
            settings=PeerSettings(shipment_bytes=400, sink=SinkKind.REPLICATE, **settings),
        )  # fmt: skip

    return job_to


def next_run(job: GroupJob) -> GroupSummary:
    return ship_group(replace(job, run_id="r2", holder="next", deadline=time.time() + 60))


@pytest.mark.parametrize("patient", [True, False], ids=["waited for", "cut"])
def test_what_the_peer_cluster_still_applies_comes_before_what_the_next_run_ships(
    zk: KazooClient, job_to: Callable[..., GroupJob], monkeypatch: pytest.MonkeyPatch, patient: bool
) -> None:
    monkeypatch.setattr(run, "PUBLISH_SECONDS", 0.2)
    monkeypatch.setattr(run, "CALLS_SECONDS", 30.0 if patient else 0.1)
    monkeypatch.setattr(right, "MOST_SPARE_SECONDS", 4.0)
    peer_cluster = PeerCluster()
    with FakeServer(peer_cluster) as server, ThreadPoolExecutor(1) as pool:
        job = job_to(server, call_timeout_seconds=30.0 if patient else 4.0)
        lease = OwnZNodes(job.source.root, job.source.nodes).lease("q", job.group)

        def end(*_: object) -> None:  # as a signal's handler does
            if peer_cluster.busy.is_set():
                raise SystemExit(143)

        with monkeypatch.context() as patch:
            patch.setattr(attempt, "why_stopped", end)
            ended = threading.Thread(target=_ended, args=(job,), daemon=True)
            ended.start()
            assert peer_cluster.busy.wait(60)
            if patient:
                time.sleep(2.0)
                assert zk.get_children(lease), "the request is still under way"
                peer_cluster.may_go_on.set()
            ended.join(60)
            assert not ended.is_alive()
        following = pool.submit(next_run, job)
        time.sleep(2.0)
        peer_cluster.may_go_on.set()
        assert following.result(60).status is Status.DONE
    assert peer_cluster.applied[-1] == EDITS - 1
    first = peer_cluster.applied.index(0)
    assert peer_cluster.applied[first : first + 2] == [0, 1], "the first request was applied before any of the next run"


def test_a_run_that_gives_the_peer_cluster_up_leaves_no_request_that_comes_after_those_of_the_next(
    job_to: Callable[..., GroupJob], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(right, "MOST_SPARE_SECONDS", 2.0)
    monkeypatch.setattr(peer_cluster_module, "PING_SECONDS", 0.5)
    peer_cluster = StuckPeerCluster()
    with FakeServer(peer_cluster) as server:
        job = job_to(server, call_timeout_seconds=10.0, patience_seconds=2.0)
        assert ship_group(job).status is Status.PEER_DOWN
        peer_cluster.stuck = False
        assert not peer_cluster.applied
        assert next_run(job).status is Status.DONE
        wait_until(lambda: not peer_cluster.under_way, "the peer cluster is done with all requests", processes=[], timeout=30)
    assert peer_cluster.applied[-1] == EDITS - 1, peer_cluster.applied


def _ended(job: GroupJob) -> None:
    with pytest.raises(SystemExit):
        ship_group(job)
