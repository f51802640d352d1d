"""What a person is asked before a run does what cannot be undone, and what counts as a yes. The whole is tested with its DAGs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from walferry.airflow.operators.approval import NO, YES, PersonDecidesOperator, request, what_was_approved
from walferry.runs.input import InputError


@pytest.mark.parametrize(
    ("event", "refusal"),
    [
        ({"chosen_options": [NO], "responded_by_user": {"id": "7", "name": "vera\n#"}}, "vera\\u000a# has rejected it"),
        ({"chosen_options": [NO], "responded_by_user": None, "timedout": True}, "nobody has approved it within 5 hours"),
        ({"chosen_options": [YES], "responded_by_user": None}, "nobody has approved it within 5 hours"),
        ({"chosen_options": [YES], "responded_by_user": {"id": "7", "name": "vera"}}, ""),
    ],
)
def test_nothing_is_approved_without_a_person_s_yes(event: dict[str, Any], refusal: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__WALFERRY__APPROVAL_HOURS", "5")
    operator = PersonDecidesOperator(task_id="approve", asks={})
    answer = {"params_input": {}, "responded_at": datetime.now(UTC), **event}
    decision = operator.execute_complete({}, answer, ["a"])  # type: ignore[typeddict-item]
    assert what_was_approved(decision) == ([] if refusal else ["a"], refusal)


@pytest.mark.parametrize("decision", [None, "", [], {}, {"approved": "True", "shown": ["a"]}])
def test_what_is_no_decision_approves_nothing(decision: Any) -> None:
    """The task's XCom is missing if somebody has set its state by hand."""
    assert what_was_approved(decision) == ([], "nobody has approved it")


def test_where_nobody_had_to_be_asked_there_is_no_reason() -> None:
    decision = PersonDecidesOperator(task_id="approve", asks={}).execute({})  # type: ignore[typeddict-item]
    assert what_was_approved(decision) == ([], "")


def test_a_cut_line_and_left_out_lines_show() -> None:
    asks = request("a?", ["a" * 301, *["b"] * 300], ["digest"])
    assert (asks["lines"][0], len(asks["lines"]), asks["lines"][-1]) == ("a" * 299 + "…", 201, "and 101 more lines")
    body = "\n".join(f"    {line}" for line in request("a?", ["\u5b57" * 300] * 200, [])["lines"])
    assert len(body.encode()) < 64 << 10


def test_a_request_is_bounded_and_shows_what_it_contains() -> None:
    asks = request("a?\n" + "\u202e" * 999, ["![x](http://h)\n<b>"], ["digest"])
    assert (len(asks["subject"]), asks["lines"], asks["shown"]) == (300, ["![x](http://h)\\u000a<b>"], ["digest"])


def test_who_may_decide_and_for_how_long_are_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__WALFERRY__APPROVERS", "ola, per")
    operator = PersonDecidesOperator(task_id="approve", asks={})
    assert operator.assigned_users == [{"id": "ola", "name": "ola"}, {"id": "per", "name": "per"}]
    assert operator.response_timeout == timedelta(hours=24)
    for wrong in ("0", "-1", "ten", "9" * 99):
        monkeypatch.setenv("AIRFLOW__WALFERRY__APPROVAL_HOURS", wrong)
        with pytest.raises(InputError, match="give a whole number from 1"):
            PersonDecidesOperator(task_id="approve", asks={})
