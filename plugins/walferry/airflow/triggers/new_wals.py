"""Triggers that fire when closed WALs are queued for a managed peer.

There are two classes for two uses: `NewWalsTrigger` waits once, for the sensor, which moves the cursor itself when it resumes;
`NewWalsEventTrigger` fires repeatedly, for an asset's watcher:

    Asset("hbase-backlog", watchers=[AssetWatcher(name="peer-1", trigger=NewWalsEventTrigger(peer="1", key="replicate_peer"))])

With both, a WAL that was announced before a crash but not dealt with is announced again. A WAL that was dealt with is not.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Hashable, Sequence
from typing import Any

from airflow.triggers.base import BaseEventTrigger, TriggerEvent
from airflow.triggers.shared_stream import AdvanceItem, SharedStreamProducer

from walferry.airflow.hooks.hbase import HBaseSourceHook
from walferry.airflow.triggers.base import OnceTrigger, SourceTrigger
from walferry.base.errors import WalferryError
from walferry.replication.queues.new_wals import NewWals, NewWalsStream
from walferry.replication.source.cluster import DEFAULT_CONN_ID

log = logging.getLogger(__name__)

REFUSED_RETRY_SECONDS = 60.0  # until an asset's watcher looks again at a peer that must not be shipped


class NewWalsTrigger(OnceTrigger):
    """Fires once, for NewWalsSensor: with an event of `payload`, or with {"error": why there is nothing to wait for}.

    :param peer: the id of a managed peer
    :param key: the name of the cursor in ZooKeeper
    """

    def __init__(self, peer: str, key: str, source_conn_id: str = DEFAULT_CONN_ID) -> None:
        super().__init__(peer=peer, key=key, source_conn_id=source_conn_id)

    async def open_stream(self) -> NewWalsStream:
        """Return the stream of the connection's cluster. Raises SourceError."""
        return NewWalsStream(await self.source(), self.arguments["peer"], self.arguments["key"])

    def payload(self, found: NewWals) -> dict[str, Any]:
        """Return the event's payload."""
        return payload(self.arguments["peer"], found)


class NewWalsEventTrigger(SourceTrigger, BaseEventTrigger):
    """Fires whenever closed WALs beyond the cursor are queued.

    :param peer: the id of a managed peer
    :param key: the name of the cursor in ZooKeeper, such as the name of the asset or DAG that uses the trigger
    """

    def __init__(self, peer: str, key: str, source_conn_id: str = DEFAULT_CONN_ID) -> None:
        super().__init__(peer=peer, key=key, source_conn_id=source_conn_id)

    def shared_stream_key(self) -> Hashable:
        """Return a key for each cursor: the triggerer moves the cursor on when the events are in Airflow's database."""
        return (__name__, *(self.arguments[name] for name in ("source_conn_id", "peer", "key")))

    @classmethod
    def create_shared_stream_producer(cls, kwargs: dict[str, Any]) -> NewWalsProducer:
        """Return the producer of the stream."""
        return NewWalsProducer(**kwargs)

    async def filter_shared_stream(self, shared_stream: AsyncIterator[dict[str, Any]]) -> AsyncIterator[TriggerEvent]:
        """Yield an event for every announcement."""
        async for event in shared_stream:
            yield TriggerEvent(event)  # type: ignore[no-untyped-call]

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield the events without a shared stream: the cursor moves when the next event is asked for."""
        producer = NewWalsProducer(**self.arguments)
        try:
            async for event, found in producer.open_stream():
                yield TriggerEvent(event)  # type: ignore[no-untyped-call]
                await producer.commit(found)
        finally:
            await producer.aclose()


class NewWalsProducer(SharedStreamProducer):
    """Announces new WALs of one peer, and moves the cursor over the announcements that Airflow has stored."""

    def __init__(self, peer: str, key: str, source_conn_id: str = DEFAULT_CONN_ID) -> None:
        self._peer = peer
        self._key = key
        self._source_conn_id = source_conn_id
        self._stream: NewWalsStream | None = None
        self._announced: dict[str, int] = {}  # by group, beyond the cursor

    async def open_stream(self) -> AsyncGenerator[tuple[dict[str, Any], NewWals], None]:
        """Yield announcements for ever, each with the value that `advance` needs. Raises SourceError."""
        source = await asyncio.to_thread(HBaseSourceHook(self._source_conn_id).get_conn)
        self._stream = NewWalsStream(source, self._peer, self._key)
        while True:
            try:
                found = await self._stream.next(dict(self._announced))
            except WalferryError as error:
                log.warning("not watching for now: %s", error)
                await asyncio.sleep(REFUSED_RETRY_SECONDS)
                continue
            self._announced.update(found.newest)
            yield payload(self._peer, found), found

    async def advance(self, batch: Sequence[AdvanceItem]) -> None:
        """Move the cursor over the announcements that Airflow has stored for every subscriber; others are announced again."""
        for item in batch:
            if item.outcome.is_clean:
                await self.commit(item.broker_payload)
            else:
                self._forget(item.broker_payload)

    async def commit(self, found: NewWals) -> None:
        """Move the cursor over `found`."""
        if self._stream is not None:
            await self._stream.commit(found.newest)
            self._forget(found)

    async def aclose(self) -> None:
        """End the ZooKeeper session."""
        if self._stream is not None:
            await self._stream.close()

    def _forget(self, found: NewWals) -> None:
        for group, timestamp in found.newest.items():
            if self._announced.get(group, -1) <= timestamp:
                self._announced.pop(group, None)
        if self._stream is not None:
            self._stream.look_again()


def payload(peer: str, found: NewWals) -> dict[str, Any]:
    """Return the peer, how many closed WALs are new, and the newest WAL of each group that has any (milliseconds)."""
    return {"peer": peer, "wals": found.count, "newest": dict(found.newest)}
