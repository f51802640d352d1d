"""Shipped WALs are copied to the archive before they leave their queues, whatever fails in between."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from kazoo.client import KazooClient

from tests.sessions import session_of
from tests.unit.hbase.rpc.fake_server import FakeServer
from tests.zk.archive_site import GROUP, NAMES, Site, peer_cluster, site
from tests.zk.claim_cluster import Killed
from tests.zk.hbase_znodes import DEAD, expire
from tests.zk.test_paused_shipment import arrived
from walferry.engine.summary import Status
from walferry.hbase.files import clients, systems
from walferry.hbase.names import parse_wal_name
from walferry.replication.queues.lease import acquire
from walferry.replication.retention.archive import NotArchived, archive_wal

__all__ = ["peer_cluster", "site"]  # fixtures

JOB = """
import sys, time
from walferry.hbase.files import systems
from walferry.shipping.group_job import GroupJob
from walferry.shipping.group import ship_group
from walferry.replication.source.cluster import SourceCluster
from walferry.replication.peers.settings import PeerSettings, SinkKind
def wait(*_): print("copied", flush=True); time.sleep(600)
systems._put_in_place = wait
ship_group(GroupJob(source=SourceCluster.from_json(sys.argv[1]), peer_id=sys.argv[2], group=sys.argv[3], run_id="killed",
                    holder="h", deadline=time.time() + 120, settings=PeerSettings(sink=SinkKind.REPLICATE)))
"""


@pytest.fixture
def copies(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The URLs that are copied."""
    copied: list[str] = []
    copy = systems.copy_file

    def counted(source: str, target: str) -> None:
        copied.append(source)
        copy(source, target)

    monkeypatch.setattr("walferry.replication.retention.archive.copy_file", counted)
    return copied


def test_shipped_wals_are_in_the_archive_when_they_have_left_the_queue(site: Site) -> None:
    summary = site.ship()
    assert (summary.status, summary.completedLogs) == (Status.DONE, 3), summary.error
    assert site.queued() == {}
    assert site.archived() == site.files()  # a WAL without edits is not copied
    assert set(site.queued("q")) == set(NAMES)
    assert site.hbase.children(f"{site.at.root}/archiving/%2F{site.at.znode_parent[1:]}") == []


def test_peers_that_ship_the_same_wals_at_the_same_time_copy_them_once(site: Site, copies: list[str]) -> None:
    with ThreadPoolExecutor(2) as pool:
        summaries = list(pool.map(site.ship, ("p", "q")))
    assert [summary.status for summary in summaries] == [Status.DONE] * 2, summaries
    assert len(copies) == len(set(copies)) == 2
    assert site.archived() == site.files()
    assert (site.queued("p"), site.queued("q")) == ({}, {})


@pytest.mark.parametrize(
    ("step", "after"), [("makedirs", False), ("open", False), ("mv", False), ("mv", True), ("removal", False), ("removal", True)]
)
def test_killed_between_any_two_steps_the_wal_is_queued_or_archived(
    site: Site, step: str, after: bool, new_client: Callable[[], KazooClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first try ends just before the step, or just after it."""
    name, client = parse_wal_name(NAMES[0]), new_client()
    session = session_of(client, site.at)
    lease = acquire(session, "p", GROUP, "first")
    on, what = (lease, "remove_wal") if step == "removal" else (clients.file_system("file:///"), step)
    call = getattr(on, what)

    def killed(*args: object, **options: object) -> None:
        if after:
            call(*args, **options)
        raise Killed

    def first_try() -> None:
        archive_wal(session, name, [DEAD], lambda: False)
        lease.remove_wal(name.text)

    with monkeypatch.context() as patch:
        patch.setattr(systems.NewFile, "_discard", lambda _: None)  # a killed process cleans nothing up
        patch.setattr("walferry.replication.retention.archive.delete_unused", lambda *_: None)
        patch.setattr(on, what, killed)
        with pytest.raises((Killed, NotArchived)):
            first_try()
    assert name.text in site.queued() or site.archived()[name.text] == site.files()[name.text]
    expire(client)
    assert site.ship().status is Status.DONE
    assert site.queued() == {}
    assert site.archived() == site.files()


def test_a_copier_that_died_is_not_waited_for(site: Site, new_client: Callable[[], KazooClient]) -> None:
    other = new_client()
    node = session_of(other, site.at).own.archiving(NAMES[0])
    other.create(node, ephemeral=True, makepath=True)
    with ThreadPoolExecutor(1) as pool:
        shipped = pool.submit(site.ship)
        time.sleep(3)
        assert NAMES[0] in site.queued()
        assert not shipped.done()
        expire(other)
        assert shipped.result(60).status is Status.DONE
    assert site.archived() == site.files()


@pytest.mark.slow
def test_a_job_killed_before_the_copy_is_in_place_loses_nothing(site: Site, peer_cluster: FakeServer) -> None:
    args = [sys.executable, "-c", JOB, site.at.to_json(), "p", GROUP]
    environment = {**os.environ, "PYTHONPATH": "plugins"}
    with subprocess.Popen(args, env=environment, stdout=subprocess.PIPE, text=True) as job:
        assert job.stdout is not None
        assert job.stdout.readline() == "copied\n"
        job.send_signal(signal.SIGKILL)
    assert site.archived() == {}
    assert NAMES[0] in site.queued()
    summary = site.ship()
    assert (summary.status, arrived(peer_cluster)) == (Status.DONE, set(range(400))), summary.error
    assert site.queued() == {}
    assert site.archived() == site.files()
