"""The report of a verification, and the run's parameters."""

from __future__ import annotations

from typing import Any

import pytest

from walferry.airflow.tasks.verification import options_of
from walferry.runs.input import InputError
from walferry.runs.reports.verification import Repair, VerificationReport, rows_to_repair
from walferry.verification.outcome import DifferenceKind, Sample, VerificationOutcome, total_of

GOOD = VerificationOutcome("orders", good=1_000_000, pruned=1_000_000, seconds=4.2)
PARAMS: dict[str, Any] = {
    "start_row": None, "stop_row": None, "start_time": None, "end_time": None, "versions": 1, "deleted": False, "recompares": 2,
    "recompare_seconds": 300, "repair": False, "from_files": False,
}  # fmt: skip


def clocks(*ahead: int) -> dict[str, list[dict[str, Any]]]:
    source, *peer_clusters = [{"server": f"rs{i},1,1", "ahead_ms": ms, "within_ms": 50} for i, ms in enumerate(ahead)]
    return {"source": [source], "peer_cluster": peer_clusters}


def test_equal_tables_are_told_with_their_figures():
    report = VerificationReport("2", [GOOD], "success", clocks(10, -20, 40))
    assert report.failures == []
    assert report.to_xcom()["totals"] | {"GOODROWS": 1_000_000, "BADROWS": 0} == report.to_xcom()["totals"]
    assert report.to_xcom()["peer_cluster_ahead_ms"] in (-30, 30)
    assert "orders" in report.as_text()
    assert "1,000,000" in report.as_text()
    assert "WARNING" not in report.as_text()


def test_differences_fail_the_run_and_are_shown():
    parts = [
        VerificationOutcome("t", good=5),
        VerificationOutcome("t", good=1, samples=[Sample(DifferenceKind.EXTRA, "row\\x00", "2 cells at the peer cluster")]),
    ]
    parts[1].bad[DifferenceKind.EXTRA] = 3
    report = VerificationReport("2", [GOOD, total_of("t", parts, 20), VerificationOutcome("gone", problem="it does not exist")])
    assert report.failures == ["table gone: it does not exist", "table t: 3 rows differ"]
    reported = report.to_xcom()
    assert not reported["ok"]
    assert (reported["totals"]["GOODROWS"], reported["totals"]["BADROWS"], reported["totals"]["ONLY_IN_PEER_TABLE_ROWS"]) == (
        1_000_006,
        3,
        3,
    )
    assert reported["samples"] == [
        {"table": "t", "kind": "ONLY_IN_PEER_TABLE_ROWS", "row": "row\\x00", "detail": "2 cells at the peer cluster"}
    ]
    assert "FAILED table t: 3 rows differ" in report.as_text()


def test_a_problem_that_names_its_table_is_told_once():
    report = VerificationReport(
        "2", [VerificationOutcome("t", problem="table t does not exist on zk1:2181. Create it, or leave it out")]
    )
    assert report.failures == ["table t does not exist on zk1:2181. Create it, or leave it out"]


def test_clocks_that_are_apart_are_warned_of_and_unknown_ones_said_so():
    report = VerificationReport("2", [GOOD], "success", clocks(10, 20, -5000))
    assert report.skew_ms == -5010
    assert "WARNING The clocks of source and peer cluster are 5,010 ms apart" in report.as_text()
    assert report.failures == []
    assert "is not known" in VerificationReport("2", [GOOD]).as_text()


def test_a_repair_that_was_rejected_or_has_failed_is_told():
    rejected = VerificationReport("2", [GOOD], repair=Repair("skipped", "vera has rejected it"))
    assert "Nothing is repaired: vera has rejected it." in rejected.as_text()
    assert rejected.failures == []
    assert "repair is failed" in VerificationReport("2", [GOOD], repair=Repair("failed")).failures[0]


def test_people_are_shown_what_a_repair_ships_and_what_it_leaves():
    lacking, extra = VerificationOutcome("t2", samples=[Sample(DifferenceKind.MISSING, "r", "1 cell")]), VerificationOutcome("t1")
    lacking.bad.update({DifferenceKind.MISSING: 1200, DifferenceKind.EXTRA: 1})
    extra.bad[DifferenceKind.EXTRA] = 3
    tables, (told, sample) = rows_to_repair([extra, lacking, GOOD], 200)
    assert tables == ["t2"]
    assert told.startswith("table t2: 1,200 rows missing and 0 rows different at the peer cluster, shipped again; 1 row only at")
    assert sample == "ONLY_IN_SOURCE_TABLE_ROWS t2 r: 1 cell"
    assert rows_to_repair([extra, GOOD], 200) == ([], [])


def test_no_more_tables_are_repaired_than_are_shown():
    outcomes = [VerificationOutcome(f"t{i}", bad=dict.fromkeys(DifferenceKind, 1)) for i in range(9)]
    tables, lines = rows_to_repair(outcomes, 4)
    assert (tables, len(lines)) == (["t0", "t1"], 2)


def test_a_result_of_an_earlier_try_does_not_hide_that_this_one_failed():
    assert VerificationReport("2", [GOOD], "failed").failures == ["compare is failed: see the log of the Spark job there"]


def test_without_a_result_the_job_has_failed():
    assert "see the log of the Spark job" in VerificationReport("2", None, "failed").failures[0]


def test_parameters_become_options():
    options = options_of({**PARAMS, "start_row": "a\\x00", "stop_row": "b", "end_time": "2026-01-01T00:00:00+00:00"})
    assert (options.start_row, options.stop_row, options.start_time, options.end_time) == (b"a\0", b"b", None, 1767225600000)


@pytest.mark.parametrize(("name", "value"), [("start_row", "\\xZZ"), ("stop_row", "\\x0")])
def test_a_row_that_is_not_written_as_hbase_shows_it_is_refused(name, value):
    with pytest.raises(InputError, match="as HBase's shell shows it"):
        options_of({**PARAMS, name: value})


def test_an_empty_range_is_refused():
    with pytest.raises(InputError, match="no row"):
        options_of({**PARAMS, "start_row": "b", "stop_row": "a"})
    with pytest.raises(InputError, match="no cell"):
        options_of({**PARAMS, "start_time": "2026-01-02T00:00:00Z", "end_time": "2026-01-01T00:00:00Z"})
