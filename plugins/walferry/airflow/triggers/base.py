"""What our triggers have in common: each waits for what a stream of a source's cluster announces.

Serialized triggers name the connection; addresses and credentials stay in it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from walferry.airflow.hooks.hbase import HBaseSourceHook
from walferry.base.errors import WalferryError
from walferry.replication.source.cluster import SourceCluster

if TYPE_CHECKING:  # DAG files name triggers, and are parsed without kazoo
    from walferry.base.zk.watcher import Watcher


class SourceTrigger(BaseTrigger):
    """A trigger that is made anew from its class path and `arguments`, one of which is `source_conn_id`."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.arguments = arguments
        self._stream: Watcher | None = None

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Class path and arguments."""
        return f"{type(self).__module__}.{type(self).__name__}", self.arguments

    async def source(self) -> SourceCluster:
        """The connection's cluster. Raises SourceError."""
        return await asyncio.to_thread(HBaseSourceHook(self.arguments["source_conn_id"]).get_conn)

    async def cleanup(self) -> None:
        """End the ZooKeeper session."""
        if self._stream is not None:
            await self._stream.close()


class OnceTrigger(SourceTrigger):
    """Fires once, for a sensor: with what the stream announces, or with {"error": why there is nothing to wait for}."""

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Wait for the stream; yields one event."""
        try:
            async with await self.open_stream() as stream:
                self._stream = stream
                event = self.payload(await stream.next())
        except WalferryError as error:
            event = {"error": str(error)}
        yield TriggerEvent(event)  # type: ignore[no-untyped-call]

    async def open_stream(self) -> Any:
        """The stream of the connection's cluster. Raises SourceError."""
        raise NotImplementedError

    def payload(self, found: Any) -> dict[str, Any]:
        """The event of what the stream has announced."""
        raise NotImplementedError
