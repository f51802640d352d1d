"""The Spark job is killed again and again without warning: no edit is lost, and no position passes what the peer cluster has."""

from __future__ import annotations

import random
import time

import pytest

from embedded.client import even_splits
from embedded.wire import delete_row, put
from tests.cluster.peer_changes import reconfigure
from tests.cluster.spark_runs import Job, run
from tests.cluster.test_peers_that_change import with_bandwidth
from tests.cluster.walferry_runs import BOTH_SINKS_IN_SOAK, WalTruth, await_progress, plan, positions, roll, sink_of
from tests.sessions import session_of
from walferry.base.zk.client import connected
from walferry.engine.summary import Status
from walferry.shipping.runs import read_run

pytestmark = BOTH_SINKS_IN_SOAK
ROWS = 12_000  # of 1 kB
BYTES_A_SECOND = 10_000_000  # so that a table takes about a second, however fast the sink is
TABLES_AHEAD = 3  # this many are queued when a job begins
RUN_ID = "the same for all attempts"


@pytest.fixture
def peer(sides, peer: str) -> str:
    reconfigure(sides.source_cluster.address, peer, with_bandwidth(BYTES_A_SECOND))
    return peer


class Backlog:
    """Writes and rolls tables, each into its own WAL, while jobs are killed."""

    def __init__(self, sides, both, peer: str) -> None:
        self._sides = sides
        self._both = both
        self._peer = peer
        self.tables: list[str] = []
        self.truth = WalTruth(sides.at, peer, sides.source, sides.peer_cluster)

    def refill(self) -> None:
        while sum(w.bytes_left for g in plan(self._sides.at, self._peer).groups for w in g.wals) < TABLES_AHEAD * ROWS * 1000:
            table = self._both(splits=even_splits(8))  # regions for all senders, so acknowledgements come out of the WAL's order
            self._sides.source.put_many(table, ROWS, ["f:a"], value_bytes=1000, batch=20)
            self._sides.source.put_many(table, 200, ["l:b"], batch=20)
            self._sides.source.flush(table)  # a region with data in memory takes 2 MB of the server's heap
            self.tables.append(table)
            roll(self._sides.at, self._peer)
        self.truth.read_closed()


def kill_again_and_again(sides, backlog: Backlog, peer: str, folder, kills: int) -> None:
    """Start and kill jobs at random moments, checking after each, until `kills` were killed in mid-shipment."""
    rng = random.Random()
    in_mid_shipment = attempt = 0
    while in_mid_shipment < kills:
        assert attempt < 4 * kills, f"{in_mid_shipment} of {attempt} kills were in mid-shipment"
        backlog.refill()
        before = positions(sides.at, peer)
        with Job(sides.at, peer, RUN_ID, folder) as job:
            if attempt % 4 == 3:
                time.sleep(rng.uniform(0, 30))  # any time, from before its start
            else:
                await_progress(sides.at, peer, before)
                time.sleep(rng.uniform(0, 1))
            alive = job.running
            job.kill()
        newly_registered = backlog.truth.check()
        in_mid_shipment += alive and newly_registered > 0 and backlog.truth.unfinished
        print(f"attempt {attempt}: {'killed' if alive else 'had ended'}, {newly_registered} more cells registered")
        attempt += 1


def finish(sides, backlog: Backlog, peer: str, folder) -> None:
    """Let one attempt ship the rest undisturbed, and compare both sides."""
    done = run(sides.at, peer, RUN_ID, folder)
    assert done.code == 0, done.output
    backlog.truth.check()
    assert not backlog.truth.unfinished
    for table in backlog.tables:
        assert sides.source.compare(table, sides.peer_cluster, families=["f"]).same
        assert sides.peer_cluster.count_rows(table) == ROWS
        assert sides.peer_cluster.scan_all(table, ["l"]) == []
    with connected(sides.at.quorum) as zk:
        (summary,) = read_run(session_of(zk, sides.at), peer, RUN_ID)
    assert summary.status is Status.DONE
    assert (summary.sink, summary.directRefused) == (sink_of(sides.at), None)
    assert summary.shippedCells >= ROWS * len(backlog.tables)  # at least once


def test_jobs_killed_in_mid_shipment_lose_nothing(sides, both, peer, tmp_path):
    backlog = Backlog(sides, both, peer)
    kill_again_and_again(sides, backlog, peer, tmp_path, kills=1)
    finish(sides, backlog, peer, tmp_path)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_ten_jobs_killed_in_mid_shipment_and_others_between_lose_nothing(sides, both, peer, tmp_path):
    backlog = Backlog(sides, both, peer)
    mixed = both()
    backlog.truth.changing.add(mixed)
    sides.source.write(mixed, [put(f"r{i % 500}", {"f:a": b"%d" % i, "l:b": b"x"}) for i in range(2000)], one_by_one=True)
    sides.source.write(mixed, [delete_row(f"r{i}") for i in range(0, 500, 3)], one_by_one=True)
    kill_again_and_again(sides, backlog, peer, tmp_path, kills=10)
    finish(sides, backlog, peer, tmp_path)
    assert sides.source.compare(mixed, sides.peer_cluster, families=["f"]).same
