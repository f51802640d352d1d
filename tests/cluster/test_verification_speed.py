"""The benchmark of verifications: all ways count the same, with differences and without, and the ratio of seconds is told."""

from __future__ import annotations

import pytest

from bench import verification
from embedded.client import GLOBAL, even_splits
from embedded.spark_connect import ConnectServer
from tests.cluster.walferry_runs import ship_one

MILLION = pytest.param(1_000_000, 8, marks=pytest.mark.soak)


@pytest.mark.parametrize(("rows", "regions"), [(20_000, 3), MILLION])
def test_all_ways_count_the_same_and_the_ratio_of_their_seconds_is_told(
    sides, peer, unique, tmp_path, monkeypatch, rows, regions
):
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "airflow"))
    table = unique("t")
    for client in (sides.source, sides.peer_cluster):
        client.create_table(table, {"f": GLOBAL}, even_splits(regions))
    sides.source.put_many(table, rows, ["f:a", "f:b"])
    ship_one(sides.at, peer, deadline=600)
    with ConnectServer(tmp_path) as server:
        both = verification.Sides(sides.source, sides.at, peer, table, tmp_path, server, lambda: 0.0)
        equal = verification.in_turn(both, 0)
        verification.plant_differences(sides.at, sides.peer_cluster, table)
        differing = verification.in_turn(both, 1)
    assert [each.by for each in differing] == [*list(verification.WAYS)[1:], verification.HBASE]
    assert equal[0].counters == {**dict.fromkeys(verification.COUNTERS, 0), "GOODROWS": rows}
    assert min(differing[0].counters.values()) > 0
    assert all(each.job_cpu > 0 for each in equal)
    for theirs, ours in verification.RATIOS:
        print(f"{rows:,} equal rows, {ours} beside {theirs}: {verification.times_as_fast(equal, theirs, ours)[0]:.2f}")
