"""The peer cluster's regions split, merge and move, and a server dies, during writes: all cells arrive as they were made."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from embedded import wire
from embedded.client import GLOBAL, LOCAL
from embedded.wire import Mutation
from tests.cluster.conftest import ManyServers
from tests.cluster.loads import records_left
from tests.cluster.peer_changes import reconfigure
from tests.cluster.test_mixed_edits import ROWS, edits
from tests.cluster.test_peers_that_change import with_bandwidth
from tests.cluster.walferry_runs import await_progress, positions, roll, ship
from walferry.engine.summary import Status
from walferry.hbase.rpc import bulk_load
from walferry.replication.peers.settings import PeerSettings, SinkKind

BY_REQUESTS = pytest.mark.parametrize("sink", [SinkKind.DIRECT], indirect=True)
AS_FILES = pytest.mark.parametrize("sink", [SinkKind.HFILES], indirect=True)

SMALL = PeerSettings(shipment_bytes=16 << 10, buffer_bytes=1 << 20, sleep_seconds=0.3)
SPLITS = [b"row%05d" % (ROWS * i // 6) for i in range(1, 6)]
BYTES_A_SECOND = 60_000
EQUAL = 5  # the timestamp of many edits, so that only their order decides which remain


def all_kinds(count: int, chance: random.Random) -> Iterator[Mutation]:
    """Yield edits as elsewhere; every second edit changes one of a few rows, with equal timestamps."""
    for mutation in edits(count // 2, chance):
        yield mutation
        row, column = f"row{chance.randrange(0, ROWS, ROWS // 60):05}", f"f:{chance.randrange(3)}"
        if chance.random() < 0.8:
            yield wire.put(row, {column: chance.randbytes(9)}, timestamp=EQUAL)
        else:
            yield wire.delete_version(row, column, timestamp=EQUAL)


class Motion:
    """Changes regions and servers of the peer cluster. Each round needs a new table: a table that has split must be compacted
    first."""

    def __init__(self, sides: ManyServers, table: str, chance: random.Random) -> None:
        self._sides, self._table, self._chance = sides, table, chance

    def split(self) -> None:
        region = self._sides.peer_cluster.regions(self._table)[0]
        self._sides.peer_cluster.split_region(region.encoded_name, b"row%05d" % (ROWS // 12))

    def merge(self) -> None:
        regions = sorted(self._sides.peer_cluster.regions(self._table), key=lambda region: region.start_key)
        self._sides.peer_cluster.merge_regions(regions[-1].encoded_name, regions[-2].encoded_name)

    def move(self) -> None:
        for region in self._sides.peer_cluster.regions(self._table)[::2]:
            others = [server for server in self._sides.peer_cluster.region_servers() if server != region.server]
            self._sides.peer_cluster.move_region(region.encoded_name, self._chance.choice(others))

    def kill(self) -> None:
        self._sides.peer_hbase.kill_regionserver(0)


@pytest.fixture
def create(many_servers: ManyServers, unique: Callable[[str], str]) -> Callable[[], str]:
    """Makes a table on both sides that keeps all cells: flushes and compactions would drop hidden cells on one side only."""

    def make() -> str:
        table = unique("motion")
        for client in (many_servers.source, many_servers.peer_cluster):
            client.create_table(table, {"f": GLOBAL, "g": GLOBAL, "l": LOCAL}, SPLITS, versions=100_000)
            for family in "fg":
                client.alter_family(table, family, {"KEEP_DELETED_CELLS": "TRUE"})
            client.switch_compaction(table, False)
        return table

    return make


@pytest.fixture
def slow_peer(many_servers: ManyServers, managed_peer: Callable[..., str]) -> str:
    """A managed peer that ships for longer than a region or a server needs to change."""
    source = many_servers.source_cluster.address
    peer = managed_peer(source, many_servers.peer_hbase.address)
    reconfigure(source, peer, with_bandwidth(BYTES_A_SECOND))
    return peer


def ship_while(sides: ManyServers, peer: str, run_id: str, move: Callable[[], None]) -> bool:
    """Ship the queued WALs, and call `move` once some edits are shipped. Returns whether more edits were shipped after that."""
    before = positions(sides.at, peer)
    with ThreadPoolExecutor(1) as pool:
        shipping = pool.submit(ship, sides.at, peer, roll_first=False, settings=SMALL, run_id=run_id, deadline=400)
        await_progress(sides.at, peer, before)
        move()
        in_time = not shipping.done()
        summaries = shipping.result(420)
    assert {s.status for s in summaries} == {Status.DONE}, [s.error for s in summaries]
    assert sum(s.shippedCells for s in summaries) > 0
    return in_time


def check_motions(sides: ManyServers, peer: str, create: Callable[[], str], edits_each: int, rounds: int) -> None:
    """Make a new table in each round, and carry out each motion in the middle of a shipment."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    in_time: dict[str, int] = {}
    for number in range(rounds):
        table = create()
        motion = Motion(sides, table, chance)
        for name in ("split", "merge", "move", "kill"):
            sides.source.write(table, all_kinds(edits_each, chance))
            roll(sides.at, peer)
            in_time[name] = in_time.get(name, 0) + ship_while(sides, peer, f"{name}{number}", getattr(motion, name))
        sides.peer_hbase.start_regionserver()
        compared = sides.source.compare(table, sides.peer_cluster, families=["f", "g"], raw=True)
        assert compared.same, compared.examples
        assert compared.left > 3 * edits_each
        assert sides.peer_cluster.scan_all(table, ["l"], raw=True) == []
    print(f"in mid-shipment: {in_time}")
    assert all(in_time.values()), in_time


@BY_REQUESTS
@pytest.mark.timeout(900)
def test_all_arrives_in_order_while_the_peer_cluster_is_in_motion(many_servers, slow_peer, create):
    check_motions(many_servers, slow_peer, create, 5_000, 1)


@BY_REQUESTS
@pytest.mark.soak
def test_all_of_a_hundred_thousand_edits_arrives_in_order_while_the_peer_cluster_is_in_motion(many_servers, slow_peer, create):
    check_motions(many_servers, slow_peer, create, 10_000, 10)


class Disturbed:
    """Makes something happen at the peer cluster while it loads files: before the nth call of a function of bulk_load."""

    def __init__(self, name: str, nth: int, happen: Callable[[], None]) -> None:
        self._call, self._nth, self._happen = getattr(bulk_load, name), nth, happen
        self._lock = threading.Lock()
        self.calls = 0

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        with self._lock:  # loads of other regions wait, so that the motion happens between two of them
            self.calls += 1
            if self.calls == self._nth:
                self._happen()
        return self._call(*arguments, **options)


def check_loads_in_motion(sides: ManyServers, peer: str, table: str, moment: tuple[str, int], edits_each: int) -> None:
    """Carry out each motion at a moment of its own load."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    motion = Motion(sides, table, chance)
    for name in ("split", "merge", "move", "kill"):
        for _ in range(2):  # so that there are several WALs of each server
            sides.source.write(table, all_kinds(edits_each // 2, chance))
            roll(sides.at, peer)
        with pytest.MonkeyPatch.context() as patch:
            disturbed = Disturbed(*moment, getattr(motion, name))
            patch.setattr(bulk_load, moment[0], disturbed)
            summaries = ship(sides.at, peer, roll_first=False, run_id=f"{name} {moment}", deadline=400)
        assert disturbed.calls >= moment[1], name
        assert {s.status for s in summaries} == {Status.DONE}, [s.error for s in summaries]
        assert {s.sink for s in summaries} == {"hfiles"}, [s.notLoaded for s in summaries]
    sides.peer_hbase.start_regionserver()
    compared = sides.source.compare(table, sides.peer_cluster, families=["f", "g"], raw=True)
    assert compared.same, compared.examples
    assert compared.left > 3 * edits_each
    assert sides.peer_cluster.scan_all(table, ["l"], raw=True) == []
    assert records_left(sides.at, peer) == []


@AS_FILES
@pytest.mark.timeout(900)
@pytest.mark.parametrize("moment", [("prepare", 1), ("load", 3)], ids=["before the first region", "in the middle of a region"])
def test_files_are_loaded_while_the_peer_cluster_is_in_motion(many_servers, managed_peer, create, moment: tuple[str, int]):
    peer = managed_peer(many_servers.source_cluster.address, many_servers.peer_hbase.address)
    check_loads_in_motion(many_servers, peer, create(), moment, 2_000)
