"""The DAGs of recovery, run by Airflow, on real clusters: queues made by hand, real edits in them, real Spark jobs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from embedded.client import GLOBAL, JavaClient
from tests.cluster.dead_queues import DeadQueue, Recording, record
from tests.cluster.walferry_runs import source_of
from tests.conftest import StandalonePair
from tests.sessions import session_of
from walferry.airflow.operators.approval import YES
from walferry.base.zk.client import connected
from walferry.hbase.values import encode_position
from walferry.replication.queues.dead_servers import WALFERRY_SERVER, recovered_queues
from walferry.replication.source.cluster import SourceCluster
from walferry.runs.reports import progress

from .conftest import Run
from .people import person


@pytest.fixture
def at(standalone_pair, monkeypatch) -> SourceCluster:
    """The source as Airflow's connection."""
    address = standalone_pair.source.address
    extra = {"wal_root": address.wal_root, "znode_parent": address.znode_parent}
    monkeypatch.setenv("AIRFLOW_CONN_HBASE_SOURCE", json.dumps({"conn_type": "generic", "host": address.quorum, "extra": extra}))
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local[2]"}')
    return source_of(address)


@pytest.fixture
def source(standalone_pair, java_client, at) -> JavaClient:
    return java_client(standalone_pair.source.address)


@pytest.fixture
def peer_cluster(standalone_pair, java_client) -> JavaClient:
    return java_client(standalone_pair.peer_cluster.address)


@pytest.fixture
def peer(standalone_pair, managed_peer) -> str:
    return managed_peer(standalone_pair.source.address, standalone_pair.peer_cluster.address)


@pytest.fixture
def recording(source, peer_cluster, unique) -> Iterator[Recording]:
    """A WAL with 50 puts to a table that both sides have."""
    table = unique("t")
    for client in (source, peer_cluster):
        client.create_table(table, {"f": GLOBAL})
    yield record(source, table, 50)
    for client in (source, peer_cluster):
        client.drop_table(table)


def orphaned(at: SourceCluster, client: JavaClient, peer: str) -> DeadQueue:
    """Return a queue that still lies under its dead server."""
    queue = DeadQueue(at, client, peer)
    queue.path = at.nodes.queue(queue.server, peer)
    return queue


def rows_of(peer_cluster: JavaClient, table: str) -> set[bytes]:
    return {cell.row for cell in peer_cluster.scan_all(table)}


@pytest.mark.parametrize("sink", ["configured", "hfiles"])
def test_what_dead_servers_left_arrives_and_nothing_of_them_stays(
    run_dag: Callable[..., Run], at: SourceCluster, source: JavaClient, peer_cluster: JavaClient, peer: str, recording: Recording,
    sink: str, logged: Callable[[], str],
):  # fmt: skip
    claimed_by_hbase, unclaimed, cut_off = DeadQueue(at, source, peer), orphaned(at, source, peer), orphaned(at, source, peer)
    half = len(recording.puts) // 2
    claimed_by_hbase.add(recording.content, encode_position(recording.puts[half].end))
    unclaimed.add(recording.content[: recording.puts[half].end + 7])  # the server died in the middle of an entry
    unclaimed.add(b"")
    cut_off.add(None)
    ended = run_dag("regionserver_failover", sink=sink)
    assert ended.state == "failed"
    reported = logged()
    assert [line for line in reported.splitlines() if line.startswith("Loaded as files")] == (
        ["Loaded as files, to their ends: 2 of 3 WAL groups"] if sink == "hfiles" else []
    )
    (reason,) = ended.report["failures"]
    assert "there is no such file" in reason
    assert cut_off.group in reason
    assert rows_of(peer_cluster, recording.table) == {put.cells[0].row for put in recording.puts}
    states = {q["dead_server"]: (q["state"], q["claimed_by"], q["wals"], q["left"]) for q in ended.report["queues"]}
    assert states == {
        claimed_by_hbase.server: ("complete", "HBase", 1, 0),
        unclaimed.server: ("complete", "Walferry", 2, 0),
        cut_off.server: ("failed", "Walferry", 1, 1),
    }
    totals = ended.report["totals"]
    assert (totals["completedRecoverQueues"], totals["failedRecoverQueues"], totals["uncleanlyClosedLogs"]) == (2, 1, 2)

    give_up_lost_wal(at, peer, cut_off)
    again = run_dag("drain_recovered_queue", peer=peer, sink=sink)
    assert again.state == "success", again.report
    with connected(at.quorum) as zk:
        assert not [queue.ref for queue in recovered_queues(session_of(zk, at), peer)]
        servers = zk.get_children(at.nodes.queues)
    assert not {claimed_by_hbase.server, unclaimed.server, cut_off.server, WALFERRY_SERVER} & set(servers)


def give_up_lost_wal(at: SourceCluster, peer: str, queue: DeadQueue) -> None:
    """Take a lost WAL out of its queue, as an operator does who accepts the loss."""
    with connected(at.quorum) as zk:
        (lies,) = (q for q in recovered_queues(session_of(zk, at), peer) if q.groups == (queue.group,))
        zk.delete(at.nodes.wal(lies.server, lies.queue_id, lies.wals[0]))


def test_one_queue_is_drained_by_hand_after_a_dry_run(
    run_dag: Callable[..., Run], at: SourceCluster, source: JavaClient, peer_cluster: JavaClient, peer: str, recording: Recording
):
    asked, other = orphaned(at, source, peer), DeadQueue(at, source, peer)
    for queue in (asked, other):
        queue.add(recording.content)
    ref = f"{asked.server}/{peer}"
    dry = run_dag("drain_recovered_queue", queue=ref, dry_run=True)
    assert dry.state == "success", dry.report
    size = len(recording.content)
    (line,) = (note for note in dry.report["notes"] if note.startswith(f"  {asked.group}."))
    assert f"{size:,} bytes, shipped to 0, {size:,} bytes left" in line
    assert rows_of(peer_cluster, recording.table) == set()

    ended = run_dag("drain_recovered_queue", peer=peer, queue=ref)
    assert ended.state == "success", ended.report
    assert rows_of(peer_cluster, recording.table) == {put.cells[0].row for put in recording.puts}
    assert [(q["dead_server"], q["shippedOps"]) for q in ended.report["queues"]] == [(asked.server, len(recording.puts))]
    assert len(other.positions()) == 1
    assert run_dag("drain_recovered_queue", peer=peer).state == "success"
    assert other.positions() == {}


def test_progress_is_told_while_the_job_runs(
    run_dag: Callable[..., Run], at: SourceCluster, source: JavaClient, peer_cluster: JavaClient, peer: str, recording: Recording,
    monkeypatch: pytest.MonkeyPatch,
):  # fmt: skip
    reported: list[str] = []
    init = progress.ProgressLog.__init__

    def note(self: progress.ProgressLog, *args: Any) -> None:
        init(self, *args[:-2], reported.append, args[-1])  # type: ignore[call-arg]

    monkeypatch.setattr(progress.ProgressLog, "__init__", note)
    monkeypatch.setattr(progress, "EVERY_SECONDS", 0.2)
    monkeypatch.setattr(progress, "LOOK_SECONDS", 0.2)  # the job may take less than 3 s
    queue = DeadQueue(at, source, peer)
    for _ in range(3):
        queue.add(recording.content)
    ended = run_dag("drain_recovered_queue", peer=peer)
    assert ended.state == "success", ended.report
    size = 3 * len(recording.content)
    assert reported[-1] == f"peer {peer}: 3 of 3 WALs, {progress.size(size)} of {progress.size(size)} (100 %); left: 0 WALs, 0 B"
    assert reported[0].startswith(f"peer {peer}: ")
    assert len(reported) == len(set(reported))


def test_a_removed_peer_s_queue_is_deleted_on_demand(
    run_dag: Callable[..., Run], at: SourceCluster, source: JavaClient, standalone_pair: StandalonePair,
    unique: Callable[[str], str], recording: Recording,
) -> None:  # fmt: skip
    gone = unique("gone")
    source.add_managed_peer(gone, standalone_pair.peer_cluster.address.cluster_key)
    source.remove_peer(gone)
    queue = DeadQueue(at, source, gone)
    wal = queue.add(recording.content)
    kept = run_dag("drain_recovered_queue", peer=gone)
    assert kept.state == "success", kept.report
    assert f"of peer {gone}, which is gone: 1 WAL, {progress.size(len(recording.content))} not shipped" in kept.report["notes"][0]
    assert queue.positions()
    with person(YES):
        assert run_dag("drain_recovered_queue", peer=gone, delete_orphan=True).state == "success"
    assert queue.positions() == {}
    assert wal.exists()  # HBase's log cleaner takes the file
