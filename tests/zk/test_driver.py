"""A whole load against a real ZooKeeper and real WAL files; the peer cluster and Spark are stand-ins."""

from __future__ import annotations

import queue
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from kazoo.client import KazooClient

from embedded.zookeeper import ZooKeeperServer
from tests.sessions import session_of
from tests.unit.hbase.hfiles.models import split_run
from tests.unit.hbase.wal.encoder import Entry, encode_wal
from tests.unit.replication.filters.test_entry_filter import entry, put
from tests.unit.replication.sinks.hbase.test_bulk_loads import load
from tests.unit.shipping.bulkload.jobs import targets
from tests.zk.hbase_znodes import DEAD, OTHER, SERVER, HBaseZNodes, wal
from tests.zk.load_notes import note_folder
from walferry.base.jobs import Backend
from walferry.base.security.login import UNSECURED
from walferry.engine.summary import Status
from walferry.hbase.rpc import bulk_load
from walferry.hbase.rpc.errors import ConnectionFailed
from walferry.load import file_loader, records
from walferry.load.earlier_loads import loaded_before
from walferry.load.errors import LoadOvertaken
from walferry.load.records import Folder, loads_of
from walferry.replication.peers.settings import PeerSettings, SinkKind
from walferry.replication.queues.errors import LeaseLost
from walferry.replication.queues.lease import Lease, acquire
from walferry.replication.source.cluster import SourceCluster
from walferry.replication.source.peers import read_peer
from walferry.replication.source.session import Session
from walferry.shipping.bulkload import loading, peer_load
from walferry.shipping.bulkload.driver import load_backlog
from walferry.shipping.bulkload.job import LoadJob, PlannedRegion
from walferry.shipping.bulkload.loading import Loaded, Runs, ShareOutcome
from walferry.shipping.bulkload.region_files import RegionFiles
from walferry.shipping.bulkload.targets import Targets
from walferry.shipping.group_job import GroupJob, Left
from walferry.shipping.plan import groups_to_ship

MINE = wal(0).rpartition(".")[0]
FOLDER = Folder(f"hdfs://peer:8020/hbase/staging/hbase__t__{'0a' * 30}", "t", b"t,,1.abc.".hex())
TABLES = targets(b"t", unfit={b"u": "it has a coprocessor"})
T_F = {b"t": {b"f"}}  # the loaded part of TABLES
T, U = entry(put(row=b"a"), put(row=b"z")), entry(put(), table=b"u")


@dataclass
class World:
    """Queues of a live server and of a dead one, their WALs, and a record of what happens to them."""

    session: Session
    root: Path
    hbase: HBaseZNodes
    targets: Targets = TABLES
    loaded: dict[str, list[bytes]] = field(default_factory=dict)  # rows by region
    deleted: list[str] = field(default_factory=list)  # folders at the peer cluster
    on_load: Callable[[LoadJob, PlannedRegion], None] = lambda job, planned: None
    said: list[str] = field(default_factory=list)
    ids: dict[str, uuid.UUID] = field(default_factory=dict)  # of peers' clusters
    spreads: int = 0

    cores = most_tasks = 2
    least_bytes = 0

    def add(self, number: int, *entries: Entry, server: str = SERVER, data: bytes | None = None) -> None:
        """Queue a WAL, and write its file."""
        self.hbase.add_wal(OTHER if server == DEAD else server, f"p-{DEAD}" if server == DEAD else "p", wal(number, server))
        self.add_file(number, *entries, server=server, data=data)

    def add_file(self, number: int, *entries: Entry, server: str = SERVER, data: bytes | None = None) -> None:
        """Write a WAL's file."""
        (self.root / "oldWALs" / wal(number, server)).write_bytes(encode_wal(entries) if data is None else data)

    @property
    def queued(self) -> list[str]:
        """The live server's WALs and the dead one's that are queued."""
        names = [path.rpartition("/")[2] for path in self.hbase.queued("p")]
        return sorted(name.replace(MINE, "live").replace(wal(0, DEAD)[:-2], "dead") for name in names)

    def load(self, least_bytes: int = 0, seconds: float = 600) -> Left:
        jobs = [
            GroupJob(
                source=self.session.source, peer_id="p", group=group, place=place, run_id="r", holder="run r",
                deadline=time.time() + seconds, settings=PeerSettings(sink=SinkKind.AUTO, hfiles_from=least_bytes),
            )
            for group, place in groups_to_ship(self.session, "p")
        ]  # fmt: skip
        return load_backlog(jobs, cast(Backend, self), say=self.said.append)

    def run(
        self, function: Callable[[Any], Any], items: Sequence[Any], result: Any, lost: object = None, progress: object = None
    ) -> list[Any]:
        """Answer as a backend."""
        assert isinstance(function, partial)
        (self._job,) = function.args
        self.spreads += result is ShareOutcome
        return [result.from_json(function(item).to_json()) for item in items]

    def load_region(self, planned: PlannedRegion, runs: Runs, _: RegionFiles) -> Loaded:
        """A loader of regions."""
        self.on_load(self._job, planned)
        cells = [cell for some in runs.values() for run in some for cell, _, _ in split_run(bytes(run.read_at(0, run.size)))]
        self.loaded[planned.region.encoded_name] = [cell.row for cell in cells]
        return Loaded(1, 1, len(cells))

    def known(self, number: int = 1) -> dict[bytes, frozenset[bytes]]:
        """Return the families that count as loaded for runs that ship the live server's WAL now."""
        return loaded_before(self.session, read_peer(self.session, "p"), MINE).families(wal(number))


@pytest.fixture
def world(
    zk: KazooClient, hbase: HBaseZNodes, zookeeper: ZooKeeperServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> World:
    for folder in ("oldWALs", "WALs"):
        (tmp_path / folder).mkdir()
    source = SourceCluster(quorum=zookeeper.quorum, wal_root=f"file://{tmp_path}", znode_parent=hbase.nodes.base, root=hbase.root)
    made = World(session_of(zk, source), tmp_path, hbase)

    def peer_cluster(cluster_id: uuid.UUID | None) -> SimpleNamespace:
        return SimpleNamespace(
            zk=None, nodes=cluster_id or uuid.UUID(int=2), login=UNSECURED,
            place=lambda table: SimpleNamespace(
                table=table, locate=lambda row: TABLES.tables[b"t"].regions[0], connection=lambda region: None
            ),
        )  # fmt: skip

    @contextmanager
    def loaders(job: LoadJob, session: Session, count: int) -> Iterator[queue.SimpleQueue[Any]]:
        one: queue.SimpleQueue[Any] = queue.SimpleQueue()
        one.put(SimpleNamespace(load=made.load_region))
        yield one

    monkeypatch.setattr(peer_load, "cluster_id", lambda client, nodes: uuid.UUID(int=1) if client else nodes)
    for module in ("walferry.shipping.bulkload.peer_load", "walferry.replication.peers.peer_tables"):
        monkeypatch.setattr(f"{module}.peer_tables", lambda peer, login: nullcontext(peer_cluster(made.ids.get(peer.id))))
    monkeypatch.setattr(peer_load, "active_master", lambda client, nodes: None)
    monkeypatch.setattr(peer_load.master, "connect", lambda at, login: nullcontext())
    monkeypatch.setattr(peer_load, "read_targets", lambda *_: made.targets)
    monkeypatch.setattr(peer_load, "why_not", lambda *_: None)
    monkeypatch.setattr(loading, "_loaders", loaders)
    monkeypatch.setattr(bulk_load, "cleanup", lambda server, region, token: made.deleted.append(token))
    return made


def test_what_is_loaded_leaves_the_queues_but_for_the_wal_that_is_written_to(world: World) -> None:
    for number in (1, 2, 3):
        world.add(number, T)
    world.add(1, entry(put(row=b"b")), server=DEAD)
    left = world.load()
    assert (left.jobs, world.queued) == ([], ["live.3"])
    assert {name: sorted(rows) for name, rows in world.loaded.items()} == {"t-0": [b"a", b"a", b"b"], "t-1": [b"z", b"z"]}
    assert [(summary.status, summary.completedLogs) for summary in left.done] == [(Status.DONE, 2), (Status.DONE, 1)]
    assert not loads_of(world.session, "p")


def test_of_a_group_with_other_edits_all_wals_stay_and_its_requests_know_what_is_loaded(world: World) -> None:
    for number in (1, 2, 3):
        world.add(number, T, *([U] if number == 2 else []))
    world.add(1, T, server=DEAD)
    left = world.load()
    assert [job.group for job in left.jobs] == [MINE]
    assert world.queued == ["live.1", "live.2", "live.3"]
    assert [world.known(number) for number in (1, 2, 3)] == [T_F, T_F, {}]
    assert "the edits of table u go by requests: it has a coprocessor" in world.said[-1]


def test_the_next_run_does_not_load_a_group_again_of_which_something_is_loaded(world: World) -> None:
    for number in (1, 2):
        world.add(number, T, U)
    world.load()
    world.add(1, T, server=DEAD)
    world.loaded.clear()
    left = world.load()
    assert [job.group for job in left.jobs] == [MINE]
    assert world.loaded == {"t-0": [b"a"], "t-1": [b"z"]}
    assert world.queued == ["live.1", "live.2"]


def test_references_to_files_of_bulk_loads_that_the_peer_does_not_get_go_with_the_wals(world: World) -> None:
    refs = world.session.nodes.hfile_refs("p")
    for name in ("one_SeqId_7_", "of_another_wal"):
        world.session.zk.create(f"{refs}/{name}", makepath=True)
    world.add(1, T, load(scopes={}))
    world.add(2)
    assert [s.status for s in world.load().done] == [Status.DONE]
    assert world.session.zk.get_children(refs) == ["of_another_wal"]


def test_a_broken_wal_and_those_after_it_stay_queued_with_what_was_loaded_before_them(world: World) -> None:
    for number in (1, 2, 3, 4):
        world.add(number, T, data=b"PWAX" + bytes(99) if number == 2 else None)
    left = world.load()
    assert [job.group for job in left.jobs] == [MINE]
    assert (len(world.queued), world.loaded["t-0"]) == (4, [b"a"])
    assert [world.known(number) for number in (1, 2, 3)] == [T_F, {}, {}]


def test_a_region_that_is_not_loaded_keeps_all_wals_with_edits_of_its_table(world: World) -> None:
    def fail(job: LoadJob, planned: PlannedRegion) -> None:
        if planned.region.start:
            raise TimeoutError

    world.on_load = fail
    for number in (1, 2):
        world.add(number, T)
    assert len(world.load().jobs) == 1
    assert (len(world.queued), world.known(), loads_of(world.session, "p")) == (2, {}, [])


@pytest.mark.parametrize("error", [RuntimeError("a task failed"), KeyboardInterrupt()])
def test_a_load_that_fails_changes_no_queue_and_leaves_no_folder(world: World, error: BaseException) -> None:
    def fail(job: LoadJob, planned: PlannedRegion) -> None:
        note_folder(world.session.zk, job.record, FOLDER)
        raise error

    world.on_load = fail
    for number in (1, 2):
        world.add(number, T)
    with pytest.raises(type(error)):
        world.load()
    assert len(world.queued) == 2
    assert (world.deleted, loads_of(world.session, "p")) == ([FOLDER.token], [])


@pytest.mark.parametrize("unfit", [False, True])
def test_folders_of_tasks_that_spark_believes_dead_are_deleted_before_any_wal_leaves_its_queue(
    world: World, monkeypatch: pytest.MonkeyPatch, unfit: bool
) -> None:
    def linger(job: LoadJob, planned: PlannedRegion) -> None:
        if not world.loaded:
            note_folder(world.session.zk, job.record, FOLDER)
        if unfit:
            raise ConnectionFailed("rs", "refused")

    seen = []
    remove = Lease.remove_wal

    def removed(lease: Lease, name: str) -> bool:
        seen.append((world.deleted[:], [(load.done, load.folders) for load in loads_of(world.session, "p")]))
        return remove(lease, name)

    monkeypatch.setattr(Lease, "remove_wal", removed)
    world.on_load = linger
    for number in (1, 2):
        world.add(number, T)
    world.load()
    assert seen == ([] if unfit else [([FOLDER.token], [(True, 0)])])
    assert FOLDER.token in world.deleted
    assert not loads_of(world.session, "p")


def test_no_task_notes_a_folder_once_those_that_are_noted_are_deleted(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unknown folder could be loaded above edits that are shipped later."""
    tried = []

    def late(record: str, zk: KazooClient, *others: Any) -> None:
        with pytest.raises(LoadOvertaken):
            note_folder(zk, record, FOLDER)
        tried.append(record)
        file_loader.clean_folders(record, zk, *others)

    monkeypatch.setattr(peer_load, "clean_folders", late)
    for number in (1, 2):
        world.add(number, T)
    assert world.load().jobs == []
    assert len(tried) == 1


def test_a_run_that_is_killed_while_wals_leave_their_queues_has_nothing_loaded_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in (1, 2, 3):
        world.add(number, T)
    remove = Lease.remove_wal

    def killed(lease: Lease, name: str) -> bool:
        if name == wal(2):
            raise LeaseLost("p", MINE, "killed")
        return remove(lease, name)

    monkeypatch.setattr(Lease, "remove_wal", killed)
    with pytest.raises(LeaseLost):
        world.load()
    assert world.queued == ["live.2", "live.3"]
    monkeypatch.setattr(Lease, "remove_wal", remove)
    assert len(world.load().jobs) == 1
    assert (world.spreads, world.known(2), world.known(3)) == (1, T_F, {})


def test_a_load_that_another_run_has_overtaken_takes_nothing_out_of_the_queues(world: World) -> None:
    world.on_load = lambda job, planned: records.end(world.session.zk, job.record)
    for number in (1, 2):
        world.add(number, T)
    with pytest.raises(LoadOvertaken, match="is over"):
        world.load()
    assert len(world.queued) == 2


def test_a_group_that_another_run_holds_is_left_to_be_shipped(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_load, "lease_given_up", lambda deadline: 0.0)
    for number in (1, 2):
        world.add(number, T)
    world.add(1, T, server=DEAD)
    with acquire(world.session, "p", MINE, "another run"):
        left = world.load()
    assert [job.group for job in left.jobs] == [MINE]
    assert world.queued == ["live.1", "live.2"]


def test_one_wait_is_for_all_leases_and_those_that_are_given_up_meanwhile_are_taken(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.add(1, T)
    world.add(2, T)
    world.add(1, T, server=DEAD)
    held = [acquire(world.session, "p", group, "another run") for group, _ in groups_to_ship(world.session, "p")]
    assert len(held) == 2
    monkeypatch.setattr(peer_load, "HELD_SECONDS", 0.0)
    real, tries = peer_load.acquire, list[str]()

    def counted(session: Session, peer: str, group: str, holder: str, **options: Any) -> Lease:
        tries.append(group)
        if len(tries) in (3, 5):  # in the second round and in the third
            held.pop().release()
        return real(session, peer, group, holder, **options)

    monkeypatch.setattr(peer_load, "acquire", counted)
    left = world.load()
    assert left.jobs == []
    assert len(tries) <= 6


def test_nothing_of_a_paused_peer_is_loaded(world: World) -> None:
    world.add(1, T)
    world.add(2, T)
    world.hbase.set_config("p", {"walferry.managed": "true", "walferry.paused": "true"})
    assert len(world.load().jobs) == 1
    assert (world.spreads, world.queued) == (0, ["live.1", "live.2"])


def test_a_small_backlog_is_shipped_by_requests_without_spark(world: World) -> None:
    for number in (1, 2):
        world.add(number, T)
    assert len(world.load(least_bytes=1 << 20).jobs) == 1
    assert (world.spreads, len(world.queued), loads_of(world.session, "p")) == (0, 2, [])


def cut_short(world: World, seconds: float) -> float:
    """Have an earlier run send a request of one of the groups, and end without an answer. Returns when its time is over."""
    for server in (SERVER, DEAD):
        world.add(1, T, server=server)
    world.add(2, T)
    lease = acquire(world.session, "p", wal(0, DEAD).rpartition(".")[0], "an earlier run", calls_seconds=seconds)
    lease.right.begin(seconds).may_go_on()
    until = lease.right.quiet_seconds
    lease.release()
    return time.monotonic() + until


def test_nothing_is_loaded_while_requests_of_an_earlier_run_may_take_effect(world: World) -> None:
    loaded: list[float] = []
    world.on_load = lambda job, planned: loaded.append(time.monotonic())
    quiet_at = cut_short(world, 0.5)
    assert world.load().jobs == []
    assert min(loaded) > quiet_at - 0.2  # ZooKeeper's clock counts milliseconds
    assert "requests of an earlier run that was cut short" in world.said[0]


def test_a_run_with_less_time_than_that_loads_nothing_whatever_the_clocks_of_its_tasks_say(world: World) -> None:
    cut_short(world, 60)
    began = time.monotonic()
    assert len(world.load(seconds=5).jobs) == 2
    assert (world.loaded, world.spreads, loads_of(world.session, "p")) == ({}, 0, [])
    assert time.monotonic() - began < 4, "it leaves the time to the requests"
    assert "may still take effect" in world.said[-1]
