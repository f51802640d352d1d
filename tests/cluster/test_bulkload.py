"""A peer's queued WALs are loaded as files, and the peer cluster has exactly the cells that shipping would have left."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from embedded import wire
from embedded.client import GLOBAL
from tests.cluster.spark_runs import run
from tests.cluster.test_hfiles import FAMILIES, PEER_CLUSTER_SPLITS, ROWS, SOURCE_SPLITS, counted, repeated
from tests.cluster.walferry_runs import plan, roll, ship
from walferry.engine.summary import Status
from walferry.replication.peers.settings import SinkKind

pytestmark = pytest.mark.parametrize("sink", [SinkKind.HFILES], indirect=True)


@pytest.fixture
def table(sides, unique) -> str:
    """A table that keeps all cells, with different regions on the two sides."""
    name = unique("load")
    for client, splits in ((sides.source, SOURCE_SPLITS), (sides.peer_cluster, PEER_CLUSTER_SPLITS)):
        client.create_table(name, dict.fromkeys(FAMILIES, GLOBAL), splits, versions=1_000)
        client.switch_compaction(name, False)
        for family in FAMILIES:
            client.alter_family(name, family, {"KEEP_DELETED_CELLS": "TRUE"})
    return name


def check_same(sides, table: str) -> None:
    for raw in (True, False):
        compared = sides.source.compare(table, sides.peer_cluster, raw=raw)
        assert compared.same, compared.examples
        assert compared.left > ROWS


def test_a_backlog_is_loaded_and_its_wals_leave_the_queue(sides, table, managed_peer) -> None:
    peer = managed_peer(sides.source_cluster.address, sides.peer_hbase.address)
    chance = random.Random(3)
    for _ in range(3):
        sides.source.write(table, repeated(chance, 500))
        sides.source.write(table, repeated(chance, 100), one_by_one=True)
        sides.source.write(table, counted(chance, 60), one_by_one=True)
        sides.source.roll_wals()
    summaries = ship(sides.at, peer)
    assert {s.status for s in summaries} == {Status.DONE}, [s.error for s in summaries]
    assert {s.sink for s in summaries} == {"hfiles"}
    assert not plan(sides.at, peer).to_ship
    check_same(sides, table)


@pytest.mark.capability("HFiles")
def test_a_spark_job_loads_a_backlog(sides, table, managed_peer, tmp_path: Path, monkeypatch) -> None:
    check_spark_job(sides, table, managed_peer, tmp_path, monkeypatch, SinkKind.HFILES)


@pytest.mark.parametrize("way", [SinkKind.DIRECT, SinkKind.REPLICATE])
def test_a_spark_job_sends_a_backlog(sides, table, managed_peer, tmp_path: Path, monkeypatch, way: SinkKind) -> None:
    check_spark_job(sides, table, managed_peer, tmp_path, monkeypatch, way)


def check_spark_job(sides, table, managed_peer, tmp_path: Path, monkeypatch, sink: SinkKind) -> None:
    """Ship a backlog from a machine that has never run Walferry, and fail if the job had to compile a kernel."""
    monkeypatch.setenv("WALFERRY_CACHE", str(tmp_path / "library"))
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "numba"))
    peer = managed_peer(sides.source_cluster.address, sides.peer_hbase.address)
    chance = random.Random(4)
    sides.source.write(table, repeated(chance, 500))
    sides.source.write(table, [wire.put("row00", {"f:0": b"first"})])
    roll(sides.at, peer)
    done = run(sides.at, peer, "load", tmp_path, sink=sink)
    print(done.output)
    assert done.code == 0
    assert not plan(sides.at, peer).to_ship
    check_same(sides, table)
    compiled = [path.name for path in (tmp_path / "numba").rglob("*.nbi")]
    assert not compiled, "`walferry compile --here` (or `make kernels`) does not compile these, or was not run"
