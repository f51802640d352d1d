"""Triggers that fire when RegionServers have died and left queues of managed peers.

There are two classes for two uses: `DeadServersTrigger` waits once, for the sensor; `DeadServersEventTrigger` fires repeatedly,
for an asset's watcher:

    Asset("hbase-dead-servers", watchers=[AssetWatcher(name="hbase_source", trigger=DeadServersEventTrigger())])

A trigger remembers nothing beyond its own life: it announces the queues that ZooKeeper still lists. These include deaths that
came while no triggerer ran, and, after a restart of the triggerer, everything that was announced before and is still undone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from walferry.airflow.triggers.base import OnceTrigger, RepeatingTrigger
from walferry.replication.source.cluster import SourceCluster

if TYPE_CHECKING:  # DAG files name the trigger, and are parsed without kazoo
    from walferry.replication.queues.dead_servers import DeadServer, DeadServersStream, ServersNotified

MAX_QUEUES = 20  # of a server in an event, which is kept in Airflow's database; a run reads the queues again


class DeadServersTrigger(OnceTrigger):
    """Fires once, for DeadServersSensor: with an event of `payload`, or with {"error": why there is nothing to wait for}."""

    async def open_stream(self) -> DeadServersStream:
        """Return the stream of the connection's cluster. Raises SourceError."""
        return open_stream(await self.source())

    def payload(self, found: Iterable[DeadServer]) -> dict[str, Any]:
        """Return the event's payload."""
        return payload(found)


class DeadServersEventTrigger(RepeatingTrigger):
    """Fires for servers that have newly died, once for several servers that died together.

    It fires again, after 10 minutes and then after longer and longer pauses, while a server's queues exist and no run claims or
    drains them: the run that it began may have failed.
    """

    async def open_stream(self) -> DeadServersStream:
        """Return the stream of the connection's cluster, which goes on where the one before has ended. Raises SourceError."""
        return open_stream(await self.source(), self._stream.notified if self._stream is not None else None)

    def payload(self, found: Iterable[DeadServer]) -> dict[str, Any]:
        """Return the event's payload."""
        return payload(found)


def open_stream(source: SourceCluster, notified: Mapping[str, ServersNotified] | None = None) -> DeadServersStream:
    """Return the stream of a cluster."""
    from walferry.replication.queues.dead_servers import DeadServersStream

    return DeadServersStream(source, notified)


def payload(dead: Iterable[DeadServer]) -> dict[str, Any]:
    """Return {"servers": {name: [queue, …]}}, each queue as "server/queue id" and only the first MAX_QUEUES."""
    return {"servers": {server.name: [queue.ref for queue in server.queues[:MAX_QUEUES]] for server in dead}}
