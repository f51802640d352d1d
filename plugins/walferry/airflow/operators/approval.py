"""Asks a person before a run does what cannot be undone.

The task shows what would be done, as a required action in Airflow's UI, and waits without a worker. Who may decide, and for how
long it waits, are options of section [walferry].

A yes counts for what was shown with it, and nothing else: people clear tasks, set their states by hand, and delete XComs.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from airflow.providers.standard.operators.hitl import ApprovalOperator, HITLOperator
from airflow.sdk import Context
from airflow.sdk.exceptions import TaskAwaitingInput
from airflow.sdk.execution_time.context import NEVER_EXPIRE

from walferry.airflow.literal import LiteralFields
from walferry.airflow.options import option
from walferry.base.amounts import count
from walferry.base.texts import visible
from walferry.runs.input import InputError

YES, NO = ApprovalOperator.APPROVE, ApprovalOperator.REJECT
MAX_LINES, MAX_LINE_CHARS, MAX_SUBJECT_CHARS = 200, 300, 300
MAX_BODY_BYTES = 60_000  # less than the 64 KiB of a TEXT in MySQL
INDENT = "    "
MAX_HOURS = 24 * 90
NOBODY = "nobody has approved it"
CHANGED = "it is no longer what the run first asked for, which Airflow still shows. Trigger another run"
_ASKED = "asked"  # in Airflow's task state store, which clearing does not touch


def request(subject: str, lines: Sequence[str], shown: Sequence[str]) -> dict[str, Any]:
    """Return what PersonDecidesOperator asks: a question, lines of what would be done, and `shown`.

    `shown` is what the yes counts for, for the task that acts on it. Of very many lines it keeps the first.
    """
    kept, left = list[str](), MAX_BODY_BYTES
    for line in map(_of_body, lines[:MAX_LINES]):
        left -= len(line.encode()) + len(INDENT) + 1
        if left < 0:
            break
        kept.append(line)
    more = [f"and {count(len(lines) - len(kept), 'more line')}"] if len(kept) < len(lines) else []
    return {"subject": _cut(subject, MAX_SUBJECT_CHARS), "lines": [*kept, *more], "shown": [*shown]}


def digest_of(lines: Sequence[str]) -> str:
    """Return a part of `shown` by which a yes counts for these lines only."""
    return hashlib.sha256(json.dumps([*lines]).encode()).hexdigest()


def what_was_approved(decision: Any) -> tuple[list[str], str]:
    """Return the `shown` of a decision, and an empty text; or nothing, and why nothing was approved.

    The reason is empty if nobody had to be asked.
    """
    decided = decision if isinstance(decision, dict) else {}
    if decided.get("approved") is True:
        return decided["shown"], ""
    return [], str(decided.get("refusal", NOBODY))


class PersonDecidesOperator(LiteralFields, HITLOperator):  # ApprovalOperator would skip all tasks behind it after a "no"
    """Asks a person, and returns the decision, for `what_was_approved`.

    :param asks: what `request` returns, or an XCom of it; if it is empty, nobody is asked, and nothing is approved
    """

    template_fields = ("asks",)

    def __init__(self, *, asks: Any, **kwargs: Any) -> None:
        self.hours = _hours()
        super().__init__(
            subject="May this be done?",
            options=[YES, NO],
            defaults=[NO],  # once the time is over
            assigned_users=[{"id": user, "name": user} for user in _approvers()] or None,
            response_timeout=timedelta(hours=self.hours),
            **kwargs,
        )
        self.asks = asks

    def execute(self, context: Context) -> Any:
        """Ask, and wait for the answer in the state `awaiting_input`."""
        if not self.asks:
            print("Nothing is to be approved.")
            return _refused("")
        self.subject = self.asks["subject"]
        # Airflow shows Markdown. In lines that are indented so, nothing is a link, a picture or HTML.
        self.body = "\n".join(f"{INDENT}{line}" for line in self.asks["lines"])
        print(f"{self.subject}\n{self.body}")
        asked = hashlib.sha256(json.dumps([self.subject, self.asks["shown"], self.assigned_users]).encode()).hexdigest()
        store = context["task_state_store"]
        if store.get(_ASKED, asked) != asked:  # Airflow keeps the first question of a task that is cleared
            return _refused(CHANGED)
        store.set(_ASKED, asked, retention=NEVER_EXPIRE)
        try:
            return super().execute(context)
        except TaskAwaitingInput as waiting:
            waiting.kwargs = {"shown": self.asks["shown"]}  # the XCom may be another one by then
            raise

    def execute_complete(self, context: Context, event: dict[str, Any], shown: Sequence[str] = ()) -> Any:
        """Return the decision."""
        answer = super().execute_complete(context, event)
        user = answer["responded_by_user"]
        by = _cut(str(user["name"]), MAX_LINE_CHARS) if user else ""
        if by and answer["chosen_options"] == [YES]:
            print(f"{by} has approved it.")
            return {"approved": True, "by": by, "shown": [*shown]}
        return _refused(f"{by} has rejected it" if by else f"{NOBODY} within {count(self.hours, 'hour')}")


def _refused(why: str) -> dict[str, Any]:
    if why:
        print(f"Nothing of it is done: {why}.")
    return {"approved": False, "refusal": why}


def _of_body(line: str) -> str:
    return _cut(line, MAX_LINE_CHARS)


def _cut(text: str, max_chars: int) -> str:
    shown = visible(text, max_chars)
    return shown if len(shown) <= max_chars else f"{shown[: max_chars - 1]}…"


def _approvers() -> list[str]:
    return [user for each in option("approvers").split(",") if (user := each.strip())]


def _hours() -> int:
    text = option("approval_hours")
    if not text.isascii() or not text.isdigit() or not 0 < int(text[:9]) <= MAX_HOURS:
        raise InputError(f"approval_hours in section [walferry] is {text[:50]!r}: give a whole number from 1 to {MAX_HOURS:,}")
    return int(text)
