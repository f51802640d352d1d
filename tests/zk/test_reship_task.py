"""A task that ships a WAL group's part of an interval again, against a real ZooKeeper: it is paused, and it has a rival."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from embedded.processes import wait_until
from embedded.zookeeper import ZooKeeperServer
from tests.sessions import session_of
from tests.unit.rpc.fake_server import FakeServer, Request, answer
from tests.unit.wal.encoder import encode_wal
from tests.zk.hbase_znodes import DEAD, SERVER, HBaseZNodes, LastingZNodes, wal
from tests.zk.one_cell import edits_of_one_cell
from walferry.bootstrap.border import Border
from walferry.bootstrap.fence import Claim
from walferry.bootstrap.records import Records, TableRecord
from walferry.engine.summary import GroupSummary, Status
from walferry.hbase.peers import check_shippable, read_peer
from walferry.names import ServerName, parse_wal_name
from walferry.protos import hbase_pb2 as pb
from walferry.reship import shipment
from walferry.reship.files import GroupFiles
from walferry.reship.interval import Interval
from walferry.reship.job import ReshipJob
from walferry.reship.listing import Place, WalFile
from walferry.reship.order import Stages
from walferry.reship.shipment import ship_group
from walferry.shipping.in_hand import NO_TURN, in_hand
from walferry.shipping.runs import begin_run
from walferry.source.cluster import SourceCluster
from walferry.source.knobs import Knobs, SinkKind
from walferry.source.session import Session

NAMES = [wal(1_700_000_000_000 + number, DEAD) for number in range(2)]
EDITS = 60  # of each WAL
MANAGED = {"walferry.managed": "true"}


class Slave:
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
    """A peer whose slave notes what it gets, and two WALs that have something for it."""

    def __init__(self, folder: Path, zk: KazooClient, hbase: HBaseZNodes, quorum: str, server: FakeServer) -> None:
        (folder / "hbase" / "oldWALs").mkdir(parents=True)
        wals = []
        for number, name in enumerate(NAMES):
            path = folder / "hbase" / "oldWALs" / name
            path.write_bytes(encode_wal(edits_of_one_cell(range(number * EDITS, (number + 1) * EDITS))))
            wals.append(WalFile(parse_wal_name(name), f"file://{path}", path.stat().st_size, None, Place.OLD))
        self.files = GroupFiles(wals[0].name.group, ServerName.parse(DEAD), tuple(wals))
        hbase.stop_server(SERVER)
        hbase.zk.create(f"{hbase.nodes.rs}/127.0.0.1,{server.port},1", ephemeral=True)
        self.source = LastingZNodes.new(zk)
        self._key = {"clusterkey": f"{quorum}:{hbase.nodes.base}"}
        self.source.add_peer("q", **self._key)
        at = SourceCluster(
            quorum=quorum, wal_root=f"file://{folder}/hbase", znode_parent=self.source.nodes.base, root=self.source.root
        )
        self.job = ReshipJob(
            source=at, peer_id="q", interval=Interval(0, 1 << 60), run_id="again", deadline=time.time() + 120,
            knobs=Knobs(shipment_bytes=400, sink=SinkKind.REPLICATE),
        )  # fmt: skip

    def pause(self, paused: bool) -> None:
        config = {**MANAGED, "walferry.paused": "true"} if paused else MANAGED
        self.source.zk.set(self.source.nodes.peer("q"), self.source._peer(config, **self._key))

    def ship(self, **changes: Any) -> GroupSummary:
        begun = GroupSummary(group=self.files.group, status=Status.DONE)
        return ship_group(replace(self.job, **changes), self.files, Stages(), 0, begun)


@pytest.fixture
def slave() -> Slave:
    return Slave()


@pytest.fixture
def world(
    tmp_path: Path, zk: KazooClient, hbase: HBaseZNodes, zookeeper: ZooKeeperServer, slave: Slave, monkeypatch: pytest.MonkeyPatch
) -> Iterator[World]:
    def check_peer(session: Session, peer_id: str) -> Any:  # there is no Master to be asked
        peer = read_peer(session.zk, session.nodes, peer_id)
        check_shippable(peer)
        return peer

    monkeypatch.setattr(shipment, "check_peer", check_peer)
    with FakeServer(slave) as server:
        yield World(tmp_path, zk, hbase, zookeeper.quorum, server)


@pytest.fixture
def at(world: World, zk: KazooClient) -> Session:
    return Session(world.job.source, zk)


def soon(slave: Slave, number: int) -> Callable[[], bool]:
    return lambda: number in slave.got


def test_a_task_whose_peer_is_paused_stops_within_seconds_and_goes_on_where_it_was(
    world: World, slave: Slave, caplog: pytest.LogCaptureFixture
) -> None:
    with ThreadPoolExecutor(1) as pool:
        shipping = pool.submit(world.ship)
        wait_until(soon(slave, EDITS + 3), "it ships the second WAL", processes=[], timeout=60)
        slave.seconds = 1.0  # so that much is left when the pause is seen
        world.pause(True)
        summary = shipping.result(15)
    assert (summary.status, summary.failed) == (Status.PAUSED, False)
    assert summary.error
    assert "it is paused" in summary.error
    assert not [record for record in caplog.records if record.exc_info], "no traceback"
    assert len(set(slave.got)) < 2 * EDITS
    slave.got.clear()
    slave.seconds = 0.0
    assert world.ship().status is Status.PAUSED
    assert slave.got == []
    world.pause(False)
    assert world.ship().status is Status.DONE
    assert slave.got == list(range(EDITS, 2 * EDITS)), "the first WAL was done"


def test_what_is_older_than_the_peer_s_first_copy_is_left_out(world: World, slave: Slave, at: Session) -> None:
    slave.seconds = 0.0
    with in_hand(world.job.source, "q", "copy", "a first copy", NO_TURN) as attempt:
        records = Records(at, "q", Claim(at, "q", attempt))
        state = records.begin("copy")
        first = records.add_border("copy", Border({world.files.group: NAMES[0]}))
        records.begin_table("t", TableRecord("life", first, whole=True, families=("f",)))
        records.complete(replace(state, complete=True))
    assert world.ship().status is Status.DONE
    assert slave.got == list(range(EDITS, 2 * EDITS))


def test_nothing_is_shipped_while_a_first_copy_is_under_way(world: World, slave: Slave, at: Session) -> None:
    def copying() -> None:
        with in_hand(world.job.source, "q", "copy", "a first copy", NO_TURN) as attempt:
            Records(at, "q", Claim(at, "q", attempt)).begin("copy")

    with ThreadPoolExecutor(1) as pool:
        shipping = pool.submit(world.ship)
        wait_until(soon(slave, 3), "it ships", processes=[], timeout=60)
        slave.seconds = 1.0  # so that much is left when the copy is seen
        copying()
        summary = shipping.result(15)
    assert summary.status is Status.FAILED
    assert "its first copy, begun by run copy, is not complete" in str(summary.error)
    assert len(set(slave.got)) < EDITS
    slave.got.clear()
    assert world.ship().status is Status.FAILED
    assert slave.got == []


def test_of_two_tasks_for_the_same_group_of_a_run_one_ships(
    world: World, slave: Slave, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("walferry.shipping.group.SESSION_TIMEOUT_SECONDS", 0.0)  # the other one is alive: it is not waited for
    with ThreadPoolExecutor(1) as pool:
        shipping = pool.submit(world.ship)
        wait_until(soon(slave, 3), "it ships", processes=[], timeout=60)
        rival = world.ship()
        assert rival.status is Status.HELD
        slave.seconds = 0.0
        assert shipping.result(60).status is Status.DONE
    assert slave.got == list(range(2 * EDITS))
    assert world.ship().status is Status.DONE


def test_a_task_that_has_waited_for_a_rival_goes_on_where_that_one_has_ended(
    world: World, slave: Slave, caplog: pytest.LogCaptureFixture
) -> None:
    """The rival's run may be at a later stage by now: what is shipped again of this one would lie over that."""
    caplog.set_level(logging.INFO, "walferry.shipping.group")
    with ThreadPoolExecutor(2) as pool:
        shipping = pool.submit(world.ship)
        wait_until(soon(slave, 3), "it ships", processes=[], timeout=60)
        rival = pool.submit(world.ship)
        wait_until(lambda: "is held by" in caplog.text, "the rival waits", processes=[], timeout=60)
        slave.seconds = 0.0
        assert [each.result(60).status for each in (shipping, rival)] == [Status.DONE, Status.DONE]
    assert slave.got == list(range(2 * EDITS))


def test_a_try_of_a_run_ships_nothing_more_once_the_next_one_has_begun(world: World, slave: Slave, zk: KazooClient) -> None:
    """It was paused, say, and has another view of the stages: what it ships late would lie over what the next one has shipped."""
    session = session_of(zk, world.job)
    first = begin_run(session, "q", "again", 60)
    with ThreadPoolExecutor(1) as pool:
        shipping = pool.submit(world.ship, begun=first)
        wait_until(soon(slave, 3), "it ships", processes=[], timeout=60)
        slave.seconds = 1.0
        second = begin_run(session, "q", "again", 60)
        assert shipping.result(30).status is Status.HELD
    slave.seconds = 0.0
    slave.got.clear()
    late = world.ship(begun=first)
    assert (late.status, slave.got) == (Status.HELD, [])
    assert late.error
    assert "a later try of this run" in late.error
    assert world.ship(begun=second).status is Status.DONE
    assert slave.got == list(range(2 * EDITS))


def test_stages_of_a_group_are_shipped_one_after_the_other_whichever_try_has_them(
    world: World, slave: Slave, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("walferry.shipping.group.SESSION_TIMEOUT_SECONDS", 0.0)  # the other one is alive: it is not waited for
    with ThreadPoolExecutor(1) as pool:
        shipping = pool.submit(world.ship)
        wait_until(soon(slave, 3), "it ships", processes=[], timeout=60)
        begun = GroupSummary(group=f"{world.files.group}, stage 1", status=Status.DONE)
        assert ship_group(world.job, world.files, Stages(), 1, begun).status is Status.HELD
        slave.seconds = 0.0
        assert shipping.result(60).status is Status.DONE
