"""The common base of our triggers: each waits for the announcements of a stream of a source's cluster.

Serialized triggers name the connection; addresses and credentials stay in it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import BaseEventTrigger, BaseTrigger, TriggerEvent

from walferry.airflow.hooks.hbase import HBaseSourceHook
from walferry.base.errors import WalferryError
from walferry.replication.source.cluster import DEFAULT_CONN_ID, SourceCluster

RETRY_SECONDS = 60.0  # until an asset's watcher looks again at a wrong connection or cluster

log = logging.getLogger(__name__)


class SourceTrigger(BaseTrigger):
    """A trigger that can be made again from its class path and `arguments`, which include `source_conn_id`.

    :param source_conn_id: the connection of the source cluster
    """

    def __init__(self, source_conn_id: str = DEFAULT_CONN_ID, **arguments: Any) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.arguments = {**arguments, "source_conn_id": source_conn_id}
        self._stream: Any = None  # a Watcher with a method `next`

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


class StreamTrigger(SourceTrigger):
    """A trigger that fires for announcements of a stream."""

    async def open_stream(self) -> Any:
        """Return the stream of the connection's cluster. Raises SourceError."""
        raise NotImplementedError

    def payload(self, found: Any) -> dict[str, Any]:
        """Return the event for the stream's announcement."""
        raise NotImplementedError


class OnceTrigger(StreamTrigger):
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


class RepeatingTrigger(StreamTrigger, BaseEventTrigger):
    """Fires for each of the stream's announcements, for an asset's watcher. `_stream` is the stream that was opened last."""

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield an event for each announcement. A wrong connection may be corrected later."""
        while True:
            try:
                async with await self.open_stream() as self._stream:
                    await self._stream.connect()
                    while True:
                        yield TriggerEvent(self.payload(await self._stream.next()))  # type: ignore[no-untyped-call]
            except WalferryError as error:
                log.warning("not watching, looking again in %g s: %s", RETRY_SECONDS, error)
                await asyncio.sleep(RETRY_SECONDS)
