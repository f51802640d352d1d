"""What our sensors have in common: how they fail, and whose text is a template."""

from __future__ import annotations

from typing import Any

from airflow.sdk import BaseSensorOperator, RetryPolicy

from walferry.airflow.literal import LiteralIfMapped
from walferry.airflow.retries import RetryIfItHelps


class PlainSensor(LiteralIfMapped, BaseSensorOperator):
    """A sensor that belongs into anyone's DAG. Unless that has a retry policy, its log ends with the reason of a failure."""

    def __init__(self, *, retry_policy: RetryPolicy | None = None, **kwargs: Any) -> None:
        super().__init__(retry_policy=retry_policy or RetryIfItHelps(), **kwargs)
