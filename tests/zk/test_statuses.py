"""Statuses of a source with a real ZooKeeper: the ones that come soon, and the data that all looks share."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from kazoo.security import make_digest_acl

from tests.zk.hbase_znodes import SERVER, HBaseZNodes, wal
from walferry.observe.status.statuses import Statuses
from walferry.observe.status.view import view
from walferry.replication.source.cluster import SourceCluster
from walferry.replication.source.session import Session

HOUR = 3_600_000
NOW = int(time.time() * 1000)  # about: a session of tests may last long


def test_an_ensemble_that_is_away_or_refuses_is_told_soon(at: SourceCluster, hbase: HBaseZNodes, session: Session) -> None:
    began = time.monotonic()
    away = Statuses().of(replace(at, quorum="localhost:1"))
    assert "no ZooKeeper server of localhost:1 can be reached" in (away.unreachable or "")
    assert time.monotonic() - began < 15
    assert away.peers is None
    session.zk.set_acls(hbase.nodes.peers, [make_digest_acl("a", "b", all=True)])
    assert "refuses to be read" in (Statuses().of(at).unreachable or "")


def test_viewers_and_looks_share_a_pass_and_none_waits_for_files_or_peer_clusters(
    hbase: HBaseZNodes, at: SourceCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    hbase.add_wal(SERVER, "p", wal(NOW - 2 * HOUR))
    hbase.add_wal(SERVER, "p", wal(NOW - HOUR))
    passes = []
    monkeypatch.setattr("walferry.observe.status.statuses.view", lambda session: passes.append(session) or view(session))
    statuses = Statuses(files_seconds=5, peer_clusters_seconds=0)
    found = [statuses.of(at) for _ in range(20)]
    assert len(passes) == 1
    (peer,) = found[-1].peers or ()
    assert peer.peer_cluster.reachable is None
    assert peer.bytes_left is not None
    assert peer.bytes_left.unsure == 1
    assert any("/hbase" in problem for problem in found[-1].problems)  # there is no such folder
    old = statuses.old_wals(at, wait_seconds=20)
    assert "/hbase" in (old.problem if old else "")
    assert len(passes) == 1
