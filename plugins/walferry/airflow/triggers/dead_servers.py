"""Triggers that fire when RegionServers have died and left queues of managed peers.

There are two classes for two uses: `DeadServersTrigger` waits once, for the sensor; `DeadServersEventTrigger` fires repeatedly,
for an asset's watcher:

    Asset("hbase-dead-servers", watchers=[AssetWatcher(name="hbase_source", trigger=DeadServersEventTrigger())])

A trigger remembers nothing beyond its own life: it announces the queues that ZooKeeper still lists. These include deaths that
came while no triggerer ran, and, after a restart of the triggerer, everything that was announced before and is still undone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from walferry.airflow.triggers.base import OnceTrigger, SourceTrigger
from walferry.base.errors import WalferryError
from walferry.replication.source.cluster import SourceCluster

if TYPE_CHECKING:  # DAG files name the trigger, and are parsed without kazoo
    from walferry.replication.queues.dead_servers import DeadServer, DeadServersStream, ServersNotified

log = logging.getLogger(__name__)

RETRY_SECONDS = 60.0  # until an asset's watcher looks again at a wrong connection or cluster
MAX_QUEUES = 20  # of a server in an event, which is kept in Airflow's database; a run reads the queues again


class DeadServersTrigger(OnceTrigger):
    """Fires once, for DeadServersSensor: with an event of `payload`, or with {"error": why there is nothing to wait for}."""

    async def open_stream(self) -> DeadServersStream:
        """Return the stream of the connection's cluster. Raises SourceError."""
        return open_stream(await self.source())

    def payload(self, found: Iterable[DeadServer]) -> dict[str, Any]:
        """Return the event's payload."""
        return payload(found)


class DeadServersEventTrigger(SourceTrigger, BaseEventTrigger):
    """Fires for servers that have newly died, once for several servers that died together.

    It fires again, after 10 minutes and then after longer and longer pauses, while a server's queues exist and no run claims or
    drains them: the run that it began may have failed.
    """

    _stream: DeadServersStream | None

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield an event when servers have died, and again while their queues stay. A wrong connection may be corrected later."""
        while True:
            try:
                notified = self._stream.notified if self._stream is not None else None
                async with open_stream(await self.source(), notified) as self._stream:
                    await self._stream.connect()
                    while True:
                        yield TriggerEvent(payload(await self._stream.next()))  # type: ignore[no-untyped-call]
            except WalferryError as error:
                log.warning("not watching for dead servers, looking again in %g s: %s", RETRY_SECONDS, error)
                await asyncio.sleep(RETRY_SECONDS)


def open_stream(source: SourceCluster, notified: Mapping[str, ServersNotified] | None = None) -> DeadServersStream:
    """Return the stream of a cluster."""
    from walferry.replication.queues.dead_servers import DeadServersStream

    return DeadServersStream(source, notified)


def payload(dead: Iterable[DeadServer]) -> dict[str, Any]:
    """Return {"servers": {name: [queue, …]}}, each queue as "server/queue id" and only the first MAX_QUEUES."""
    return {"servers": {server.name: [queue.ref for queue in server.queues[:MAX_QUEUES]] for server in dead}}
