"""The shipping benchmark's figures of drains: ratios within the same round, and of everything from start to end."""

from __future__ import annotations

from bench.clusters import ROW_BYTES
from bench.drains import Aim, Drain, verdict
from bench.ways import Took

GIGABYTE = 1_000_000_000 // ROW_BYTES


def drain(by: str, whole: float, *, start: float = 0.0, peer_cpu: float = 0.0) -> Drain:
    return Drain(by, GIGABYTE, Took(whole - start, whole, own_cpu=1.0), peer_cpu, hdfs_cpu=0.0)


ROUNDS = [
    drain("hbase", 10), drain("direct", 5, start=4), drain("direct", 6, start=4), drain("hbase", 18), drain("hbase", 30),
    drain("direct", 6, start=4),
]  # fmt: skip


def test_an_aim_is_reached_by_the_median_of_the_rounds_ratios():
    assert Aim("direct", times=3).reported(ROUNDS) == "direct, from start to end, 3 times hbase: reached, 3.00"
    assert Aim("direct", times=3.1).reported(ROUNDS) == "direct, from start to end, 3.1 times hbase: NOT reached, 3.00"


def test_an_aim_for_the_peer_clusters_cpu_is_one_for_each_gigabyte():
    drains = [drain("hfiles", 1, peer_cpu=cpu) for cpu in (1.0, 1.5, 9.0)]

    reported = Aim("hfiles", peer_cpu=2).reported(drains)

    assert reported == "hfiles, at most 2 CPU-seconds of the peer cluster a GB: reached, 1.5"


def test_nothing_is_said_of_ways_that_were_left_out():
    assert Aim("hfiles", times=3).reported(ROUNDS) is None
    assert Aim("direct", beside="WALPlayer, puts", times=3).reported(ROUNDS) is None


def test_the_verdict_tells_each_rounds_ratio_with_the_start_and_the_median_without():
    (direct,) = [line for line in verdict(ROUNDS).splitlines() if line.startswith("direct")]

    assert "3.00 (2.00, 3.00, 5.00)" in direct
    assert direct.split()[6] == "10.00"
