"""Runs that ship an interval again are cut short: killed, out of time, or without a peer cluster. Their retries ship the rest."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import pytest

from embedded.client import GLOBAL
from embedded.spark import submit_replay
from tests.cluster.peer_changes import reconfigure
from tests.cluster.replaying import now, rows_of, ship_again
from tests.cluster.spark_runs import Job
from tests.cluster.test_peers_that_change import with_bandwidth
from tests.cluster.test_replay import quick_appends
from tests.cluster.walferry_runs import is_untouched, positions, roll
from walferry.engine.summary import GroupSummary, Status
from walferry.replay.files import OPEN_SLACK_MS, GroupFiles
from walferry.replay.interval import Interval
from walferry.replay.job import ReplayJob
from walferry.replay.order import Stages
from walferry.replay.shipment import ship_group
from walferry.replication.sinks.errors import PeerClusterUnreachable
from walferry.replication.source.session import open_session
from walferry.shipping.runs import read_run

__all__ = ["quick_appends"]  # a fixture

ROWS = 400  # of 200 bytes, in each WAL
WALS = 3
SLOW = 40_000  # bytes per second: some seconds for each WAL
WAIT_SECONDS = 120


@dataclass(frozen=True)
class Written:
    """A table's rows, by the WAL that has them, oldest first; all were written in the interval."""

    table: str
    interval: Interval
    rows: Mapping[str, frozenset[bytes]]

    def after(self, wal: str) -> frozenset[bytes]:
        """Return the rows of the WALs after this one; all rows if it is not one of them."""
        wals = list(self.rows)
        return frozenset().union(*(self.rows[later] for later in wals[wals.index(wal) + 1 if wal in wals else 0 :]))


@pytest.fixture
def written(sides, both) -> Callable[[str], Written]:
    """`written(peer)` writes ROWS to each of WALS files."""

    def write(peer: str) -> Written:
        table, start, rows = both({"f": GLOBAL}), now(), dict[str, frozenset[bytes]]()
        for number in range(WALS):
            newest = max(positions(sides.at, peer))
            sides.source.put_many(table, ROWS, ["f:a"], first=ROWS * number, value_bytes=200, batch=20)
            end = now()
            roll(sides.at, peer)
            rows[newest] = rows_of(sides.source, table).difference(*rows.values())
        return Written(table, Interval(start, end), rows)

    return write


@pytest.fixture
def slowly(sides, peer) -> Callable[[int], None]:
    """`slowly(bytes a second)` gives the peer a bandwidth; 0 takes it away."""
    return lambda rate: reconfigure(sides.source_cluster.address, peer, with_bandwidth(rate))


def kept(sides, peer: str, run_id: str) -> list[GroupSummary]:
    with open_session(sides.at) as session:
        return read_run(session, peer, run_id)


def test_the_retry_of_a_killed_spark_job_goes_on_with_the_first_wal_that_is_not_done(sides, peer, written, slowly, tmp_path):
    edits = written(peer)
    table, interval = edits.table, edits.interval
    slowly(SLOW)
    time.sleep(max(0.0, (interval.end + OPEN_SLACK_MS) / 1000 - time.time()))
    roll(sides.at, peer)  # otherwise the open WAL might contain entries of the interval
    queued = positions(sides.at, peer)
    submit = partial(submit_replay, interval=(interval.start, interval.end))
    with Job(sides.at, peer, "killed", tmp_path, submit) as job:
        give_up = time.monotonic() + WAIT_SECONDS
        while not any(summary.lastCompletedLog in edits.rows for summary in kept(sides, peer, "killed")):
            assert job.running, job.output
            assert time.monotonic() < give_up, job.output
            time.sleep(0.1)
        job.kill()
    (before,) = kept(sides, peer, "killed")
    assert before.status is Status.RUNNING
    slowly(0)
    sides.peer_cluster.empty_table(table)
    with Job(sides.at, peer, "killed", tmp_path, submit) as job:
        done = job.finish()
    assert done.code == 0, done.output
    assert rows_of(sides.peer_cluster, table) == edits.after(before.lastCompletedLog) != set()
    (summary,) = done.summaries
    assert summary["shippedOps"] >= WALS * ROWS
    assert summary["tables"][table][1] == WALS * ROWS
    assert is_untouched(queued, positions(sides.at, peer))


def test_a_run_whose_time_is_over_says_so_and_its_retry_ships_the_rest(sides, peer, written, slowly):
    edits = written(peer)
    table, interval = edits.table, edits.interval
    slowly(SLOW)
    began = time.monotonic()
    (late,) = ship_again(sides.at, peer, interval, seconds=6)
    assert late.status is Status.DEADLINE
    assert time.monotonic() - began < 12
    assert 0 < late.shippedOps < WALS * ROWS
    slowly(0)
    sides.peer_cluster.empty_table(table)
    (done,) = ship_again(sides.at, peer, interval)
    assert done.status is Status.DONE, done.error
    assert rows_of(sides.peer_cluster, table) == edits.after(late.lastCompletedLog) != set()


def test_a_peer_cluster_that_goes_away_ends_the_run_for_all_groups_and_the_retry_ships_the_rest(
    sides, proxied, proxied_peer, written
):
    edits = written(proxied_peer)
    table, interval = edits.table, edits.interval
    settings = {"replication.sink.patience": "3000", "replication.source.size.capacity": "16384"}
    at = replace(sides.at, replication=settings)
    proxied.sink.requests.hold_after(100_000)
    (down,) = ship_again(at, proxied_peer, interval)
    assert down.status is Status.PEER_DOWN, down.error
    assert "has acknowledged nothing since" in (down.error or "")
    assert "for more than 3 s" in (down.error or "")
    assert 0 < down.shippedOps < WALS * ROWS

    began = time.monotonic()
    job = ReplayJob(source=at, peer_id=proxied_peer, interval=interval, run_id="again", deadline=time.time() + 60)
    other = ship_group(job, GroupFiles("other", None, ()), Stages(), 0, GroupSummary(group="other"))
    assert (other.status, other.error) == (Status.PEER_DOWN, down.error)
    assert time.monotonic() - began < 2

    proxied.sink.cut()
    proxied.zookeeper.cut()
    with pytest.raises(PeerClusterUnreachable, match="for more than 3 s"):
        ship_again(at, proxied_peer, interval)

    proxied.sink.requests.let_go()
    proxied.sink.mend()
    proxied.zookeeper.mend()
    (done,) = ship_again(at, proxied_peer, interval)
    assert done.status is Status.DONE, done.error
    assert sides.source.compare(table, sides.peer_cluster).same
