"""Shipped WALs are copied to the archive before they leave their queues, whatever goes wrong in between."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from embedded.zookeeper import ZooKeeperServer
from tests.sessions import session_of
from tests.unit.rpc.fake_server import FakeServer
from tests.unit.wal.encoder import encode_wal
from tests.zk.claim_cluster import Killed
from tests.zk.hbase_znodes import DEAD, HBaseZNodes, LastingZNodes, expire, wal
from tests.zk.test_paused_shipment import arrived, entries
from walferry.engine.summary import GroupSummary, Status
from walferry.files import clients, systems
from walferry.files.quarantine import BrokenWals
from walferry.hbase.values import decode_position
from walferry.names import parse_wal_name
from walferry.queues.lease import acquire
from walferry.retention.archive import WalArchive
from walferry.retention.archiving import NotArchived, archive_wal
from walferry.shipping.group import ship_group
from walferry.shipping.group_job import GroupJob
from walferry.shipping.plan import plan_peer
from walferry.source.cluster import SourceCluster
from walferry.source.knobs import Knobs, SinkKind

NAMES = [wal(1_700_000_000_000 + number, DEAD) for number in range(3)]
EMPTY = NAMES[1]
GROUP = parse_wal_name(NAMES[0]).group
JOB = """
import sys, time
from walferry.files import systems
from walferry.shipping.group_job import GroupJob
from walferry.shipping.group import ship_group
from walferry.source.cluster import SourceCluster
from walferry.source.knobs import Knobs, SinkKind
def wait(*_): print("copied", flush=True); time.sleep(600)
systems._put_in_place = wait
ship_group(GroupJob(source=SourceCluster.from_json(sys.argv[1]), peer_id=sys.argv[2], group=sys.argv[3], run_id="killed",
                    holder="h", deadline=time.time() + 120, knobs=Knobs(sink=SinkKind.REPLICATE)))
"""


class Site:
    """A source whose server has died with three WALs queued for the peers p and q, the second of them without edits."""

    def __init__(self, folder: Path, hbase: LastingZNodes, slave: HBaseZNodes, quorum: str) -> None:
        self.hbase, self.folder = hbase, folder
        (folder / "hbase" / "oldWALs").mkdir(parents=True)
        for peer in ("p", "q"):
            hbase.add_peer(peer, clusterkey=f"{quorum}:{slave.nodes.base}")
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
            broken_wals=broken, knobs=Knobs(sink=SinkKind.REPLICATE),
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
def slave(hbase: HBaseZNodes) -> Iterator[FakeServer]:
    with FakeServer() as server:
        for name in hbase.zk.get_children(hbase.nodes.rs):
            hbase.stop_server(name)
        hbase.zk.create(f"{hbase.nodes.rs}/127.0.0.1,{server.port},1", ephemeral=True)
        yield server


@pytest.fixture
def site(
    tmp_path: Path, hbase: HBaseZNodes, slave: FakeServer, zookeeper: ZooKeeperServer, new_client: Callable[[], KazooClient]
) -> Site:
    return Site(tmp_path, LastingZNodes.new(new_client()), hbase, zookeeper.quorum)


@pytest.fixture
def copies(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The URLs that are copied."""
    copied: list[str] = []
    copy = systems.copy_file

    def counted(source: str, target: str) -> None:
        copied.append(source)
        copy(source, target)

    monkeypatch.setattr("walferry.retention.archive.copy_file", counted)
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


def test_a_broken_archive_keeps_shipped_wals_queued_and_nothing_else(site: Site, slave: FakeServer) -> None:
    (site.folder / "archive").write_text("a file where the folder should be")
    summary = site.ship()
    assert summary.status is Status.FAILED
    assert f"WAL {NAMES[0]} is shipped, but stays queued because it could not be copied to the archive" in str(summary.error)
    assert summary.shippedCells == 2 * 400
    requests = len(slave.requests)
    ends = site.queued()
    assert set(ends) == {NAMES[0], NAMES[2]}
    assert all(ends[name] > len(site.files()[name]) - 20 for name in ends)  # nothing is left to ship
    (site.folder / "archive").unlink()
    (group,) = plan_peer(session_of(site.hbase.zk, site.at), "p").to_ship  # a plan does not take them out of the queue
    assert [wal.to_archive for wal in group.wals] == [True, True]
    again = site.ship(run="again")
    assert (again.status, again.shippedCells, again.completedLogs) == (Status.DONE, 0, 2), again.error
    assert site.queued() == {}
    assert site.archived() == site.files()
    sent = [request for request in list(slave.requests)[requests:] if request.header.method_name == "ReplicateWALEntry"]
    assert not sent


def test_a_shipped_wal_whose_bytes_are_lost_leaves_the_queue_without_a_copy_if_the_run_is_told_so(
    site: Site, slave: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its block was lost after it had been shipped, and before it was copied."""
    (site.folder / "archive").write_text("a file where the folder should be")
    assert site.ship().status is Status.FAILED
    (site.folder / "archive").unlink()
    requests, read = len(slave.requests), systems.read_fd

    def broken(fd: int, offset: int, length: int) -> bytes:
        if os.readlink(f"/proc/self/fd/{fd}").endswith(NAMES[0]) and offset <= 200 < offset + length:
            raise OSError(errno.EIO, "Input/output error")
        return read(fd, offset, length)

    monkeypatch.setattr(systems, "read_fd", broken)
    summary = site.ship(run="again")
    assert summary.status is Status.FAILED
    assert f"WAL {NAMES[0]} is shipped, but stays queued" in str(summary.error)
    assert "at byte 200: the disk does not give these bytes" in str(summary.error)
    assert "All of its edits are shipped. Run with broken_wals=quarantine to give up its copy in" in str(summary.error)
    assert set(site.queued()) == {NAMES[0], NAMES[2]}
    given_up = site.ship(run="given up", broken=BrokenWals.QUARANTINE)
    assert (given_up.status, given_up.completedLogs, given_up.quarantinedLogs) == (Status.DONE, 2, 1), given_up.error
    assert site.queued() == {}
    assert site.archived() == {NAMES[2]: site.files()[NAMES[2]]}
    assert len((site.folder / "quarantine" / NAMES[0]).read_bytes()) == len(site.files()[NAMES[0]])
    sent = [request for request in list(slave.requests)[requests:] if request.header.method_name == "ReplicateWALEntry"]
    assert not sent


def test_a_run_whose_time_is_over_leaves_what_is_not_copied_queued(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("walferry.retention.archive.copy_file", lambda *_: time.sleep(8))
    began = time.monotonic()
    summary = site.ship(deadline=4)
    assert time.monotonic() - began < 8
    assert (summary.status, summary.shippedCells) == (Status.DEADLINE, 800), summary.error
    assert set(site.queued()) == {NAMES[0], NAMES[2]}


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
        patch.setattr(systems, "_remove", lambda *_: None)  # a killed process cleans nothing up
        patch.setattr("walferry.retention.archiving._delete", lambda *_: None)
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
def test_a_job_killed_before_the_copy_is_in_place_loses_nothing(site: Site, slave: FakeServer) -> None:
    args = [sys.executable, "-c", JOB, site.at.to_json(), "p", GROUP]
    environment = {**os.environ, "PYTHONPATH": "plugins"}
    with subprocess.Popen(args, env=environment, stdout=subprocess.PIPE, text=True) as job:
        assert job.stdout is not None
        assert job.stdout.readline() == "copied\n"
        job.send_signal(signal.SIGKILL)
    assert site.archived() == {}
    assert NAMES[0] in site.queued()
    summary = site.ship()
    assert (summary.status, arrived(slave)) == (Status.DONE, set(range(400))), summary.error
    assert site.queued() == {}
    assert site.archived() == site.files()
