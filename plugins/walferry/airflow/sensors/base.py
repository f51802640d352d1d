"""What our sensors have in common: how they fail, and whose text is a template."""

from __future__ import annotations

from typing import Any

from airflow.sdk import BaseSensorOperator, Context, RetryPolicy
from airflow.sdk.exceptions import AirflowFailException

from walferry.airflow.endings import RetryIfItHelps, ends_plainly
from walferry.airflow.literal import LiteralIfMapped


class PlainSensor(LiteralIfMapped, BaseSensorOperator):
    """A sensor that belongs into anyone's DAG. Unless that has a retry policy, its log ends with the reason of a failure."""

    def __init__(self, *, retry_policy: RetryPolicy | None = None, **kwargs: Any) -> None:
        super().__init__(retry_policy=retry_policy or RetryIfItHelps(), **kwargs)

    @ends_plainly
    def execute_complete(self, context: Context, event: dict[str, Any]) -> dict[str, Any]:
        """Take what the trigger found."""
        if "error" in event:
            raise AirflowFailException(event["error"])
        return event
