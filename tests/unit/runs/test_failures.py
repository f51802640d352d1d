"""The end of a failed task's log, and which failures are tried again."""

from __future__ import annotations

import logging
import pickle
from types import SimpleNamespace

import pytest
from airflow.sdk import RetryAction
from airflow.sdk.exceptions import (
    AirflowException,
    AirflowFailException,
    AirflowNotFoundException,
    AirflowRescheduleException,
    AirflowSkipException,
)

from walferry.airflow.endings import WIDTH, Ended, RetryIfItHelps, ended_by, ends_plainly, wrapped
from walferry.base.errors import WalferryError
from walferry.runs.failures import MAX_REASONS, Failures, ReportedFailures, say

COMMAND = "`walferry peers create 2 --cluster-key zk1.west,zk2.west,zk3.west:2181:/hbase --allow-missing --table-cfs a:cf1,cf2`"
PATH = "hdfs://nn.example.org:8020/hbase/oldWALs/" + "x" * 120
REASONS = tuple(f"group {number:02}: no" for number in range(MAX_REASONS + 5))


def test_a_reason_is_wrapped_but_no_command_and_no_path_is_broken() -> None:
    lines = wrapped([f"{'word ' * 60}{COMMAND} and {PATH} or not", "second"])
    assert COMMAND in "\n".join(lines)
    assert any(PATH in line for line in lines)
    assert all(len(line) <= WIDTH for line in lines if "x" * 100 not in line and "peers create" not in line)
    assert lines[-1] == "second"
    assert all(line.startswith("  ") for line in lines[1:-1])


def test_no_reason_controls_a_terminal_or_is_endless() -> None:
    (line,) = wrapped(["a\x1b[31mb"])
    assert line.isprintable()
    assert sum(map(len, wrapped(["word " * 10_000]))) < 10_000


def test_many_failures_are_cut_with_a_word_of_how_many_more_and_where_they_stand() -> None:
    error = ReportedFailures([f"group {i}: failed" for i in range(MAX_REASONS + 5)])
    assert error.lines[0] == "FAILED group 0: failed"
    assert error.lines[-1] == "and 5 more: see `failures` in the XCom return_value of this task"
    assert len(error.lines) == MAX_REASONS + 1
    assert str(error).startswith("group 0: failed; group 1: failed; ")
    assert Failures(["a"]).lines == ["a"]
    assert pickle.loads(pickle.dumps(error)).lines == error.lines


@pytest.mark.parametrize(
    ("error", "retry_helps"),
    [(WalferryError("a"), True), (Failures(["a"]), False), (AirflowException("a"), True), (AirflowFailException("a"), False)],
    ids=lambda each: type(each).__name__,
)
def test_a_known_failure_is_tried_again_as_before(error: Exception, retry_helps: bool) -> None:
    ended = ended_by(error)
    assert ended is not None
    assert (str(ended), ended.lines, ended.retry_helps) == ("a", ["a"], retry_helps)


@pytest.mark.parametrize(
    "error",
    [AirflowSkipException("a"), AirflowNotFoundException("a"), AirflowRescheduleException("a"), ValueError("a"), SystemExit(3)],
    ids=lambda error: type(error).__name__,
)
def test_what_has_a_meaning_of_its_own_or_is_not_known_stays_as_it_is(error: BaseException) -> None:
    assert ended_by(error) is None


def test_a_final_failure_is_final_though_it_cannot_be_told(caplog: pytest.LogCaptureFixture) -> None:
    decided = RetryIfItHelps().evaluate(Failures([]), 1, 3)
    assert decided.action is RetryAction.FAIL
    assert caplog.messages == ["the reason is not known"]


def test_who_asks_for_it_gets_the_traceback_of_a_known_failure(caplog: pytest.LogCaptureFixture) -> None:
    @ends_plainly
    def execute(operator: object) -> None:
        raise WalferryError("a")

    with caplog.at_level(logging.DEBUG, "walferry"), pytest.raises(Ended):
        execute(SimpleNamespace(retry_policy=RetryIfItHelps()))
    (record,) = caplog.records
    assert (record.levelname, record.exc_info and record.exc_info[0]) == ("DEBUG", WalferryError)


def test_a_report_leaves_to_the_end_what_the_error_has_and_no_more(capsys: pytest.CaptureFixture[str]) -> None:
    say("\n".join(["Peer p", *(f"FAILED {reason}" for reason in REASONS)]))
    said = capsys.readouterr().out.splitlines()
    reported = ReportedFailures(REASONS).lines[:-1]
    assert said[0] == "Peer p"
    assert said[1:] + reported == [f"FAILED {reason}" for reason in (*REASONS[MAX_REASONS:], *REASONS[:MAX_REASONS])]


def test_warnings_are_warnings(caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]) -> None:
    say("WARNING no edit\nGONE a WAL")
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", "no edit"), ("WARNING", "GONE a WAL"),
    ]  # fmt: skip
    assert capsys.readouterr().out == ""
