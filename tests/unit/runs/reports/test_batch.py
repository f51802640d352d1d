"""The report of a batch: what counts as a failure, and what people and Airflow get to see of a batch."""

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest

from walferry.engine.summary import GroupSummary, Status
from walferry.runs.reports.batch import BatchReport, Steps, as_cell
from walferry.runs.values import Planned, PlanProblem

PLAN = Planned("r.1", "p", groups=1, wals=2, bytes=300)
IDLE = Planned("r.1", "p")
DONE = Steps()
SHIPPED = GroupSummary(
    group="g1", server="s1", queue_id="p", status=Status.DONE, shippedOps=5, shippedBytes=1200, logEditsFiltered={"not_global": 3}
)


def failures(plan: Planned | None, steps: Steps, summaries: Sequence[GroupSummary]) -> list[str]:
    return BatchReport("p", plan, steps, summaries).failures


def lines_of(plan: Planned, summaries: Sequence[GroupSummary], steps: Steps = DONE) -> list[str]:
    return BatchReport("p", plan, steps, summaries).as_text().splitlines()


def test_a_batch_in_which_all_went_well_has_no_failures():
    assert failures(PLAN, DONE, [SHIPPED]) == []


def test_a_batch_with_nothing_to_ship_has_no_failures():
    assert failures(IDLE, Steps(ship="skipped"), []) == []


def test_what_the_deadline_left_for_the_next_batch_is_no_failure():
    assert failures(PLAN, DONE, [GroupSummary(group="g1", status=Status.DEADLINE)]) == []


def test_a_failed_group_is_named_with_server_queue_and_reason():
    failed = GroupSummary(group="g1", server="s1", queue_id="p-s0", status=Status.FAILED, error="table t does not exist there")
    assert failures(PLAN, DONE, [SHIPPED, failed]) == ["s1 p-s0 g1: failed: table t does not exist there"]


def test_a_group_that_another_run_holds_names_the_holder():
    held = GroupSummary(group="g1", status=Status.HELD, error="WAL group g1 of peer p is held by run x since 12:00")
    assert failures(PLAN, DONE, [held]) == ["g1: held: WAL group g1 of peer p is held by run x since 12:00"]


@pytest.mark.parametrize("state", ["failed", "upstream_failed", "skipped", None])
def test_a_job_that_did_not_succeed_is_a_failure_whatever_its_summaries_say(state):
    reasons = failures(PLAN, Steps(ship=state), [SHIPPED])
    assert reasons == [f"ship is {state}: see the log of the Spark job there"]


def test_a_job_that_failed_because_of_a_group_is_told_by_the_group_s_reason_only():
    failed = GroupSummary(group="g1", status=Status.FAILED, error="table t does not exist there")
    assert failures(PLAN, Steps(ship="failed"), [failed]) == ["g1: failed: table t does not exist there"]


def test_a_group_that_was_still_running_when_the_job_ended_is_a_failure():
    running = GroupSummary(group="g1", server="s1")
    assert failures(PLAN, DONE, [running]) == ["s1 g1: the Spark job ended in the middle of it"]


def test_a_job_without_summaries_is_a_failure():
    assert failures(PLAN, DONE, []) == ["the Spark job left no summary"]


def test_a_problem_of_the_plan_is_told_once_only():
    plan = replace(PLAN, problems=(PlanProblem("s1", "p", "g1", "position cannot be read"),))
    assert failures(plan, DONE, []) == ["the Spark job left no summary", "s1 p g1: position cannot be read"]
    failed = GroupSummary(group="g1", server="s1", queue_id="p", status=Status.FAILED, error="position cannot be read")
    assert failures(plan, DONE, [failed]) == ["s1 p g1: failed: position cannot be read"]


def test_a_server_that_was_not_rolled_is_a_failure_once_only():
    assert failures(PLAN, Steps(roll="failed", unrolled=["roll of s1: no answer"]), [SHIPPED]) == ["roll of s1: no answer"]
    assert failures(PLAN, Steps(roll="failed"), [SHIPPED]) == ["roll is failed: see its log"]


def test_what_the_rolls_lead_to_is_reported_and_does_not_fail_a_batch() -> None:
    report = BatchReport("p", PLAN, Steps(roll_warnings=["s1 has many WALs"]), [SHIPPED])
    assert report.failures == []
    assert "WARNING s1 has many WALs" in report.as_text().splitlines()
    assert report.to_xcom()["warnings"] == ["s1 has many WALs"]


def test_an_edit_that_was_never_shipped_has_no_age():
    never = GroupSummary(group="g2", status=Status.DONE, ageOfLastShippedOp=None)
    just_now = GroupSummary(group="g3", status=Status.DONE, ageOfLastShippedOp=0)
    assert "ageOfLastShippedOp: -" in BatchReport("p", PLAN, DONE, [never]).as_text()
    assert "ageOfLastShippedOp: 0:00:00" in BatchReport("p", PLAN, DONE, [never, just_now]).as_text()
    assert BatchReport("p", PLAN, DONE, [never]).totals["ageOfLastShippedOp"] is None


def test_columns_line_up_under_hbase_s_names():
    lines = lines_of(PLAN, [SHIPPED])
    head, row, total = lines[1], lines[3], lines[5]
    end = head.index("shippedBytes") + len("shippedBytes")
    assert row[:end].endswith(" 1,200")
    assert total[:end].endswith(" 1,200")
    assert lines[6].startswith("shippedBatches: 0, logEditsRead: 0, logEditsFiltered: 3, ")
    assert lines[7] == "logEditsFiltered not_global: 3"


def test_a_table_fits_a_window_and_only_names_stand_beyond_it():
    name = "regionserver-0001.a-rather-long-name.example.org%2C16020%2C1700000000001"
    huge = replace(SHIPPED, group=name, shippedOps=10**12, shippedBytes=10**15, status=Status.PEER_DOWN)
    lines = lines_of(PLAN, [huge])
    assert max(line.index(name) for line in lines if name in line and not line.startswith("FAILED")) < 110
    assert all(len(line) <= 110 for line in lines if name not in line and "-----" not in line)


def test_a_report_of_very_many_groups_stays_small_and_shows_the_failed_ones():
    many = [GroupSummary(group=f"g{i:05}", status=Status.DONE, shippedOps=1) for i in range(5000)]
    many[4321] = GroupSummary(group="broken", status=Status.FAILED, error="x" * 100_000)
    report = BatchReport("p", PLAN, DONE, many)
    pushed = report.to_xcom()
    assert pushed["groups"][0]["group"] == "broken"
    assert pushed["groups_left_out"] == 4900
    assert pushed["totals"]["shippedOps"] == 4999
    assert len(json.dumps(pushed)) < 100_000
    assert "(4,980 more WAL groups, all in the line of totals; the report as JSON has the first 100)" in report.as_text()
    assert len(report.as_text().splitlines()) < 40


def test_a_peer_cluster_that_refuses_to_be_written_to_is_told_with_its_reason_and_is_no_failure():
    refused = replace(SHIPPED, sink="replicate", directRefused="rs:1: AccessDeniedException: no WRITE on t")
    report = BatchReport("p", PLAN, DONE, [refused, replace(SHIPPED, sink="direct")])
    assert "The peer cluster refuses sink=direct" in report.as_text()
    assert "no WRITE on t" in report.as_text()
    assert report.failures == []
    assert [group["sink"] for group in report.to_xcom()["groups"]] == ["replicate", "direct"]
    assert "refuses" not in BatchReport("p", PLAN, DONE, [SHIPPED]).as_text()


def test_what_was_loaded_as_files_is_told_and_why_some_edits_were_not_and_that_is_no_failure():
    why = "the edits of table t go by requests: it is read-only (READONLY)"
    loaded, rest = replace(SHIPPED, sink="hfiles"), replace(SHIPPED, group="g2", sink="direct", notLoaded=why)
    report = BatchReport("p", PLAN, DONE, [loaded, rest, replace(rest, group="g3")])
    lines = report.as_text().splitlines()
    assert "Loaded as files, to their ends: 1 of 3 WAL groups" in lines
    assert lines.count(f"Not all was loaded as files: {why}") == 1
    assert report.failures == []
    assert report.to_xcom()["not_loaded"] == [why]
    assert [group["sink"] for group in report.to_xcom()["groups"]] == ["hfiles", "direct", "direct"]
    without = BatchReport("p", PLAN, DONE, [SHIPPED])
    assert "files" not in without.as_text()
    assert without.to_xcom()["not_loaded"] == []


def test_what_was_swept_is_told():
    assert "3 WALs without edits" in BatchReport("p", replace(IDLE, dequeued=3)).as_text()


def test_the_lag_is_there_when_nothing_was_shipped():
    stuck = GroupSummary(
        group="g2", status=Status.FAILED, error="no",
        timestampOfNextToReplicate=5_000, replicationLag=3_600_000, sinkSilentSince=6_000,
    )  # fmt: skip
    older = GroupSummary(group="g3", status=Status.DEADLINE, timestampOfNextToReplicate=4_000, replicationLag=3_601_000)
    lines = lines_of(PLAN, [stuck, older, SHIPPED])
    assert lines[1].split()[-2:] == ["replicationLag", "group"]
    assert [line.split()[-2] for line in lines[3:6]] == ["1:00:00", "-", "1:00:01"]
    pushed = BatchReport("p", PLAN, DONE, [stuck, older, SHIPPED]).to_xcom()
    assert (pushed["totals"]["replicationLag"], pushed["totals"]["timestampOfNextToReplicate"]) == (3_601_000, 4_000)
    assert pushed["groups"][0]["sinkSilentSince"] == 6_000


def test_a_batch_that_another_run_ships_is_not_a_failure_and_names_that_run():
    text = "peer p is left to run r.0 on host h, which has held it since 12:00"
    running = GroupSummary(group="g1", server="s1")  # of an attempt of this run that was killed
    for plan, steps in ((Planned("r.1", "p", left_to=text), Steps(ship="skipped")), (PLAN, Steps(ship="skipped", left_to=text))):
        report = BatchReport("p", plan, steps, [running])
        assert report.failures == []
        assert (report.to_xcom()["ok"], report.to_xcom()["left_to"]) == (True, text)
        assert f"Not shipped by this run: {text}." in report.as_text()
    unrolled = BatchReport("p", PLAN, Steps(ship="skipped", left_to=text, roll="failed", unrolled=["roll of s1: no answer"]))
    assert unrolled.failures == ["roll of s1: no answer"]


def test_a_batch_whose_peer_cluster_is_down_says_so_and_keeps_the_lag_and_the_backlog():
    plan = replace(PLAN, oldest=1_000_000)
    steps = Steps(ship="failed", peer_down="peer p: its peer cluster is down")
    report = BatchReport("p", plan, steps, (), now=1_060_000)
    assert report.failures == ["peer p: its peer cluster is down; 2 WALs with at least 300 bytes wait for the next batch"]
    totals = report.to_xcom()["totals"]
    assert (totals["sizeOfLogQueue"], totals["bytesToShip"]) == (2, 300)
    assert (totals["replicationLag"], totals["timestampOfNextToReplicate"]) == (60_000, 1_000_000)
    assert "Backlog: 2 WALs with at least 300 bytes, replicationLag 0:01:00." in report.as_text()


def test_a_batch_that_the_spark_connect_server_did_not_run_is_no_failure_and_says_why():
    report = BatchReport("p", PLAN, Steps(by_spark_submit="Spark Connect server h:15002: connection refused"), [SHIPPED])
    assert report.failures == []
    assert report.to_xcom()["by_spark_submit"] == "Spark Connect server h:15002: connection refused"
    assert "Shipped through spark-submit: Spark Connect server h:15002: connection refused" in report.as_text().splitlines()


def test_a_batch_whose_files_another_peer_s_job_has_made_says_so():
    report = BatchReport("p", PLAN, Steps(shipped_by="q"), [SHIPPED])
    assert (report.failures, report.to_xcom()["shipped_by"]) == ([], "q")
    assert "Files made by the job of peer q." in report.as_text().splitlines()


def test_a_batch_without_a_plan_tells_why_the_peer_was_refused():
    assert failures(None, Steps(plan="failed", refusal="peer p: it is ENABLED"), []) == ["peer p: it is ENABLED"]
    assert failures(None, Steps(plan="upstream_failed"), []) == ["plan is upstream_failed: see its log; nothing was shipped"]


@pytest.mark.parametrize("age", [2**63, 10**19, 86_400_000 * 10**9])
def test_an_age_beyond_all_calendars_is_told_too(age):
    """An edit's write time is any number that its WAL has."""
    assert "days" in as_cell("ageOfLastShippedOp", age)


def test_what_was_dropped_because_both_clusters_have_deleted_it_is_named():
    first = replace(SHIPPED, logEditsFiltered={"deleted": 2}, deletedAtBoth=("ns:t",))
    lines = lines_of(PLAN, [first, replace(first, group="g2", deletedAtBoth=["ns:t", "u:f"])])
    assert "logEditsFiltered deleted: 4" in lines
    assert "DROPPED the edits of what neither cluster has any more: ns:t, u:f" in lines
