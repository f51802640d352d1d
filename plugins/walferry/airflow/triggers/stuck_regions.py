"""A trigger that fires when regions of an HBase 1 cluster stay in one state longer than a limit.

Serialized triggers name the connection; addresses and credentials stay in it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from walferry.airflow.hooks.hbase import HBaseSourceHook
from walferry.base.errors import WalferryError
from walferry.replication.source.cluster import DEFAULT_CONN_ID

if TYPE_CHECKING:  # DAG files name the trigger, and are parsed without kazoo
    from walferry.master.stuck_stream import StuckRegion, StuckRegionsStream

CLASSPATH = "walferry.airflow.triggers.stuck_regions"
MAX_REGIONS = 100  # in an event, which is kept in Airflow's database


class StuckRegionsTrigger(BaseTrigger):
    """Fires once, with an event of `payload`, or with {"error": why there is nothing to wait for}."""

    def __init__(self, limit_seconds: float, source_conn_id: str = DEFAULT_CONN_ID) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.limit_seconds = limit_seconds
        self.source_conn_id = source_conn_id
        self._stream: StuckRegionsStream | None = None

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Class path and arguments."""
        return f"{CLASSPATH}.{type(self).__name__}", {"limit_seconds": self.limit_seconds, "source_conn_id": self.source_conn_id}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Wait for stuck regions; yields one event."""
        try:
            async with await open_stream(self.source_conn_id, self.limit_seconds) as self._stream:
                event = payload(await self._stream.next())
        except WalferryError as error:
            event = {"error": str(error)}
        yield TriggerEvent(event)  # type: ignore[no-untyped-call]

    async def cleanup(self) -> None:
        """End the ZooKeeper session."""
        if self._stream is not None:
            await self._stream.close()


async def open_stream(source_conn_id: str, limit_seconds: float) -> StuckRegionsStream:
    """The stream of a connection's cluster. Raises SourceError."""
    from walferry.master.stuck_stream import StuckRegionsStream

    return StuckRegionsStream(await asyncio.to_thread(HBaseSourceHook(source_conn_id).get_conn), limit_seconds)


def payload(stuck: Sequence[StuckRegion]) -> dict[str, Any]:
    """What is announced: the regions that have been in one state for longest, and how many there are."""
    longest = sorted(stuck, key=lambda each: (-each.seconds, each.region))[:MAX_REGIONS]
    regions = [
        {
            "region": each.region,
            "state": each.state,
            "server": None if each.server is None else str(each.server),
            "seconds": round(each.seconds, 1),
        }
        for each in longest
    ]
    return {"regions": regions, "stuck": len(stuck)}
