"""The common base of our sensors: how they fail, and which texts are templates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow.sdk import BaseSensorOperator, Context, RetryPolicy
from airflow.sdk.exceptions import AirflowFailException

from walferry.airflow.endings import RetryIfItHelps, ends_plainly
from walferry.airflow.literal import LiteralIfMapped
from walferry.replication.source.cluster import DEFAULT_CONN_ID


class PlainSensor(LiteralIfMapped, BaseSensorOperator):
    """A sensor for any DAG. Unless the DAG sets a retry policy, the sensor's log ends with the reason of a failure.

    :param source_conn_id: the connection of the source cluster (templated)
    :param retry_policy: which failures are tried again; by default those that may pass
    """

    template_fields: Sequence[str] = ("source_conn_id",)

    def __init__(self, *, source_conn_id: str = DEFAULT_CONN_ID, retry_policy: RetryPolicy | None = None, **kwargs: Any) -> None:
        super().__init__(retry_policy=retry_policy or RetryIfItHelps(), **kwargs)
        self.source_conn_id = source_conn_id

    @ends_plainly
    def execute_complete(self, context: Context, event: dict[str, Any]) -> dict[str, Any]:
        """Return what the trigger found."""
        if "error" in event:
            raise AirflowFailException(event["error"])
        return event
