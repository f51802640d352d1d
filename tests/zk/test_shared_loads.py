"""Two peers whose files are made together: against a real ZooKeeper and real WAL files, with stand-ins for clusters and Spark.

The peer `p` leads, and `q` joins it.
"""

from __future__ import annotations

import math
import queue
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from kazoo.client import KazooClient

from tests.unit.hbase.hfiles.models import split_run
from tests.unit.replication.filters.test_entry_filter import OTHER as ELSEWHERE
from tests.unit.replication.filters.test_entry_filter import entry, put
from tests.unit.shipping.bulkload.jobs import target, targets
from tests.zk.hbase_znodes import DEAD, OTHER, SERVER, HBaseZNodes, wal
from tests.zk.load_notes import note_folder
from tests.zk.test_driver import FOLDER, MINE, TABLES, T, U, World, world
from walferry.base.jobs import Backend
from walferry.base.zk.records import encode
from walferry.engine.summary import Status
from walferry.hbase.rpc.errors import ConnectionFailed
from walferry.load.records import Load, loads_of, note_done
from walferry.replication.peers.settings import PeerSettings, SinkKind
from walferry.replication.queues.errors import LeaseLost
from walferry.replication.queues.lease import Lease, acquire
from walferry.replication.queues.reading import queued_groups
from walferry.replication.source.session import Session
from walferry.shipping.bulkload import loading, peer_load
from walferry.shipping.bulkload.driver import load_backlog
from walferry.shipping.bulkload.job import LoadJob, PlannedRegion
from walferry.shipping.bulkload.loading import Loaded, Runs
from walferry.shipping.bulkload.region_files import RegionFiles
from walferry.shipping.bulkload.targets import Targets
from walferry.shipping.group_job import GroupJob, Left
from walferry.shipping.plan import groups_to_ship
from walferry.shipping.runs import read_run

__all__ = ["world"]  # a fixture


class Two:
    """Queues of two peers with the same WALs, and the rows that each has got by region."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.session = world.session
        self.targets: dict[str, Targets] = {"p": TABLES, "q": TABLES}
        self.failing: dict[str, Exception] = {}  # by peer
        self.loaded: dict[str, dict[str, list[bytes]]] = {"p": {}, "q": {}}

    def add(self, number: int, *entries: Any, server: str = SERVER, peers: str = "pq", position: int | None = None) -> None:
        """Queue a WAL, and write its file. `position` is that of `q`."""
        for peer in peers:
            owner, queue_id = (OTHER, f"{peer}-{DEAD}") if server == DEAD else (server, peer)
            self.world.hbase.add_wal(owner, queue_id, wal(number, server), position if peer == "q" else None)
        self.world.add_file(number, *entries, server=server)

    def jobs(self, peer: str) -> list[GroupJob]:
        return [
            GroupJob(
                source=self.session.source, peer_id=peer, group=group, place=place, run_id="r", holder=f"run r of {peer}",
                deadline=time.time() + 600, settings=PeerSettings(sink=SinkKind.HFILES),
            )
            for group, place in groups_to_ship(self.session, peer)
        ]  # fmt: skip

    def load(self, lead: str = "p", also: str = "q") -> Left:
        others = [jobs for peer in also if (jobs := self.jobs(peer))]
        return load_backlog(self.jobs(lead), cast(Backend, self.world), also=others, say=self.world.said.append)

    def queued(self, peer: str) -> list[str]:
        return sorted(path.rpartition("/")[2].rpartition(".")[2] for path in self.world.hbase.queued(peer))

    @property
    def records(self) -> dict[str, list[Load]]:
        return {peer: loads_of(self.session, peer) for peer in "pq"}

    @property
    def reason(self) -> str:
        """Why q was left to its own run; empty if it was not."""
        return next((line for line in self.world.said if line.startswith("peer q is left to its own run: ")), "")

    def load_region(self, job: LoadJob, planned: PlannedRegion, runs: Runs) -> Loaded:
        if error := self.failing.get(job.peer_id):
            raise error
        cells = [cell for some in runs.values() for run in some for cell, _, _ in split_run(bytes(run.read_at(0, run.size)))]
        self.loaded[job.peer_id].setdefault(planned.region.encoded_name, []).extend(cell.row for cell in cells)
        return Loaded(1, 1, len(cells))


@pytest.fixture
def two(world: World, hbase: HBaseZNodes, monkeypatch: pytest.MonkeyPatch) -> Two:
    hbase.add_peer("q")
    made = Two(world)

    @contextmanager
    def loaders(job: LoadJob, session: Session, count: int) -> Iterator[queue.SimpleQueue[Any]]:
        one: queue.SimpleQueue[Any] = queue.SimpleQueue()

        def load(planned: PlannedRegion, runs: Runs, _: RegionFiles) -> Loaded:
            return made.load_region(job, planned, runs)

        one.put(SimpleNamespace(load=load))
        yield one

    monkeypatch.setattr(loading, "_loaders", loaders)
    monkeypatch.setattr(peer_load, "_targets", lambda peer, *_: made.targets[peer.id])
    return made


def test_both_get_what_one_reading_has_found(two: Two) -> None:
    for number in (1, 2, 3):
        two.add(number, T)
    two.add(1, entry(put(row=b"b")), server=DEAD)
    assert len(two.load().done) == 2
    assert two.loaded["p"] == two.loaded["q"]
    assert {name: sorted(rows) for name, rows in two.loaded["q"].items()} == {"t-0": [b"a", b"a", b"b"], "t-1": [b"z", b"z"]}
    assert {peer: two.queued(peer) for peer in "pq"} == {"p": ["3"], "q": ["3"]}
    assert two.records == {"p": [], "q": []}
    assert [(s.status, s.completedLogs, s.sink) for s in read_run(two.session, "q", "r")] == [
        (Status.DONE, 2, "hfiles"), (Status.DONE, 1, "hfiles"),
    ]  # fmt: skip
    assert any(line.startswith("peer q: loaded 2 files") for line in two.world.said)


def test_what_goes_by_requests_stays_queued_for_both(two: Two) -> None:
    for number in (1, 2):
        two.add(number, T, U)
    assert [job.group for job in two.load().jobs] == [MINE]
    assert {peer: two.queued(peer) for peer in "pq"} == {"p": ["1", "2"], "q": ["1", "2"]}
    assert [load.tables for loads in two.records.values() for load in loads] == [{"t": ("f",)}] * 2
    two.loaded = {"p": {}, "q": {}}
    two.load()
    two.load(lead="q", also="")
    assert two.loaded == {"p": {}, "q": {}}


def _behind(two: Two) -> None:
    two.add(1, T, position=100)
    two.add(2, T)


def _another_wal(two: Two) -> None:
    two.add(0, T, peers="q")
    two.add(1, T)
    two.add(2, T)


def _came_from_there(two: Two) -> None:
    two.add(1, T, entry(put(row=b"b"), ids=(ELSEWHERE,)))
    two.add(2, T)
    two.world.ids["q"] = ELSEWHERE


def _no_table(two: Two) -> None:
    _same(two)
    two.targets["q"] = targets(b"u")


def _no_family(two: Two) -> None:
    _same(two)
    two.targets["q"] = replace(TABLES, tables={b"t": target(b"t", families=(b"g",))})


def _other_unfit_tables(two: Two) -> None:
    two.add(1, T, U)
    two.add(2, T)
    two.targets["q"] = targets(b"t", b"u")


def _large_regions(two: Two) -> None:
    rows = [bytes([letter]) for letter in b"abcde"]
    two.add(1, T, *(entry(put(row=row), table=b"u") for row in rows))
    two.add(2, T)
    tables = {b"t": target(b"t"), b"u": target(b"u", starts=[b"", *rows[1:]])}
    two.targets |= {"p": Targets(tables, {}, ()), "q": Targets(tables | {b"u": target(b"u", starts=[b""])}, {}, ())}


def _paused(two: Two) -> None:
    _same(two)
    two.world.hbase.set_config("q", {"walferry.managed": "true", "walferry.paused": "true"})


def _same(two: Two) -> None:
    two.add(1, T)
    two.add(2, T)


@pytest.mark.parametrize(
    ("differ", "why"),
    [
        (_behind, "only 0 of 211 bytes are in WALs that it has queued, too, read up to the same positions"),
        (_another_wal, "only 0 of 211 bytes are in WALs that it has queued, too, read up to the same positions"),
        (_other_unfit_tables, f"{wal(1)} has edits that go by requests here, and its cluster could load table u"),
        (_large_regions, "region u-0 of table u of its cluster would get the files of 5 regions"),
        (_came_from_there, f"of {wal(1)} it gets other edits, or the WAL has bulk loads"),
        (_no_table, "its cluster has no table t into which files may be loaded"),
        (_no_family, "table t of its cluster has no family f"),
        (_paused, "it is paused, serial, or its initial snapshot is under way"),
    ],
)
def test_a_peer_with_other_edits_is_left_to_its_own_run(two: Two, differ: Any, why: str) -> None:
    differ(two)
    before = two.queued("q")
    two.load()
    assert two.reason.endswith(f": {why}")
    assert (two.loaded["q"], two.queued("q"), two.records["q"]) == ({}, before, [])
    assert two.loaded["p"]
    with acquire(two.session, "q", MINE, "its own run"):  # the lease is free
        pass


def test_a_peer_that_another_run_ships_is_left_to_that(two: Two) -> None:
    _same(two)
    with acquire(two.session, "q", MINE, "another run"):
        two.load()
    assert two.reason.endswith("none of these WAL groups is queued for it, or another run ships them")
    assert (two.queued("p"), two.queued("q")) == (["2"], ["1", "2"])


def test_a_wal_that_was_closed_meanwhile_is_left_to_the_partner_s_own_run(two: Two) -> None:
    """Its queues are listed after the lead's. Its summary says that all is shipped that there was for the lead."""
    _same(two)
    jobs = two.jobs("q")
    two.add(3, T, peers="q")
    load_backlog(two.jobs("p"), cast(Backend, two.world), also=[jobs], say=two.world.said.append)
    assert (two.reason, two.queued("p"), two.queued("q")) == ("", ["2"], ["2", "3"])
    assert two.loaded["p"] == two.loaded["q"] == {"t-0": [b"a"], "t-1": [b"z"]}
    assert [s.status for s in read_run(two.session, "q", "r")] == [Status.DONE]
    two.load(lead="q", also="")
    assert two.loaded["q"]["t-0"] == [b"a", b"a"]
    assert two.queued("q") == ["3"]


def test_only_groups_that_differ_are_loaded_for_the_lead_alone(two: Two) -> None:
    for number in (1, 2, 3):
        two.add(number, T)
    two.add(1, entry(put(row=b"b")), server=DEAD, peers="p")
    assert len(two.load().done) == 2
    assert two.reason == ""
    assert {name: sorted(rows) for name, rows in two.loaded["p"].items()} == {"t-0": [b"a", b"a", b"b"], "t-1": [b"z", b"z"]}
    assert {name: sorted(rows) for name, rows in two.loaded["q"].items()} == {"t-0": [b"a", b"a"], "t-1": [b"z", b"z"]}
    assert (two.queued("p"), two.queued("q"), two.records) == (["3"], ["3"], {"p": [], "q": []})
    assert "1 WAL groups are loaded with peer q, 1 without" in two.world.said


def test_a_peer_that_shares_little_is_left_to_its_own_run(two: Two) -> None:
    two.add(1, T, position=100)
    two.add(2, T)
    two.add(1, entry(put(row=b"b")), server=DEAD)
    two.load()
    assert re.search(r"only \d+ of \d+ bytes are in WALs", two.reason)
    assert (two.loaded["q"], two.queued("p")) == ({}, ["2"])


@pytest.mark.parametrize("waits", ["settling", "killed"])
def test_the_lead_waits_for_nothing_that_only_the_partner_needs(two: Two, monkeypatch: pytest.MonkeyPatch, waits: str) -> None:
    _same(two)
    if waits == "killed":
        record = f"{two.session.own.loads('q')}/killed"
        two.session.zk.ensure_path(two.session.own.loads("q"))
        two.session.zk.create(record, encode(Load("killed", {MINE: ""})))
        note_folder(two.session.zk, record, FOLDER)
    else:
        monkeypatch.setattr("walferry.replication.queues.lease.settling_seconds", lambda *_: 3600.0)
        monkeypatch.setattr(
            "walferry.replication.queues.lease.seconds_disabled", lambda session, peer, clock: 1.0 if peer == "q" else math.inf
        )
        two.world.hbase.zk.set(two.session.nodes.peer_state("q"), two.world.hbase.zk.get(two.session.nodes.peer_state("q"))[0])
    two.load()
    words = "calls of its RegionServers" if waits == "settling" else "a load that was killed has left files at its cluster"
    assert words in two.reason
    assert (two.queued("p"), two.queued("q"), two.world.deleted) == (["2"], ["1", "2"], [])


@pytest.mark.parametrize("failing", ["p", "q"])
def test_what_fails_for_one_is_done_for_the_other(two: Two, failing: str) -> None:
    other = "pq".replace(failing, "")
    _same(two)
    two.failing[failing] = ConnectionFailed("rs", "refused")
    two.load()
    assert (two.queued(failing), two.queued(other)) == (["1", "2"], ["2"])
    assert two.records == {"p": [], "q": []}
    two.failing.clear()
    two.load(lead=failing, also="")
    assert two.loaded["p"] == two.loaded["q"] == {"t-0": [b"a"], "t-1": [b"z"]}
    assert two.queued(failing) == ["2"]


def losing(peer: str) -> Callable[..., None]:
    """Return a `note_done` that finds the leases of a peer lost."""

    def note(zk: KazooClient, record: str, load: Load, lease: Lease) -> None:
        if lease.peer_id == peer:
            raise LeaseLost(peer, MINE, "another run has it")
        note_done(zk, record, load, lease)

    return note


def test_a_lead_that_cannot_be_noted_does_not_take_its_partner_with_it(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    _same(two)
    monkeypatch.setattr(peer_load, "note_done", losing("p"))
    with pytest.raises(LeaseLost):
        two.load()
    assert (two.queued("p"), two.queued("q"), two.records["q"]) == (["1", "2"], ["2"], [])
    monkeypatch.setattr(peer_load, "note_done", note_done)
    two.loaded = {"p": {}, "q": {}}
    two.load()
    assert two.loaded == {"p": {"t-0": [b"a"], "t-1": [b"z"]}, "q": {}}
    assert two.records == {"p": [], "q": []}


@pytest.mark.parametrize("error", [RuntimeError("a task failed"), KeyboardInterrupt()])
def test_a_load_that_fails_leaves_nothing_of_either(two: Two, error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(job: LoadJob, *_: object) -> Loaded:
        note_folder(two.session.zk, job.record, FOLDER)
        raise error

    monkeypatch.setattr(two, "load_region", fail)
    _same(two)
    with pytest.raises(type(error)):
        two.load()
    assert (two.queued("p"), two.queued("q"), two.records) == (["1", "2"], ["1", "2"], {"p": [], "q": []})
    assert two.world.deleted == [FOLDER.token]


def test_a_partner_that_cannot_be_noted_is_left_to_its_own_run(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    _same(two)
    monkeypatch.setattr(peer_load, "note_done", losing("q"))
    assert len(two.load().done) == 1
    assert "another run has it" in two.reason
    assert (two.queued("p"), two.queued("q")) == (["2"], ["1", "2"])
    assert queued_groups(two.session, "q") == {MINE}
