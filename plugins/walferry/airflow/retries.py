"""Which failures Airflow tries again, and what a task's log ends with."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from airflow.sdk import Context, RetryDecision, RetryPolicy

from walferry.airflow import endings
from walferry.base.errors import WalferryError

P = ParamSpec("P")
R = TypeVar("R")

log = logging.getLogger(__name__)


class RetryIfItHelps(RetryPolicy):
    """Fails a task at once if its error says that trying again does not help; all other failures follow the task's settings.

    Airflow asks it after each failure, whatever the callbacks are. So it also has the log end with the reason.
    """

    def evaluate(
        self, exception: BaseException, try_number: int, max_tries: int, context: Context | None = None
    ) -> RetryDecision:
        """What Airflow asks after each failure. A decision with a reason would be logged below ours."""
        try:
            endings.tell(exception, context)
        except Exception:  # Airflow would go on without our decision
            log.exception("the reason cannot be told")
        if isinstance(exception, (WalferryError, endings.Ended)) and not exception.retry_helps:
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
            ended = endings.ended_by(error)
            if ended is None or not isinstance(args[0].retry_policy, RetryIfItHelps):  # type: ignore[attr-defined]
                raise
            log.debug("where this is from", exc_info=error)
            raise ended from error

    return ending
