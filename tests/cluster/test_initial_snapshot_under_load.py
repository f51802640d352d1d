"""Initial snapshots by the Spark job while clients write: killed, resumed, and equal once the queue is shipped."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from embedded.client import GLOBAL, JavaClient, even_splits
from embedded.spark import submit_copy
from tests.cluster.spark_runs import Finished, Job
from tests.cluster.walferry_runs import ship, source_of
from walferry.hbase.cluster import master as active_master
from walferry.hbase.rpc import master
from walferry.load.copy_records import Records
from walferry.replication.source.cluster import SourceCluster
from walferry.replication.source.session import open_session

REGIONS = 16
WAIT_SECONDS = 300


@pytest.fixture
def table(unique) -> str:
    return unique("t")


def test_a_job_that_was_killed_in_mid_copy_goes_on_and_in_the_end_both_sides_are_equal(
    standalone_pair, java_client, managed_peer, table, tmp_path
):
    source, peer_cluster = standalone_pair
    peer = managed_peer(source.address, peer_cluster.address)
    clients = java_client(source.address), java_client(peer_cluster.address)
    ended = copy_under_load(source_of(source.address), clients, peer, table, 20_000, tmp_path, kills=1)
    assert f"1 tables, {REGIONS} regions; " in ended.output
    assert "; 0 of them are copied already" not in ended.output
    staging = Path(peer_cluster.address.wal_root.removeprefix("file:")) / "staging"
    # A task that is killed before it has noted its folder leaves it empty.
    assert not [left for left in staging.iterdir() if f"__{table}__" in left.name and any(left.rglob("*"))]


@pytest.mark.soak
def test_a_million_rows_are_copied_by_jobs_that_are_killed_again_and_again(
    distributed_pair, java_client, managed_peer, table, tmp_path
):
    source, peer_cluster = distributed_pair
    peer = managed_peer(source.address, peer_cluster.address)
    clients = java_client(source.address), java_client(peer_cluster.address)
    copy_under_load(source_of(source.address), clients, peer, table, 1_000_000, tmp_path, kills=5)


def copy_under_load(
    source: SourceCluster, clients: tuple[JavaClient, JavaClient], peer: str, table: str, rows: int, folder: Path, *, kills: int
) -> Finished:
    """Write, copy while `kills` jobs are killed, ship and compare. Returns how the last job ended."""
    left, right = clients
    left.create_table(table, {"f": GLOBAL}, even_splits(REGIONS))
    left.put_many(table, rows, ["f:a", "f:b"])
    load = left.start_load(table, threads=3)
    try:
        for number in range(kills):
            with Job(source, peer, "load", folder, submit_copy, tables=(table,)) as job:
                await_copied(source, peer, table, job, 1 + number * REGIONS // (kills + 1))
                time.sleep(random.random() / 4)
                job.kill()
        with Job(source, peer, "load", folder, submit_copy, tables=(table,)) as job:
            ended = job.finish()
    finally:
        status = load.stop()
    assert ended.code == 0, ended.output
    assert status.acknowledged > 0
    assert not status.failed, status.errors
    assert snapshots(source) == []
    assert all(not summary.failed for summary in ship(source, peer, deadline=600))
    assert load.missing(right, table) == (0, ())
    assert left.compare(table, right).same
    return ended


def await_copied(source: SourceCluster, peer: str, table: str, job: Job, at_least: int) -> None:
    """Wait until `at_least` regions are copied, while the job runs."""
    give_up = time.monotonic() + WAIT_SECONDS
    with open_session(source) as session:
        records = Records(session, peer)
        while sum(bool(record.way) for record in records.regions(table, records.names(table)).values()) < at_least:
            assert job.running, job.output
            assert time.monotonic() < give_up, job.output
            time.sleep(0.02)


def snapshots(source: SourceCluster) -> list[str]:
    with open_session(source) as session, master.connect(active_master(session.zk, session.nodes)) as at:
        return master.completed_snapshots(at)
