"""How a task ends that fails: the last line of its log is the reason, as an error, and no traceback hides it.

Airflow's task runner logs what a task raises with its traceback, and other lines after that. The one exception that it logs
without is SystemExit, as a line that names its code. So what Walferry understands leaves a task as an `Ended`, and the policy
RetryIfItHelps, which the runner asks after each failure, tells the reason then. What Walferry does not understand keeps its
traceback, and is named below it. The policy also fails a task at once if trying again does not help.
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
NOTE = "walferry_note"  # the XCom with a line for the note on the run
END_OF_GROUP = "::endgroup::"  # Airflow's UI folds the lines of a group, and the runner opens one before it asks the policy
_COMMAND = re.compile(r"`[^`\n]*`")
_BLANK = "\x00"  # a blank in a command, where no line is broken: people copy commands
P = ParamSpec("P")
R = TypeVar("R")

log = logging.getLogger(__name__)


class Ended(SystemExit):
    """Ends a task for a cause that is known. Its text is what notifiers show as the exception, its lines are for the log."""

    def __init__(self, text: str, lines: Sequence[str], *, retry_helps: bool) -> None:
        super().__init__(1)
        self.lines = lines
        self.retry_helps = retry_helps
        self._text = text

    def __str__(self) -> str:
        return self._text


def ended_by(error: BaseException) -> Ended | None:
    """The end of a task that has raised this; None if the cause is not known.

    Airflow's own subclasses of AirflowException have meanings of their own: they skip a task, or reschedule it.
    """
    error = _as_ours(error)
    if isinstance(error, WalferryError):
        return Ended(str(error), error.lines if isinstance(error, Failures) else [str(error)], retry_helps=error.retry_helps)
    if type(error) in (AirflowException, AirflowFailException):
        return Ended(str(error), [str(error)], retry_helps=type(error) is AirflowException)
    return None


def _as_ours(error: BaseException) -> BaseException:
    """What ZooKeeper's client has raised as one of our errors, which says what to do; others as they are."""
    if not type(error).__module__.startswith("kazoo."):
        return error
    from walferry.base.zk.errors import known

    with suppress(type(error)):
        return known(error) if isinstance(error, Exception) else error
    return error


def tell(error: BaseException, context: Any = None) -> None:
    """Have the log end with the reason, and leave it to the run's note."""
    lines = _lines_of(error)
    if not isinstance(error, Ended) or not isinstance(error.__cause__, ReportedFailures):  # a report has left its own
        leave_note(context, lines[0])
    log.info(END_OF_GROUP)
    log.error("%s", "\n".join(wrapped(lines)))


def wrapped(reasons: Iterable[str]) -> list[str]:
    """The reasons as lines of a sensible width. Commands and other words are not broken.

    A line break in a reason, which may be of a job that has failed, does not begin a line as the log has them: what follows it is
    indented.
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
    """Leave a line to the run's note, if there is anything to say."""
    if context is None or not line:
        return
    try:
        context["ti"].xcom_push(NOTE, one_line(line, MAX_NOTE_CHARS))
    except Exception as error:  # a note must not keep a task from ending
        log.warning("the run's note was not left: %s: %s", type(error).__name__, error)


class RetryIfItHelps(RetryPolicy):
    """Fails a task at once if its error says that trying again does not help; all other failures follow the task's settings.

    Airflow asks it after each failure, whatever the callbacks are. So it also has the log end with the reason.
    """

    def evaluate(
        self, exception: BaseException, try_number: int, max_tries: int, context: Context | None = None
    ) -> RetryDecision:
        """What Airflow asks after each failure. A decision with a reason would be logged below ours."""
        try:
            tell(exception, context)
        except Exception:  # Airflow would go on without our decision
            log.exception("the reason cannot be told")
        if isinstance(exception, (WalferryError, Ended)) and not exception.retry_helps:
            return RetryDecision.fail()
        return RetryDecision.default()

    def serialize(self) -> dict[str, Any]:
        """The policy has no settings."""
        return {}


def ends_plainly(execute: Callable[P, R]) -> Callable[P, R]:
    """For an operator's `execute`: a known failure ends the task without a traceback.

    Only where this policy is the task's: others neither tell the reason nor know which failures are final.
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
