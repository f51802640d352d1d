"""Which failures Airflow tries again."""

from __future__ import annotations

from typing import Any

from airflow.sdk import Context, RetryDecision, RetryPolicy

from walferry.errors import WalferryError


class RetryIfItHelps(RetryPolicy):
    """Fails a task at once if its error says that trying again does not help; all other failures follow the task's settings."""

    def evaluate(
        self, exception: BaseException, try_number: int, max_tries: int, context: Context | None = None
    ) -> RetryDecision:
        """What Airflow asks after each failure."""
        if isinstance(exception, WalferryError) and not exception.retry_helps:
            return RetryDecision.fail(f"{type(exception).__name__}: only a change by people helps")
        return RetryDecision.default()

    def serialize(self) -> dict[str, Any]:
        """The policy has no settings."""
        return {}
