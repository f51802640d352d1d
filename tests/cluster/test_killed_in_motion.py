"""Jobs and servers of the peer cluster are killed all the time, and its regions split, merge and move: each edit arrives, in
order.

The tables keep all cells, so the test compares raw scans of both sides: all versions, and the delete markers.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from embedded import wire
from embedded.client import JavaClient, JavaClientError, Region
from embedded.distributed import DistributedCluster, RegionServer
from embedded.wire import Mutation
from tests.cluster.conftest import ManyServers
from tests.cluster.peer_changes import reconfigure
from tests.cluster.spark_runs import Job, run
from tests.cluster.test_mixed_edits import ROWS
from tests.cluster.test_peer_cluster_in_motion import all_kinds, create
from tests.cluster.test_peers_that_change import with_bandwidth
from tests.cluster.walferry_runs import await_progress, plan, positions, roll
from tests.sessions import session_of
from walferry.base.zk.client import connected
from walferry.engine.summary import Status
from walferry.load.records import loads_of
from walferry.replication.peers.settings import SinkKind
from walferry.shipping.runs import read_run

__all__ = ["create"]  # a fixture

SINKS = [SinkKind.DIRECT, SinkKind.REPLICATE, SinkKind.HFILES]
TABLES = 5
EDITS = 100_000
JOB_KILLS, SERVER_KILLS = 20, 10
BYTES_A_SECOND = 100_000  # slow enough that a job cannot ship everything before it is killed
LONGEST_SECONDS = 5.0  # from a job's first acknowledgement until it is killed
LONGEST_LOAD_SECONDS = 3.0  # from when a job begins to read for files, or to load them, until it is killed
WAIT_SECONDS = 300
MOTION_PAUSE_SECONDS = 1.0
RUN_ID = "the same for all attempts"


def edits_of(count: int, chance: random.Random) -> Iterator[Mutation]:
    """Yield edits of all kinds. A fifth are puts with old timestamps, several for each row."""
    for number, mutation in enumerate(all_kinds(count - count // 5, chance)):
        yield mutation
        if number % 4 == 3:
            row, column = f"row{chance.randrange(ROWS):05}", f"{chance.choice('fg')}:{chance.randrange(6)}"
            yield wire.put(row, {column: chance.randbytes(30)}, timestamp=chance.randrange(1, 1000))


class Motions:
    """Changes the peer cluster's regions all the time. A change that fails because a server has just died is replaced by another
    one."""

    def __init__(self, peer_cluster: JavaClient, tables: list[str], chance: random.Random) -> None:
        self._peer_cluster, self._tables, self._chance = peer_cluster, tables, chance
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.done: Counter[str] = Counter()

    def __enter__(self) -> Motions:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(120)

    def _run(self) -> None:
        while not self._ended.wait(MOTION_PAUSE_SECONDS):
            name = self._chance.choice(("split", "merge", "move"))
            with suppress(JavaClientError):
                regions = sorted(
                    self._peer_cluster.regions(self._chance.choice(self._tables)), key=lambda region: region.start_key
                )
                getattr(self, name)(regions)
                self.done[name] += 1

    def split(self, regions: list[Region]) -> None:
        region = self._chance.choice(regions)
        first, end = (int(key.removeprefix(b"row") or other) for key, other in ((region.start_key, 0), (region.end_key, ROWS)))
        self._peer_cluster.split_region(region.encoded_name, b"row%05d" % ((first + end) // 2))

    def merge(self, regions: list[Region]) -> None:
        first = self._chance.randrange(len(regions) - 1)
        self._peer_cluster.merge_regions(regions[first].encoded_name, regions[first + 1].encoded_name)

    def move(self, regions: list[Region]) -> None:
        region = self._chance.choice(regions)
        others = [server for server in self._peer_cluster.region_servers() if server != region.server]
        self._peer_cluster.move_region(region.encoded_name, self._chance.choice(others))


class Servers:
    """Kills RegionServers, and starts a new one for each while all else goes on. A context manager that waits for them."""

    def __init__(self, cluster: DistributedCluster, chance: random.Random) -> None:
        self._cluster, self._chance = cluster, chance
        self._pool = ThreadPoolExecutor(1)
        self._starting: Future[RegionServer] | None = None
        self.killed = 0

    def __enter__(self) -> Servers:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()

    def kill_one(self) -> None:
        """kill -9, once all servers are there."""
        if self._starting:
            self._starting.result(300)
        self._cluster.kill_regionserver(self._chance.randrange(len(self._cluster.regionservers)))
        self.killed += 1
        self._starting = self._pool.submit(self._cluster.start_regionserver)


def kill_in_mid_shipment(sides: ManyServers, peer: str, folder: Path, chance: random.Random, servers: Servers | None) -> None:
    """Start a job, and kill it when it has shipped some edits and has some left. Before it, kill a server, if given any."""
    before = positions(sides.at, peer)
    with Job(sides.at, peer, RUN_ID, folder) as job:
        await_progress(sides.at, peer, before)
        if servers:
            servers.kill_one()
        time.sleep(chance.uniform(0, LONGEST_SECONDS))
        assert job.running, job.output
        job.kill()
    assert plan(sides.at, peer).to_ship


def kill_in_mid_load(sides: ManyServers, peer: str, folder: Path, chance: random.Random, servers: Servers | None) -> None:
    """Do the same while WALs are read for files, or while tasks have folders at the peer cluster: each in about half of the
    cases."""
    loading = chance.random() < 0.5
    with connected(sides.at.quorum) as zk, Job(sides.at, peer, RUN_ID, folder) as job:
        session = session_of(zk, sides.at)
        give_up = time.monotonic() + WAIT_SECONDS
        while "are loaded as files" not in job.output or (loading and not any(load.folders for load in loads_of(session, peer))):
            assert job.running, job.output
            assert time.monotonic() < give_up, job.output
            time.sleep(0.02)
        if servers:
            servers.kill_one()
        time.sleep(chance.uniform(0, LONGEST_LOAD_SECONDS / (10 if loading and not servers else 1)))
        assert job.running, job.output
        job.kill()
        assert plan(sides.at, peer).to_ship
        print(f"killed with {[load.folders for load in loads_of(session, peer)]} folders at the peer cluster")


@pytest.mark.soak
@pytest.mark.timeout(5400)
@pytest.mark.parametrize("sink", SINKS, indirect=True)
def test_a_hundred_thousand_edits_arrive_though_jobs_and_servers_are_killed(many_servers, managed_peer, create, sink, tmp_path):
    sides, began, seed = many_servers, time.monotonic(), random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    source = sides.source_cluster.address
    peer = managed_peer(source, sides.peer_hbase.address)
    loads = sink is SinkKind.HFILES
    kill = kill_in_mid_load if loads else kill_in_mid_shipment
    if not loads:
        reconfigure(source, peer, with_bandwidth(BYTES_A_SECOND))
    tables, written = [create() for _ in range(TABLES)], 0
    motions = Motions(sides.peer_cluster, tables, random.Random(seed + 1))
    with Servers(sides.peer_hbase, chance) as servers, motions:
        for number in range(JOB_KILLS):
            written += sides.source.write(tables[number % TABLES], edits_of(EDITS // JOB_KILLS, chance))
            roll(sides.at, peer)
            with_server = servers.killed * JOB_KILLS < (number + 1) * SERVER_KILLS
            kill(sides, peer, tmp_path, chance, servers if with_server else None)
            print(
                f"{time.monotonic() - began:.0f} s: {number + 1} jobs and {servers.killed} servers killed, {dict(motions.done)}"
            )
        reconfigure(source, peer, with_bandwidth(0))
        done = run(sides.at, peer, RUN_ID, tmp_path)
        assert done.code == 0, done.output
    with connected(sides.at.quorum) as zk:
        summaries = read_run(session_of(zk, sides.at), peer, RUN_ID)
    assert {s.status for s in summaries} == {Status.DONE}, summaries
    assert {s.directRefused for s in summaries} == {None}
    assert {s.sink for s in summaries} <= {"", sink}
    assert {s.notLoaded for s in summaries} == {None}
    compared = [sides.source.compare(table, sides.peer_cluster, families=["f", "g"], raw=True) for table in tables]
    assert all(each.same for each in compared), [each.examples for each in compared]
    assert all(sides.peer_cluster.scan_all(table, ["l"], raw=True) == [] for table in tables)
    cells = sum(each.left for each in compared)
    print(
        f"{sink}: {written} edits, {cells} cells on both sides, {JOB_KILLS} jobs and {servers.killed} servers killed, "
        f"{dict(motions.done)}, {time.monotonic() - began:.0f} s"
    )
    assert (written, servers.killed) == (EDITS, SERVER_KILLS)
    assert all(motions.done[name] for name in ("split", "merge", "move")), motions.done
