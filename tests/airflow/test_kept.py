"""A run's reports are kept for as long as the run exists, however often it is cleared."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.zk.hbase_znodes import HBaseZNodes
from walferry.airflow.tasks.common import MAX_KEPT, NOT_ADDED, added, as_lines, with_earlier
from walferry.engine.summary import GroupSummary, Status
from walferry.runs.reports.batch import TOTALS, TOTALS_OF_QUEUES, BatchReport

from .conftest import Run
from .recovery_stubs import Spark, at, dead, failover, hbase, new_client, spark, zk
from .test_replicate_peer import Cluster, cluster, run

__all__ = ["at", "cluster", "dead", "failover", "hbase", "new_client", "run", "spark", "zk"]  # fixtures


def test_a_cleared_run_that_finds_nothing_left_reports_what_it_shipped_before(
    run, clear: Callable[..., Run], cluster: Cluster, logged: Callable[[], str]
):
    first = run()
    cluster.idle = ["p"]
    again = clear("replicate_peer", first)
    report = again.reports["p"]
    assert again.state == "success"
    assert report["totals"]["shippedOps"] == first.reports["p"]["totals"]["shippedOps"] == 7
    (earlier,) = report["earlier"]
    assert earlier["groups"] == first.reports["p"]["groups"]
    assert earlier["attempt"] == first.reports["p"]["planned"]["run_id"]
    said = f"Attempt {earlier['attempt']} of this run has reported of peer p: completedLogs 0, shippedOps 7"
    assert said in logged()
    thrice = clear("replicate_peer", again)
    assert thrice.reports["p"]["totals"]["shippedOps"] == 7
    assert [entry["totals"]["shippedOps"] for entry in thrice.reports["p"]["earlier"]] == [7, 0]


def test_a_cleared_run_that_ships_more_reports_both(run, clear: Callable[..., Run], cluster: Cluster):
    first = run()
    cluster.left = [GroupSummary(group="g1", server="s1", status=Status.DONE, shippedOps=5)]
    report = clear("replicate_peer", first).reports["p"]
    assert report["totals"]["shippedOps"] == 12
    assert [group["shippedOps"] for group in report["groups"]] == [5]


def test_a_report_that_is_cleared_alone_counts_nothing_twice_and_outlives_the_summaries(
    run, clear: Callable[..., Run], cluster: Cluster
):
    first = run()
    same = clear("replicate_peer", first, "peer.report").reports["p"]
    assert (same["totals"], same["groups"], same["earlier"]) == (first.reports["p"]["totals"], first.reports["p"]["groups"], [])
    cluster.left = []  # newer runs have taken their place
    gone = clear("replicate_peer", first, "peer.report").reports["p"]
    assert (gone["totals"], gone["groups"], gone["earlier"]) == (same["totals"], same["groups"], [])


def test_peers_that_change_places_when_a_run_is_cleared_keep_their_reports(run, clear: Callable[..., Run], cluster: Cluster):
    cluster.managed = ["a", "b"]
    first = run()
    cluster.managed, cluster.idle = ["b", "c"], ["b", "c"]
    again = clear("replicate_peer", first)
    kept = {(report["peer"], entry["peer"]) for report in again.reports.values() for entry in report["earlier"]}
    assert kept == {("b", "a"), ("c", "b")}
    assert [report["totals"]["shippedOps"] for report in again.reports.values()] == [0, 0]


def test_a_run_whose_peers_cannot_be_told_when_it_is_cleared_keeps_its_reports(
    run, clear: Callable[..., Run], cluster: Cluster, monkeypatch: pytest.MonkeyPatch
):
    first = run()

    def unreachable(*_: Any) -> Any:
        raise ConnectionError("no ZooKeeper server answered")

    with monkeypatch.context() as patch:
        patch.setattr("walferry.runs.steps.batch.choose", unreachable)
        assert clear("replicate_peer", first).state == "failed"
    cluster.idle = ["p"]
    report = clear("replicate_peer", first).reports["p"]
    assert report["totals"]["shippedOps"] == 7


def test_a_cleared_recovery_that_finds_nothing_left_reports_what_it_drained_before(
    failover, clear: Callable[..., Run], dead: HBaseZNodes, spark: Spark
):
    first = failover()
    again = clear("regionserver_failover", first)
    assert again.state == "success", again.report
    assert again.report["totals"]["completedLogs"] == first.report["totals"]["completedLogs"] == 4
    assert again.report["totals"]["completedRecoverQueues"] == 3
    assert again.report["earlier"][0]["queues"] == first.report["queues"]


def test_counts_are_added_and_how_things_stand_now_is_not() -> None:
    earlier = {"shippedOps": 7, "sizeOfLogQueue": 3, "filteredByReason": {"scope": 2}, "ageOfLastShippedOp": 5000}
    now = {"shippedOps": 0, "sizeOfLogQueue": 1, "filteredByReason": {"cycle": 1}, "ageOfLastShippedOp": None}
    assert added(now, [earlier]) == {
        "shippedOps": 7, "sizeOfLogQueue": 1, "filteredByReason": {"cycle": 1, "scope": 2}, "ageOfLastShippedOp": 5000
    }  # fmt: skip


class Store(dict[str, Any]):
    """Airflow's task state store, of one task instance."""

    def set(self, key: str, value: Any, *, retention: Any) -> None:
        self[key] = json.loads(json.dumps(value))


def reported(store: Store, attempt: int, peer: str = "p", **summary: Any) -> dict[str, Any]:
    done = GroupSummary(group="g1", server="s1", status=Status.DONE, shippedOps=1, **summary)
    context: Any = {"task_state_store": store}
    return with_earlier(context, f"run.{attempt}", BatchReport(peer, None, summaries=[done]).to_xcom())


def test_no_age_and_no_time_of_an_earlier_attempt_is_added() -> None:
    """Checks every figure of a report, not only the ones that this test names."""
    store = Store()
    reported(store, 1, replicationLag=60_000, timestampOfNextToReplicate=1_700_000_000_000, ageOfLastShippedOp=7)
    now = {"replicationLag": 5_000, "timestampOfNextToReplicate": 1_700_000_055_000, "ageOfLastShippedOp": 8}
    assert reported(store, 2, **now)["totals"] | now == reported(store, 2, **now)["totals"]
    caught_up = reported(store, 3, replicationLag=0)["totals"]
    assert (caught_up["replicationLag"], caught_up["timestampOfNextToReplicate"]) == (0, None)
    known = {*TOTALS, *TOTALS_OF_QUEUES, "logEditsFiltered", "filteredByReason"}
    assert set(caught_up) - known <= set(NOT_ADDED)


def test_the_totals_are_those_of_all_attempts_however_many_there_were() -> None:
    store = Store()
    for attempt in range(1, 3 * MAX_KEPT):
        report = reported(store, attempt)
        assert report["totals"]["shippedOps"] == attempt
    assert len([entry for entry in report["earlier"] if "groups" in entry]) == MAX_KEPT
    assert as_lines(report)[0].startswith("Attempt run.1 of this run has reported of peer p: completedLogs 0, shippedOps 1,")
    assert reported(store, 100, "another")["totals"]["shippedOps"] == 1
