"""A sensor for RegionServers that have died and left queues of managed peers."""

from __future__ import annotations

from typing import Any

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowFailException

from walferry.airflow.endings import ends_plainly
from walferry.airflow.hooks.hbase import HBaseSourceHook
from walferry.airflow.sensors.base import PlainSensor
from walferry.airflow.triggers.dead_servers import DeadServersTrigger, payload
from walferry.hbase.errors import ClusterError
from walferry.replication.queues.dead_servers import find_dead
from walferry.replication.source.cluster import SourceError
from walferry.replication.source.session import open_session


class DeadServersSensor(PlainSensor):
    """Waits in the triggerer, without polling, until a dead server's queues of managed peers can be drained.

    The sensor looks at the queues, not at deaths that it has seen. So it also finds servers that died while no sensor ran, and
    finds them again in each run until their queues are drained. It does not mistake the end of its own session for a death.

    Returns {"servers": {name: [queue, …]}}, each queue as "server under which it lies/queue id".
    """

    @ends_plainly
    def execute(self, context: Context) -> dict[str, Any]:
        """Look once, and let the trigger wait."""
        try:
            source = HBaseSourceHook(self.source_conn_id).get_conn()
            with open_session(source) as session:
                dead = find_dead(session)
        except (SourceError, ClusterError) as error:
            raise AirflowFailException(str(error)) from error
        if dead:
            return payload(dead)
        self.defer(trigger=DeadServersTrigger(self.source_conn_id), method_name="execute_complete", timeout=self.timeout)
