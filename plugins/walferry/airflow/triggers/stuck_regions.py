"""A trigger that fires when regions of an HBase 1 cluster stay in one state longer than a limit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from walferry.airflow.triggers.base import OnceTrigger
from walferry.replication.source.cluster import DEFAULT_CONN_ID

if TYPE_CHECKING:  # DAG files name the trigger, and are parsed without kazoo
    from walferry.master.stuck_stream import StuckRegion, StuckRegionsStream

MAX_REGIONS = 100  # in an event, which is kept in Airflow's database


class StuckRegionsTrigger(OnceTrigger):
    """Fires once, for StuckRegionsSensor: with an event of `payload`, or with {"error": why there is nothing to wait for}.

    :param limit_seconds: how long a region may stay in one state
    """

    def __init__(self, limit_seconds: float, source_conn_id: str = DEFAULT_CONN_ID) -> None:
        super().__init__(limit_seconds=limit_seconds, source_conn_id=source_conn_id)

    async def open_stream(self) -> StuckRegionsStream:
        """Return the stream of the connection's cluster. Raises SourceError."""
        from walferry.master.stuck_stream import StuckRegionsStream

        return StuckRegionsStream(await self.source(), self.arguments["limit_seconds"])

    def payload(self, found: Sequence[StuckRegion]) -> dict[str, Any]:
        """Return the regions that have been in one state for longest, and how many there are."""
        longest = sorted(found, key=lambda each: (-each.seconds, each.region))[:MAX_REGIONS]
        regions = [
            {
                "region": each.region,
                "state": each.state,
                "server": None if each.server is None else str(each.server),
                "seconds": round(each.seconds, 1),
            }
            for each in longest
        ]
        return {"regions": regions, "stuck": len(found)}
