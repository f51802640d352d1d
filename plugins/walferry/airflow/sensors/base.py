"""The common base of our sensors: how they fail, and which texts are templates."""

from __future__ import annotations

from typing import Any

from airflow.sdk import BaseSensorOperator, Context, RetryPolicy
from airflow.sdk.exceptions import AirflowFailException

from walferry.airflow.endings import RetryIfItHelps, ends_plainly
from walferry.airflow.literal import LiteralIfMapped


class PlainSensor(LiteralIfMapped, BaseSensorOperator):
    """A sensor for any DAG. Unless the DAG sets a retry policy, the sensor's log ends with the reason of a failure."""

    def __init__(self, *, retry_policy: RetryPolicy | None = None, **kwargs: Any) -> None:
        super().__init__(retry_policy=retry_policy or RetryIfItHelps(), **kwargs)

    @ends_plainly
    def execute_complete(self, context: Context, event: dict[str, Any]) -> dict[str, Any]:
        """Return what the trigger found."""
        if "error" in event:
            raise AirflowFailException(event["error"])
        return event
