"""A source that keeps its peers in files (hbase.replication.peer.storage.impl=filesystem), with HBase's own Master and files."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from embedded.client import GLOBAL, even_splits
from embedded.standalone import StandaloneCluster
from tests.cluster.failover import failover
from tests.cluster.managed_peers import Clusters
from tests.cluster.test_failover import run as run_rounds
from tests.cluster.test_failover import we_claim_first
from tests.cluster.walferry_runs import plan, ship, source_of
from walferry.admin.creating import create
from walferry.admin.handing_back import begin_hand_back, finish_hand_back
from walferry.admin.peers import peer_admin
from walferry.base.zk.client import connected
from walferry.cli.main import main
from walferry.engine.summary import Status
from walferry.replication.peers.settings import SinkKind
from walferry.replication.queues import lease
from walferry.replication.queues.lease import Lease
from walferry.replication.source import peer_state
from walferry.runs.steps import batch

IN_FILES = {"hbase.replication.peer.storage.impl": "filesystem"}
ROWS = 500
Run = Callable[..., tuple[int, Any, str]]


@dataclass(frozen=True)
class Site(Clusters):
    """A source with its peers in files, and a peer cluster."""

    def table(self, name: str) -> str:
        for client in (self.source, self.peer_cluster):
            client.create_table(name, {"f": GLOBAL}, even_splits(3))
        return name

    def is_same(self, table: str) -> bool:
        return bool(self.source.compare(table, self.peer_cluster).same)


@pytest.fixture(scope="module")
def site(cluster_folder: Path, standalone_pair, java_client) -> Iterator[Site]:
    with StandaloneCluster(cluster_folder / "in-files", IN_FILES, name="in-files") as cluster:
        at = source_of(cluster.address)
        yield Site(
            java_client(cluster.address),
            java_client(standalone_pair.peer_cluster.address),
            replace(at, peers_root=f"{at.wal_root}/peers"),
        )


@pytest.fixture(autouse=True)
def _settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """A peer that was just added counts as one that was disabled long ago."""
    monkeypatch.setattr(lease, "HBASE_CALL_SECONDS", 0.0)
    monkeypatch.setattr(peer_state, "CLOCK_SECONDS", 0.0)


@pytest.fixture
def run(site: Site, capsys: pytest.CaptureFixture[str]) -> Run:
    """`run("peers", "list")` → exit status, standard output (with --json as a value), and stderr."""
    extra = {"wal_root": site.at.wal_root, "znode_parent": site.at.znode_parent, "peers_root": site.at.peers_root}

    def run(*words: str) -> tuple[int, Any, str]:
        capsys.readouterr()
        status = main(["--source", json.dumps({"host": site.at.quorum, "extra": extra}), *words])
        out, err = capsys.readouterr()
        return status, json.loads(out) if "--json" in words and out else out, err

    return run


def shipped(site: Site, peer: str, sink: SinkKind) -> None:
    settings = {**site.at.replication, "sink": sink}
    summaries = ship(replace(site.at, replication=settings), peer, run_id=f"run-{sink}")
    assert {(s.status, s.sink) for s in summaries} == {(Status.DONE, sink)}, [s.error for s in summaries]
    assert not plan(site.at, peer).to_ship


@pytest.mark.capability("peers in files")
def test_a_peer_in_files_is_created_shown_shipped_and_handed_back(site: Site, run: Run, unique) -> None:
    peer, new, table = unique("peer"), unique("new"), site.table(unique("t"))
    status, out, err = run("peers", "create", peer, "--cluster-key", site.key, "--table-cfs", table)
    assert status == 0, err
    with connected(site.at.quorum) as zk:
        assert not zk.exists(site.at.nodes.peer(peer))
    status, out, err = run("peers", "list")
    assert [line.split()[:3] for line in out.splitlines() if line.startswith(peer)] == [[peer, "DISABLED", "yes"]], err
    for sink in (SinkKind.DIRECT, SinkKind.HFILES):
        site.source.put_many(table, ROWS, ["f:q"], first=0 if sink is SinkKind.DIRECT else ROWS)
        shipped(site, peer, sink)
        assert site.is_same(table)
    status, out, err = run("check", "--json")
    assert (status, out["well"]) == (0, True), out
    assert "peers are in files below" in json.dumps(out)
    status, out, err = run("status", "--json")
    assert peer in json.dumps(out), err
    assert run("peers", "pause", peer)[0] == 0
    assert batch.choose(site.at, peer).refused == []
    assert run("peers", "resume", peer)[0] == 0
    site.source.put_many(table, ROWS, ["f:q"], first=2 * ROWS)
    with peer_admin(site.at) as admin:
        begin_hand_back(admin, peer, new)
        shipped(site, peer, SinkKind.DIRECT)
        finish_hand_back(admin, peer, new)
    assert {each.id: each.enabled for each in site.source.list_peers()} == {new: True}
    site.source.put_many(table, ROWS, ["f:q"], first=3 * ROWS)
    give_up = time.monotonic() + 60
    while not site.is_same(table):
        assert time.monotonic() < give_up, "HBase ships the rest"
        time.sleep(0.5)
    site.source.remove_peer(new)


def test_a_batch_writes_nothing_more_once_the_master_has_enabled_and_disabled_its_peer(
    site: Site, unique, monkeypatch: pytest.MonkeyPatch
) -> None:
    peer, table = unique("peer"), site.table(unique("t"))
    with peer_admin(site.at) as admin:
        create(admin, peer, site.key, table_cfs={table: ()})
    site.source.put_many(table, ROWS, ["f:q"])
    real, calls = Lease.remove_wal, []

    def changed(self: Lease, *args: Any) -> bool:
        calls.append(args)
        if len(calls) == 1:
            site.source.enable_peer(peer)
            site.source.disable_peer(peer)
            time.sleep(peer_state.LOOK_SECONDS)
        return real(self, *args)

    monkeypatch.setattr(Lease, "remove_wal", changed)
    (summary,) = ship(site.at, peer)
    assert calls
    assert summary.status is Status.FAILED
    assert f"peer {peer}: its state changed during the work on it" in summary.error
    assert site.is_same(table)  # it was sent, by Walferry at least
    site.source.remove_peer(peer)


def test_a_dead_server_s_queue_is_claimed_and_drained_on_hdfs(cluster_folder: Path, java_client, unique) -> None:
    with failover(
        cluster_folder / unique("failover"), java_client, regionservers=2, sleep_before_failover_ms=5000, conf=IN_FILES
    ) as site:
        assert site.at.peers_root == f"{site.at.wal_root}/peers"
        run_rounds(site, [we_claim_first])
