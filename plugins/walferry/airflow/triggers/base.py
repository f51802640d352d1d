"""The common base of our triggers: each waits for the announcements of a stream of a source's cluster.

Serialized triggers name the connection; addresses and credentials stay in it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from walferry.airflow.hooks.hbase import HBaseSourceHook
from walferry.base.errors import WalferryError
from walferry.replication.source.cluster import DEFAULT_CONN_ID, SourceCluster

if TYPE_CHECKING:  # DAG files name triggers, and are parsed without kazoo
    from walferry.base.zk.watcher import Watcher


class SourceTrigger(BaseTrigger):
    """A trigger that can be made again from its class path and `arguments`, which include `source_conn_id`.

    :param source_conn_id: the connection of the source cluster
    """

    def __init__(self, source_conn_id: str = DEFAULT_CONN_ID, **arguments: Any) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.arguments = {**arguments, "source_conn_id": source_conn_id}
        self._stream: Watcher | None = None

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class path and the arguments."""
        return f"{type(self).__module__}.{type(self).__name__}", self.arguments

    async def source(self) -> SourceCluster:
        """Return the connection's cluster. Raises SourceError."""
        return await asyncio.to_thread(HBaseSourceHook(self.arguments["source_conn_id"]).get_conn)

    async def cleanup(self) -> None:
        """End the ZooKeeper session."""
        if self._stream is not None:
            await self._stream.close()


class OnceTrigger(SourceTrigger):
    """Fires once, for a sensor: with the stream's announcement, or with {"error": why there is nothing to wait for}."""

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Wait for the stream and yield one event."""
        try:
            async with await self.open_stream() as stream:
                self._stream = stream
                event = self.payload(await stream.next())
        except WalferryError as error:
            event = {"error": str(error)}
        yield TriggerEvent(event)  # type: ignore[no-untyped-call]

    async def open_stream(self) -> Any:
        """Return the stream of the connection's cluster. Raises SourceError."""
        raise NotImplementedError

    def payload(self, found: Any) -> dict[str, Any]:
        """Return the event for the stream's announcement."""
        raise NotImplementedError
