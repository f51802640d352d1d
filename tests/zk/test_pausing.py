"""Runs leave a peer that its operator has paused alone, say so, and end well."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from tests.sessions import session_of
from tests.unit.hbase.wal.encoder import encode_wal
from tests.zk.hbase_znodes import DEAD, SERVER, HBaseZNodes, wal
from walferry.engine.summary import Status
from walferry.hbase.errors import PausedPeer
from walferry.hbase.names import parse_wal_name
from walferry.load.errors import CopyUnderWay
from walferry.replication.queues.dead_servers import find_dead
from walferry.replication.retention.survey import ShippedBy, _shipped_by
from walferry.replication.source.cluster import SourceCluster
from walferry.replication.source.peers import read_peer
from walferry.runs.steps import batch, recovery
from walferry.runs.values import ChosenPeers, Selected
from walferry.shipping.group import ship_group
from walferry.shipping.group_job import GroupJob
from walferry.shipping.runs import read_run

PAUSED = {"walferry.managed": "true", "walferry.paused": "true"}


@pytest.fixture
def source(zookeeper, hbase: HBaseZNodes, tmp_path) -> SourceCluster:
    (tmp_path / "oldWALs").mkdir()
    hbase.set_config("p", PAUSED)
    return SourceCluster(quorum=zookeeper.quorum, wal_root=f"file://{tmp_path}", znode_parent=hbase.nodes.base, root=hbase.root)


def test_a_batch_leaves_it_alone_and_says_who_resumes_it(source: SourceCluster, hbase: HBaseZNodes) -> None:
    hbase.add_wal(SERVER, "p", wal(1))
    before = hbase.everything()
    assert batch.roll(source, ["p"]) is None
    planned = batch.plan(source, "p", "r.1", "r", ChosenPeers(["p"], [], time.time()))
    assert planned.groups == 0
    assert planned.left_to == str(PausedPeer("p"))
    assert batch.why_paused(source, "p") == planned.left_to
    assert hbase.everything() == before


def test_a_batch_leaves_a_peer_to_its_initial_snapshot(
    source: SourceCluster, hbase: HBaseZNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    hbase.set_config("p", {"walferry.managed": "true"})
    hbase.add_wal(SERVER, "p", wal(1))
    hbase.add_wal(SERVER, "p", wal(2))
    copying = CopyUnderWay("its initial snapshot is not complete")
    with monkeypatch.context() as patch:
        patch.setattr(batch, "under_way", lambda session, peer_id: copying)
        planned = batch.plan(source, "p", "r.1", "r", ChosenPeers(["p"], [], time.time()))
    assert (planned.groups, planned.left_to) == (0, str(copying))


def test_a_dead_server_s_queues_stay_where_they_are(source: SourceCluster, hbase: HBaseZNodes, zk: KazooClient) -> None:
    hbase.add_wal(DEAD, "p", wal(1, DEAD))
    before = hbase.everything()
    assert find_dead(session_of(zk, source)) == ()
    found = recovery.find(source, DEAD, ())
    assert found.servers == []
    assert "it is paused" in found.notes[0]
    assert hbase.everything() == before


def test_a_queue_that_is_to_be_drained_by_hand_is_left_alone(source: SourceCluster, hbase: HBaseZNodes, monkeypatch) -> None:
    monkeypatch.setattr(recovery, "disagreements", lambda *_: {})  # no Master runs here
    hbase.add_wal(DEAD, "p", wal(1, DEAD))
    for peer, ref in (("p", ""), ("", f"{DEAD}/p"), ("", "")):
        selected = recovery.select(source, peer, ref, delete_orphan=False)
        assert selected.queues == []
        assert "it is paused" in selected.notes[0]


def test_a_queue_whose_peer_was_paused_in_the_middle_of_a_run_waits(
    source: SourceCluster, hbase: HBaseZNodes, monkeypatch
) -> None:
    monkeypatch.setattr(recovery, "disagreements", lambda *_: {})
    hbase.add_wal(DEAD, "p", wal(1, DEAD))
    planned = recovery.plan(source, recovery.wanted_by_hand(Selected(["p"])), (), "r")
    (drain,) = planned.drains
    assert (drain.paused, planned.jobs) == (True, [])
    assert "it is paused" in drain.problem


def test_retention_says_that_nobody_ships_it(source: SourceCluster, hbase: HBaseZNodes, zk: KazooClient) -> None:
    assert _shipped_by(read_peer(session_of(zk, hbase), "p")) is ShippedBy.PAUSED


@pytest.mark.parametrize("comes", ["a pause", "an HMaster that was said to be absent"])
def test_a_run_that_waits_for_its_peer_cluster_sees_what_comes_and_ends(
    source: SourceCluster, hbase: HBaseZNodes, zk: KazooClient, tmp_path: Path, comes: str
) -> None:
    hbase.add_peer("away", clusterkey="127.0.0.1:1:/peer_cluster")
    hbase.add_wal(DEAD, "away", wal(1, DEAD))
    (tmp_path / "oldWALs" / wal(1, DEAD)).write_bytes(encode_wal([]))
    group = parse_wal_name(wal(1, DEAD)).group
    told = replace(source, master_absent=comes != "a pause")
    job = GroupJob(source=told, peer_id="away", group=group, run_id="r", holder="h", deadline=time.time() + 300)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(ship_group, job)
        give_up = time.monotonic() + 60
        while not read_run(session_of(zk, source), "away", "r"):
            assert time.monotonic() < give_up
            time.sleep(0.1)
        if comes == "a pause":
            hbase.set_config("away", PAUSED)
        else:
            hbase.zk.create(hbase.nodes.master)
        summary = waiting.result(60)
    assert summary.status is (Status.PAUSED if comes == "a pause" else Status.FAILED)
    assert ("it is paused" if comes == "a pause" else "an HMaster is active") in (summary.error or "")
    assert hbase.queued("away") == [f"{hbase.nodes.queue(DEAD, 'away')}/{wal(1, DEAD)}"]
