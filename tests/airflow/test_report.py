"""The report: what counts as a failure, and what people and Airflow get to see of a batch."""

import json

import pytest

from walferry.airflow.reports import batch as report
from walferry.shipping.summary import GroupSummary, Status

PLAN = {"run_id": "r.1", "peer": "p", "groups": 1, "wals": 2, "bytes": 300, "problems": [], "problems_left_out": 0, "swept": 0}
DONE = {"roll": "success", "ship": "success"}
SHIPPED = GroupSummary(
    group="g1", server="s1", queue_id="p", status=Status.DONE, shippedOps=5, shippedBytes=1200, logEditsFiltered={"not_global": 3}
)


def test_a_batch_in_which_all_went_well_has_no_failures():
    assert report.failures(PLAN, DONE, [], [SHIPPED]) == []


def test_a_batch_with_nothing_to_ship_has_no_failures():
    assert report.failures({**PLAN, "groups": 0}, {"roll": "success", "ship": "skipped"}, [], []) == []


def test_what_the_deadline_left_for_the_next_batch_is_no_failure():
    assert report.failures(PLAN, DONE, [], [GroupSummary(group="g1", status=Status.DEADLINE)]) == []


def test_a_failed_group_is_named_with_server_queue_and_reason():
    failed = GroupSummary(group="g1", server="s1", queue_id="p-s0", status=Status.FAILED, error="table t does not exist there")
    assert report.failures(PLAN, DONE, [], [SHIPPED, failed]) == ["s1 p-s0 g1: failed: table t does not exist there"]


def test_a_group_that_somebody_else_holds_names_the_holder():
    held = GroupSummary(group="g1", status=Status.HELD, error="WAL group g1 of peer p is held by run x since 12:00")
    assert report.failures(PLAN, DONE, [], [held]) == ["g1: held: WAL group g1 of peer p is held by run x since 12:00"]


@pytest.mark.parametrize("state", ["failed", "upstream_failed", "skipped", None])
def test_a_job_that_did_not_succeed_is_a_failure_whatever_its_summaries_say(state):
    reasons = report.failures(PLAN, {**DONE, "ship": state}, [], [SHIPPED])
    assert reasons == [f"ship is {state}: see the log of the Spark job there"]


def test_a_job_that_failed_because_of_a_group_is_told_by_the_group_s_reason_only():
    failed = GroupSummary(group="g1", status=Status.FAILED, error="table t does not exist there")
    assert report.failures(PLAN, {**DONE, "ship": "failed"}, [], [failed]) == ["g1: failed: table t does not exist there"]


def test_a_group_that_was_still_running_when_the_job_ended_is_a_failure():
    running = GroupSummary(group="g1", server="s1")
    assert report.failures(PLAN, DONE, [], [running]) == ["s1 g1: the Spark job ended in the middle of it"]


def test_a_job_without_summaries_is_a_failure():
    assert report.failures(PLAN, DONE, [], []) == ["the Spark job left no summary"]


def test_a_problem_of_the_plan_is_told_once_only():
    plan = {**PLAN, "problems": [{"server": "s1", "queue": "p", "group": "g1", "problem": "position cannot be read"}]}
    assert report.failures(plan, DONE, [], []) == ["the Spark job left no summary", "s1 p g1: position cannot be read"]
    failed = GroupSummary(group="g1", server="s1", queue_id="p", status=Status.FAILED, error="position cannot be read")
    assert report.failures(plan, DONE, [], [failed]) == ["s1 p g1: failed: position cannot be read"]


def test_a_server_that_was_not_rolled_is_a_failure_once_only():
    assert report.failures(PLAN, {**DONE, "roll": "failed"}, ["roll of s1: no answer"], [SHIPPED]) == ["roll of s1: no answer"]
    assert report.failures(PLAN, {**DONE, "roll": "failed"}, [], [SHIPPED]) == ["roll is failed: see its log"]


def test_an_edit_that_was_never_shipped_has_no_age():
    never = GroupSummary(group="g2", status=Status.DONE, ageOfLastShippedOp=None)
    just_now = GroupSummary(group="g3", status=Status.DONE, ageOfLastShippedOp=0)
    lines = report.as_text("p", PLAN, [], [never, just_now]).splitlines()
    assert lines[3].split()[-3] == "-"
    assert lines[4].split()[-3] == "0:00:00"
    assert report.as_dict("p", PLAN, [], [never])["totals"]["ageOfLastShippedOp"] is None


def test_columns_line_up_under_hbase_s_names():
    lines = report.as_text("p", PLAN, [], [SHIPPED]).splitlines()
    head, row, total = lines[1], lines[3], lines[5]
    end = head.index("shippedBytes") + len("shippedBytes")
    assert row[:end].endswith(" 1,200")
    assert total[:end].endswith(" 1,200")
    assert len({len(line) for line in lines[1:6]}) == 1
    assert lines[6] == "logEditsFiltered not_global: 3"


def test_a_report_of_very_many_groups_stays_small_and_shows_the_failed_ones():
    many = [GroupSummary(group=f"g{i:05}", status=Status.DONE, shippedOps=1) for i in range(5000)]
    many[4321] = GroupSummary(group="broken", status=Status.FAILED, error="x" * 100_000)
    reasons = report.failures(PLAN, DONE, [], many)
    pushed = report.as_dict("p", PLAN, reasons, many)
    assert pushed["groups"][0]["group"] == "broken"
    assert pushed["groups_left_out"] == 4900
    assert pushed["totals"]["shippedOps"] == 4999
    assert len(json.dumps(pushed)) < 100_000
    assert "(4900 more groups" in report.as_text("p", PLAN, reasons, many)


def test_what_was_swept_is_told():
    assert "3 WALs without edits" in report.as_text("p", {**PLAN, "groups": 0, "swept": 3}, [], [])


def test_the_lag_is_there_when_nothing_was_shipped():
    stuck = GroupSummary(
        group="g2", status=Status.FAILED, error="no",
        timestampOfNextToReplicate=5_000, replicationLag=3_600_000, slaveSilentSince=6_000,
    )  # fmt: skip
    older = GroupSummary(group="g3", status=Status.DEADLINE, timestampOfNextToReplicate=4_000, replicationLag=3_601_000)
    lines = report.as_text("p", PLAN, [], [stuck, older, SHIPPED]).splitlines()
    assert lines[1].split()[-2] == "replicationLag"
    assert [line.split()[-2] for line in lines[3:6]] == ["1:00:00", "-", "1:00:01"]
    pushed = report.as_dict("p", PLAN, [], [stuck, older, SHIPPED])
    assert (pushed["totals"]["replicationLag"], pushed["totals"]["timestampOfNextToReplicate"]) == (3_601_000, 4_000)
    assert pushed["groups"][0]["slaveSilentSince"] == 6_000
