"""The reports of a run that ships an interval again."""

from __future__ import annotations

from dataclasses import replace

from walferry.engine.summary import GroupSummary, Status
from walferry.runs.reports.replay import PlannedInterval, ReplayReport
from walferry.runs.values import MAX_PROBLEMS

HOUR = 3_600_000
PLAN = PlannedInterval("r", "2", 10 * HOUR, 11 * HOUR, groups=2, wals=3, bytes=4000)
DONE = GroupSummary(
    group="a", status=Status.DONE, tables={"t": [2, 5, 90], "u": [1, 1, 10]}, shippedOps=3, shippedBytes=100, completedLogs=2
)
MOVED = GroupSummary(group="b", status=Status.DONE, tables={"t": [1, 1, 20]}, shippedOps=1, shippedBytes=20, completedLogs=1)


def test_the_groups_tables_are_added_and_told():
    report = ReplayReport(PLAN, "success", summaries=[DONE, MOVED])
    reported = report.to_xcom()
    assert reported["ok"]
    assert reported["tables"] == {"t": {"edits": 3, "cells": 6, "bytes": 110}, "u": {"edits": 1, "cells": 1, "bytes": 10}}
    assert reported["totals"]["shippedOps"] == 4
    text = report.as_text()
    assert "Shipped again to peer 2: 1970-01-01 10:00:00 to 1970-01-01 11:00:00 UTC" in text
    assert "3 WALs of 2 WAL groups, 4,000 bytes" in text
    assert "FAILED" not in text


def test_a_peer_cluster_that_refuses_to_be_written_to_is_told_with_its_reason_and_is_no_failure():
    refused = replace(DONE, sink="replicate", directRefused="rs:1: AccessDeniedException: no WRITE on t")
    report = ReplayReport(PLAN, "success", summaries=[refused, replace(MOVED, sink="direct")])
    assert "The peer cluster refuses sink=direct" in report.as_text()
    assert "no WRITE on t" in report.as_text()
    assert report.failures == []
    assert [group["sink"] for group in report.to_xcom()["groups"]] == ["replicate", "direct"]


def test_a_table_of_which_nothing_was_found_is_told():
    report = ReplayReport(PLAN, "success", summaries=[DONE], asked=["t", "orderz"])
    assert report.to_xcom()["ok"]
    assert report.to_xcom()["without_edits"] == ["orderz"]
    assert "WARNING The interval has no edit of table orderz for the peer" in report.as_text()
    assert ReplayReport(None, "upstream_failed", "no such peer", asked=["t"]).without_edits == []


def test_edits_that_are_older_than_the_initial_snapshot_are_told():
    report = ReplayReport(PLAN, "success", summaries=[replace(DONE, editsBeforeCopy=1000), replace(MOVED, editsBeforeCopy=1)])
    assert report.to_xcom()["before_copy"] == 1001
    assert "Left out, as older than the initial snapshot of their tables: 1,001 edits" in report.as_text()
    assert "Left out" not in ReplayReport(PLAN, "success", summaries=[DONE]).as_text()


def test_what_is_gone_is_told_of_a_run_that_ships_the_rest():
    gone = [f"WAL {n} …" for n in range(MAX_PROBLEMS + 5)]
    plan = PlannedInterval.of("r", "2", 0, HOUR, groups=1, wals=1, bytes=1, problems=gone)
    report = ReplayReport(PlannedInterval.from_xcom(plan.to_xcom()), "success", summaries=[DONE])
    assert report.to_xcom()["ok"]
    assert report.to_xcom()["gone"][0] == "WAL 0 …"
    assert "GONE or unreadable, left out: WAL 0 …" in report.as_text()
    assert "… and 5 more" in report.as_text()


def test_a_group_that_is_not_done_fails_the_run():
    late = GroupSummary(group="c", status=Status.DEADLINE)
    broken = GroupSummary(group="d", status=Status.FAILED, error="at byte 5: broken")
    report = ReplayReport(PLAN, "failed", summaries=[DONE, late, broken])
    assert report.failures == ["c: deadline: clear the task ship, and it goes on", "d: failed: at byte 5: broken"]
    assert ReplayReport(PLAN, "failed").failures == ["ship is failed: see the log of the Spark job there"]
    assert ReplayReport(None, "upstream_failed", "the interval is not whole").failures == ["the interval is not whole"]


def test_an_interval_without_wals_is_no_failure():
    empty = PlannedInterval("r", "2", 0, HOUR, groups=0, wals=0, bytes=0)
    assert ReplayReport(empty, "skipped").failures == []
