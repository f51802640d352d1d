"""Measures how long a comparison takes next to HBase's VerifyReplication, with and without planted differences."""

from __future__ import annotations

import pytest

from bench.verification import in_turn, plant_differences
from embedded.client import GLOBAL, even_splits
from tests.cluster.walferry_runs import ship_one

MILLION = pytest.param(1_000_000, 8, marks=pytest.mark.soak)


@pytest.mark.parametrize(("rows", "regions"), [(20_000, 3), MILLION])
def test_both_count_the_same_and_the_ratio_of_their_seconds_is_told(sides, peer, unique, tmp_path, rows, regions):
    table = unique("t")
    for client in (sides.source, sides.peer_cluster):
        client.create_table(table, {"f": GLOBAL}, even_splits(regions))
    sides.source.put_many(table, rows, ["f:a", "f:b"])
    ship_one(sides.at, peer, deadline=600)
    log = tmp_path / "spark.log"
    equal = in_turn(sides.source, sides.at, peer, table, log)
    assert equal.counters == {
        "GOODROWS": rows, "BADROWS": 0, "ONLY_IN_SOURCE_TABLE_ROWS": 0, "ONLY_IN_PEER_TABLE_ROWS": 0, "CONTENT_DIFFERENT_ROWS": 0,
    }  # fmt: skip
    plant_differences(sides.at, sides.peer_cluster, table)
    differing = in_turn(sides.source, sides.at, peer, table, log)
    assert min(n for name, n in differing.counters.items() if name != "GOODROWS") > 0
    for what, timed in (("equal", equal), ("differing", differing)):
        print(f"{rows:,} rows, {what}: {timed}")
