"""No queue of a peer is shipped while an initial snapshot of it is under way, even by a run that began earlier."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from embedded.processes import wait_until
from embedded.zookeeper import ZooKeeperServer
from tests.sessions import session_of
from tests.unit.hbase.rpc.fake_server import FakeServer
from tests.zk.hbase_znodes import DEAD, HBaseZNodes, wal
from tests.zk.one_cell import queued_for_peer_cluster
from walferry.base.zk.records import encode
from walferry.base.zk.right import spare_seconds
from walferry.engine.summary import Status
from walferry.hbase.names import parse_wal_name
from walferry.initial_snapshot import job as snapshot_job
from walferry.initial_snapshot.beginning import await_quiet
from walferry.load.copy_records import CopyState
from walferry.replication.peers.settings import PeerSettings, SinkKind
from walferry.replication.queues import lease as leases
from walferry.replication.queues.errors import LeaseHeld
from walferry.replication.queues.lease import acquire
from walferry.shipping import ship_run
from walferry.shipping.group_job import GroupJob

NAME = wal(1_700_000_000_000, DEAD)
GROUP = parse_wal_name(NAME).group


@pytest.fixture
def peer_cluster() -> Iterator[FakeServer]:
    with FakeServer() as server:
        yield server


@pytest.fixture
def job(tmp_path: Path, zk: KazooClient, hbase: HBaseZNodes, zookeeper: ZooKeeperServer, peer_cluster: FakeServer) -> GroupJob:
    """A job for a dead server's group of peer q, whose queue has one WAL."""
    _, at = queued_for_peer_cluster(tmp_path, zk, zookeeper.quorum, hbase, peer_cluster.port, NAME, edits=3)
    return GroupJob(
        source=at, peer_id="q", group=GROUP, run_id="drain", holder="a drain", deadline=time.time() + 60,
        settings=PeerSettings(sink=SinkKind.REPLICATE),
    )  # fmt: skip


def test_a_task_that_begins_late_ships_nothing_while_an_initial_snapshot_is_under_way(
    zk: KazooClient, job: GroupJob, peer_cluster: FakeServer
) -> None:
    """The task's job checked before that copy began, and Spark had no free core for the task until now."""
    session = session_of(zk, job)
    peer = zk.exists(session.nodes.peer("q"))
    assert peer is not None
    state = CopyState(peer.czxid, "the copy")
    zk.create(session.own.initial_snapshot("q"), encode(state), makepath=True)
    summary = ship_run.ship(job)
    assert (summary.status, peer_cluster.requests) == (Status.HELD, [])
    assert summary.error
    assert "initial snapshot, begun by run the copy, is not complete" in summary.error
    zk.set(session.own.initial_snapshot("q"), encode(replace(state, complete=True)))
    assert ship_run.ship(job).status is Status.DONE


def test_an_initial_snapshot_begins_when_nobody_ships_the_peer_any_more(zk: KazooClient, job: GroupJob) -> None:
    """Recoveries do not hold the peer lock. Edits that they ship late would lie over the copy."""
    session, reported, begun = session_of(zk, job), list[str](), threading.Event()
    lease = acquire(session, "q", GROUP, "a drain on host h", calls_seconds=4.0)

    def copy() -> None:
        await_quiet(session, "q", "a copy", reported.append, wait_seconds=60)
        begun.set()

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(copy)
        wait_until(lambda: bool(reported), "it waits", processes=[], timeout=30)
        assert f"WAL group {GROUP} of peer q is held by a drain on host h" in reported[0]
        lease.right.begin(2.0).may_go_on()  # and no answer comes
        released = time.monotonic()
        lease.release()
        waiting.result(60)
        assert time.monotonic() - released > 1.0 + spare_seconds(2.0)
    assert "may take effect for" in reported.pop()
    again = time.monotonic()
    await_quiet(session, "q", "a copy", reported.append, wait_seconds=60)
    assert time.monotonic() - again < 1.5
    assert len(reported) == 1


def test_it_does_not_wait_for_ever(zk: KazooClient, job: GroupJob) -> None:
    session = session_of(zk, job)
    await_quiet(session, "q", "a copy", print, wait_seconds=0)  # no group was ever shipped
    with acquire(session, "q", GROUP, "a drain"), pytest.raises(LeaseHeld, match="held by a drain"):
        await_quiet(session, "q", "a copy", print, wait_seconds=0)


def test_an_initial_snapshot_waits_for_what_hbase_was_shipping_when_the_peer_was_disabled(
    zk: KazooClient, job: GroupJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a RegionServer's call reached the peer cluster after the copy, it would bring back rows that the copied table no longer
    has."""
    slept: list[float] = []

    class Slept(Exception):
        pass

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        raise Slept

    state = session_of(zk, job).nodes.peer_state("q")
    zk.set(state, zk.get(state)[0])  # as after it was enabled and disabled
    monkeypatch.setattr(snapshot_job, "peer_to_copy", lambda session, peer_id: None)
    monkeypatch.setattr(leases.time, "sleep", sleep)
    request = snapshot_job.CopyRun(source=job.source, peer_id="q", run_id="run")
    with pytest.raises(Slept):
        snapshot_job.initial_snapshot(request, lambda tasks: pytest.fail("it copies"))
    assert slept[0] == pytest.approx(leases.HBASE_CALL_SECONDS + spare_seconds(leases.HBASE_CALL_SECONDS), abs=10)
