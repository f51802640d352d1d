"""What a shipping job's driver says of its groups."""

from __future__ import annotations

from walferry.shipping.summary import GroupSummary, Status
from walferry.source.cluster import SourceCluster
from walferry.spark.ship_run import ShipRun, nothing_queued, outcome

SOURCE = SourceCluster(quorum="zk1:2181", wal_root="file:///hbase")


def test_a_group_s_outcome_is_a_line_and_the_error_of_one_that_is_not_done_another() -> None:
    done = GroupSummary(group="g", status=Status.DONE, error="passed", completedLogs=1, shippedOps=2, shippedBytes=3)
    assert outcome(done) == ["g: done, shipped 1 WALs, 2 operations, 3 bytes"]
    failed = GroupSummary(group="g", status=Status.FAILED, error="no table")
    assert outcome(failed) == ["g: failed, shipped 0 WALs, 0 operations, 0 bytes", "g: no table"]


def test_a_run_without_closed_wals_says_where_it_has_looked() -> None:
    run = ShipRun(source=SOURCE, peer_id="2", run_id="r", deadline=60)
    assert nothing_queued(run) == "peer 2: no closed WALs are queued"
    some = ShipRun(source=SOURCE, peer_id="2", run_id="r", deadline=60, groups=["g1", "g2"])
    assert nothing_queued(some) == "peer 2: no closed WALs are queued in g1, g2"
