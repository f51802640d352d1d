"""A sensor for regions that stay in one state of their transition for too long."""

from __future__ import annotations

from typing import Any

from airflow.sdk import Context

from walferry.airflow.sensors.base import PlainSensor
from walferry.airflow.triggers.stuck_regions import StuckRegionsTrigger
from walferry.master.reconcile import LIMIT_SECONDS


class StuckRegionsSensor(PlainSensor):
    """Waits in the triggerer, without polling, until a region has been in one state longer than `limit_seconds`.

    It looks at the znodes of regions in transition of a cluster of HBase 1. Regions that are stuck when it begins are found at
    once.

    Returns {"regions": [{"region", "state", "server", "seconds"}, …], "stuck": how many}. Of many, it names the oldest.

    :param limit_seconds: how long a region may stay in one state
    """

    def __init__(self, *, limit_seconds: float = LIMIT_SECONDS, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if limit_seconds <= 0:
            raise ValueError(f"limit_seconds is {limit_seconds}; it must be more than 0")
        self.limit_seconds = limit_seconds

    def execute(self, context: Context) -> None:
        """Let the trigger wait."""
        self.defer(
            trigger=StuckRegionsTrigger(self.limit_seconds, self.source_conn_id),
            method_name="execute_complete",
            timeout=self.timeout,
        )
