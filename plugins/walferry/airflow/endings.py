"""Ends a failed task so that the last line of its log is the reason, as an error, and no traceback hides it.

Airflow's task runner logs an exception with its traceback, and other lines after that. It logs only SystemExit without a
traceback, as a line that names the exit code. So a task raises an `Ended` for a failure that Walferry understands, and the policy
RetryIfItHelps, which the runner asks after each failure, logs the reason then. A failure that Walferry does not understand keeps
its traceback, and a line below the traceback names it. The policy also fails a task at once if trying again does not help.
"""

from __future__ import annotations

import functools
import logging
import re
import textwrap
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, ParamSpec, TypeVar

from airflow.sdk import Context, RetryDecision, RetryPolicy
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowTaskTimeout

from walferry.base.errors import WalferryError
from walferry.base.texts import lines_only, one_line
from walferry.runs.failures import MAX_NOTE_CHARS, Failures, ReportedFailures

WIDTH = 110
MAX_REASON_CHARS = 4000
NOTE = "walferry_note"  # the XCom with a line for the run's note
END_OF_GROUP = "::endgroup::"  # Airflow's UI folds the lines of a group, and the runner opens a group before it asks the policy
_COMMAND = re.compile(r"`[^`\n]*`")
_BLANK = "\x00"  # stands for a blank inside a command, where lines are not broken: people copy commands
P = ParamSpec("P")
R = TypeVar("R")

log = logging.getLogger(__name__)


class Ended(SystemExit):
    """Ends a task for a known cause. Notifiers show its text as the exception; its lines are for the log."""

    def __init__(self, text: str, lines: Sequence[str], *, retry_helps: bool) -> None:
        super().__init__(1)
        self.lines = lines
        self.retry_helps = retry_helps
        self._text = text

    def __str__(self) -> str:
        return self._text


def ended_by(error: BaseException) -> Ended | None:
    """Return the end of a task that has raised this error; None if the cause is not known.

    Airflow's own subclasses of AirflowException have meanings of their own: they skip or reschedule a task.
    """
    error = _as_ours(error)
    if isinstance(error, WalferryError):
        return Ended(str(error), error.lines if isinstance(error, Failures) else [str(error)], retry_helps=error.retry_helps)
    if type(error) in (AirflowException, AirflowFailException):
        return Ended(str(error), [str(error)], retry_helps=type(error) is AirflowException)
    return None


def _as_ours(error: BaseException) -> BaseException:
    """Return an error of ZooKeeper's client as one of our errors, which says what to do; return other errors as they are."""
    if not type(error).__module__.startswith("kazoo."):
        return error
    from walferry.base.zk.errors import known

    with suppress(type(error)):
        return known(error) if isinstance(error, Exception) else error
    return error


def tell(error: BaseException, context: Any = None) -> None:
    """Make the log end with the reason, and leave the reason for the run's note."""
    lines = _lines_of(error)
    if not isinstance(error, Ended) or not isinstance(error.__cause__, ReportedFailures):  # the report left a line of its own
        leave_note(context, lines[0])
    log.info(END_OF_GROUP)
    log.error("%s", "\n".join(wrapped(lines)))


def wrapped(reasons: Iterable[str]) -> list[str]:
    """Return the reasons as lines of a sensible width. Commands and other words are not broken.

    A reason may come from a failed job and contain line breaks. The text behind a line break is indented, so it does not look
    like a new line of the log.
    """
    lines = [line for reason in reasons for line in _lines(lines_only(reason[:MAX_REASON_CHARS]))]
    return [line.replace(_BLANK, " ") for line in lines]


def _lines(reason: str) -> list[str]:
    whole = _COMMAND.sub(lambda command: command.group().replace(" ", _BLANK), reason)
    return [
        line
        for number, part in enumerate(whole.split("\n"))
        for line in textwrap.wrap(
            part, WIDTH, initial_indent="  " if number else "", subsequent_indent="  ", break_long_words=False,
            break_on_hyphens=False,
        )
    ]  # fmt: skip


def _lines_of(error: BaseException) -> Sequence[str]:
    ended = error if isinstance(error, Ended) else ended_by(error)
    if ended is not None:
        return ended.lines
    if isinstance(error, AirflowTaskTimeout):
        return ["The task took longer than it may, and was ended. The traceback above says at what. Nothing is lost by that"]
    said = f"{type(error).__name__}: {one_line(str(error), MAX_REASON_CHARS)}"
    return [f"{said}. Walferry does not know this error: the traceback above says where it is from"]


def leave_note(context: Any, line: str) -> None:
    """Leave a line for the run's note, unless the line is empty."""
    if context is None or not line:
        return
    try:
        context["ti"].xcom_push(NOTE, one_line(line, MAX_NOTE_CHARS))
    except Exception as error:  # a note must not keep a task from ending
        log.warning("the run's note was not left: %s: %s", type(error).__name__, error)


class RetryIfItHelps(RetryPolicy):
    """Fails a task at once if its error says that trying again does not help; all other failures follow the task's settings.

    Airflow asks the policy after each failure, whatever the callbacks are. So the policy also makes the log end with the reason.
    """

    def evaluate(
        self, exception: BaseException, try_number: int, max_tries: int, context: Context | None = None
    ) -> RetryDecision:
        """Decide about a failed try for Airflow. The decision has no reason: Airflow would log it below our last line."""
        try:
            tell(exception, context)
        except Exception:  # without a decision Airflow would go on
            log.exception("the reason is not known")
        if isinstance(exception, (WalferryError, Ended)) and not exception.retry_helps:
            return RetryDecision.fail()
        return RetryDecision.default()

    def serialize(self) -> dict[str, Any]:
        """Return no settings: the policy has none."""
        return {}


def ends_plainly(execute: Callable[P, R]) -> Callable[P, R]:
    """Wrap an operator's `execute` so that a known failure ends the task without a traceback.

    It does so only if the task has this policy: other policies neither log the reason nor know which failures are final.
    """

    @functools.wraps(execute)
    def ending(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return execute(*args, **kwargs)
        except Exception as error:
            ended = ended_by(error)
            if ended is None or not isinstance(args[0].retry_policy, RetryIfItHelps):  # type: ignore[attr-defined]
                raise
            log.debug("where this is from", exc_info=error)
            raise ended from error

    return ending
