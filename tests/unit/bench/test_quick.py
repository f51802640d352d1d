"""The quick benchmark's figures: made of drains, verifications and batches, and the ones that the last commit has kept."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from bench import quick
from bench.clusters import ROW_BYTES
from bench.drains import Drain
from bench.figures import Figure, Machine, Outcome
from bench.start import Batch
from bench.verification import Comparison
from bench.ways import Took

HALF_A_GIGABYTE = 500_000_000 // ROW_BYTES


def drain(by: str, whole: float, *, job_cpu: float = 1.0, peer_cpu: float = 1.0) -> Drain:
    return Drain(by, HALF_A_GIGABYTE, Took(whole / 2, whole, own_cpu=1.0, job_cpu=job_cpu), peer_cpu, hdfs_cpu=0.0)


def named(figures: list[Figure], name: str) -> Figure:
    (found,) = [figure for figure in figures if figure.name == name]
    return found


@pytest.fixture
def drains() -> list[Figure]:
    return quick.of_drains([
        drain("hbase", 20, peer_cpu=40), drain("direct", 10, job_cpu=5), drain("hfiles", 5), drain(quick.WAL_PLAYER, 15),
        drain(quick.WAL_PLAYER, 18), drain("hbase", 30, peer_cpu=50), drain("direct", 10, job_cpu=6), drain("hfiles", 6),
    ])  # fmt: skip


def test_ratios_of_drains_are_to_another_way_in_the_same_round(drains: list[Figure]):
    assert named(drains, "direct beside hbase").rounds == (2.0, 3.0)
    assert named(drains, "hfiles beside WALPlayer, HFiles").rounds == (3.0, 3.0)
    assert named(drains, "hfiles beside hbase").larger_is_better


def test_cpu_of_drains_is_a_gigabytes(drains: list[Figure]):
    assert named(drains, "direct: whole job").rounds == pytest.approx((10.0, 12.0), rel=1e-3)
    assert not named(drains, "direct: whole job").larger_is_better
    assert named(drains, "direct: the processes that ship").value == pytest.approx(2.0, rel=1e-3)
    assert named(drains, "hbase: the peer cluster's RegionServers").rounds == pytest.approx((80.0, 100.0), rel=1e-3)


def test_a_change_of_hbases_own_cpu_is_not_taken_for_one_of_ours(drains: list[Figure]):
    ours = {figure.name for figure in drains if figure.ours}

    assert {figure.name.partition(":")[0] for figure in drains if not figure.ours} == {"hbase", quick.WAL_PLAYER}
    assert not [name for name in ours if name.startswith(("hbase", quick.WAL_PLAYER))]


def test_only_seconds_are_not_compared(drains: list[Figure]):
    assert {figure.unit for figure in drains if not figure.compared} == {"s"}
    assert {figure.unit for figure in drains if figure.compared} == {"times as fast", "CPU-seconds a GB"}


def test_a_batchs_cpu_through_connect_has_the_servers_in_it():
    batches = [
        Batch("spark-submit", 6.0, 0.5, cpu=7.0, server_cpu=0.0), Batch("Connect", 1.0, 0.5, cpu=0.4, server_cpu=0.5),
        Batch("Connect", 2.0, 0.5, cpu=0.4, server_cpu=0.6), Batch("spark-submit", 5.0, 0.5, cpu=7.0, server_cpu=0.0),
    ]  # fmt: skip
    figures = quick.of_batches(batches)

    assert named(figures, "batch of 5 MB: Connect beside spark-submit").rounds == (6.0, 2.5)
    assert named(figures, "batch of 5 MB: Connect").rounds == (0.9, 1.0)


def test_a_verification_is_compared_with_hbases_in_the_same_round():
    hbase, connect = quick.VERIFICATIONS
    done = [
        Comparison(hbase, 6.0, job_cpu=9.0, servers_cpu=4.0, counters={}),
        Comparison(connect, 2.0, job_cpu=2.0, servers_cpu=3.0, counters={}),
        Comparison(connect, 1.0, job_cpu=1.0, servers_cpu=3.0, counters={}),
        Comparison(hbase, 5.0, job_cpu=8.0, servers_cpu=5.0, counters={}),
    ]
    figures = quick.of_verifications(done)

    assert named(figures, "verification beside VerifyReplication").rounds == (3.0, 5.0)
    assert named(figures, "verification: whole job").rounds == (2.0, 1.0)
    assert named(figures, "VerifyReplication: RegionServers of both clusters").rounds == (4.0, 5.0)
    assert {figure.name.partition(":")[0] for figure in figures if not figure.ours} == {"VerifyReplication"}
    assert {figure.name for figure in figures if not figure.compared} == {
        "verification: start to end", "VerifyReplication: start to end",
    }  # fmt: skip


def test_the_stored_figures_are_those_of_the_last_commit_and_not_of_a_file_that_is_not_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def git(*words: str) -> None:
        subprocess.run(["git", "-C", tmp_path, "-c", "user.name=a", "-c", "user.email=a@example.org", *words], check=True)

    def outcome(value: float) -> Outcome:
        return Outcome(Machine(2, 0.0), (Figure("direct beside hbase", "times as fast", (value,), larger_is_better=True),))

    monkeypatch.setattr(quick, "STORED", tmp_path / "figures.json")
    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "Begin")
    assert quick.stored() is None

    quick.STORED.write_text(outcome(2.0).to_json())
    git("add", "figures.json")
    git("commit", "-q", "-m", "Ship faster")
    git("commit", "-q", "--allow-empty", "-m", "Something else")
    quick.STORED.write_text(outcome(5.0).to_json())

    commit, figures = quick.stored() or pytest.fail("nothing is stored")
    assert commit.endswith("Ship faster")
    assert figures == outcome(2.0)
