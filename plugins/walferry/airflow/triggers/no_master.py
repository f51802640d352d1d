"""A trigger that fires when a cluster of HBase 1 has had no master for a while."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from walferry.airflow.triggers.base import OnceTrigger
from walferry.replication.source.cluster import DEFAULT_CONN_ID

if TYPE_CHECKING:  # DAG files name the trigger, and are parsed without kazoo
    from walferry.master.no_master_stream import NoMasterStream


class NoMasterTrigger(OnceTrigger):
    """Fires once, for RegionMasterOperator: with an event of `payload`, or with {"error": why there is nothing to wait for}.

    :param patience_seconds: for how long the cluster has to be without a master
    """

    def __init__(self, patience_seconds: float, source_conn_id: str = DEFAULT_CONN_ID) -> None:
        super().__init__(patience_seconds=patience_seconds, source_conn_id=source_conn_id)

    async def open_stream(self) -> NoMasterStream:
        """Return the stream of the connection's cluster. Raises SourceError."""
        from walferry.master.no_master_stream import NoMasterStream

        return NoMasterStream(await self.source(), self.arguments["patience_seconds"])

    def payload(self, found: float) -> dict[str, Any]:
        """Return for how many seconds there was no master, and when that was (seconds since the epoch)."""
        return {"seconds": found, "at": time.time()}
