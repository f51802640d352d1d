"""The submitted Spark job: the edits it ships, its output, its records and its results."""

from __future__ import annotations

import json

from embedded.wire import put
from tests.cluster.dead_queues import DeadQueue
from tests.cluster.spark_runs import run
from tests.cluster.walferry_runs import is_untouched, positions, roll
from tests.sessions import session_of
from walferry.base.zk.client import connected
from walferry.engine.summary import GroupSummary, Status
from walferry.replication.peers.settings import SinkKind
from walferry.shipping.runs import read_run


def kept(sides, peer: str, run_id: str) -> list[GroupSummary]:
    with connected(sides.at.quorum) as zk:
        return read_run(session_of(zk, sides.at), peer, run_id)


def test_a_job_ships_each_group_prints_what_it_did_and_keeps_it_in_zookeeper(sides, both, peer, tmp_path):
    table = both()
    sides.source.put_many(table, 2000, ["f:a", "l:b"], batch=100)
    roll(sides.at, peer)
    done = run(sides.at, peer, "run 1/é", tmp_path, sink=SinkKind.DIRECT)
    assert done.code == 0, done.output
    assert sides.source.compare(table, sides.peer_cluster, families=["f"]).same
    assert sides.peer_cluster.scan_all(table, ["l"]) == []

    (summary,) = kept(sides, peer, "run 1/é")
    assert (summary.status, summary.shippedCells, summary.cellsFiltered) == (Status.DONE, 2000, 2000)
    assert (summary.sink, summary.directRefused) == ("direct", None)  # though the source says replicate
    assert f"{summary.group}: done, shipped {summary.completedLogs} WALs, 2000 operations" in done.output
    assert done.summaries == [json.loads(summary.to_json())]

    again = run(sides.at, peer, "run2", tmp_path)
    assert again.code == 0, again.output
    assert f"peer {peer}: no closed WALs are queued" in again.output
    assert kept(sides, peer, "run2") == []


def test_a_group_that_fails_makes_the_job_fail_after_the_others_are_shipped(sides, both, peer, tmp_path):
    table = both()
    sides.source.write(table, [put("row", {"f:a": b"v"})])
    roll(sides.at, peer)
    lost = DeadQueue(sides.at, sides.source, peer)
    missing = lost.add(None)
    done = run(sides.at, peer, "run", tmp_path)
    assert done.code == 1, done.output
    assert f"{lost.group}: failed, shipped 0 WALs" in done.output
    assert f"{lost.group}: WAL {missing.name} is queued, but there is no such file" in done.output
    assert {s.group: s.status for s in kept(sides, peer, "run")}[lost.group] is Status.FAILED
    assert sides.source.compare(table, sides.peer_cluster).same
    assert lost.positions() == {missing.name: 0}


def test_a_peer_that_must_not_be_shipped_ends_the_job_with_the_reason_alone(sides, unique, tmp_path):
    peer = unique("peer")
    sides.source.add_peer(peer, sides.peer_cluster.address.cluster_key, enabled=False)
    try:
        before = positions(sides.at, peer)
        done = run(sides.at, peer, "run", tmp_path)
        assert done.code == 1
        assert f"peer {peer}: its configuration has no walferry.managed=true" in done.output
        assert "Traceback" not in done.output
        assert is_untouched(before, positions(sides.at, peer))
        assert kept(sides, peer, "run") == []
    finally:
        sides.source.remove_peer(peer)
