"""New closed WALs of a peer as they come, for an event loop: ZooKeeper watches, no polling.

kazoo works in threads of its own. What blocks runs in threads of the loop's executor, and watches come back by
call_soon_threadsafe. ZooKeeper forgets watches with the connection, so after each loss everything is read again, which sets them
anew.
"""

import asyncio
import logging
import threading
from types import TracebackType
from typing import Self

from kazoo.client import KazooClient
from kazoo.protocol.states import KazooState, WatchedEvent

from walferry.source import SourceCluster
from walferry.zk.client import connect, disconnect
from walferry.zk.errors import ConnectError, QueuesMoving
from walferry.zk.layout import OwnZNodes
from walferry.zk.new_wals import NewWals, Timestamps, commit, find_new

log = logging.getLogger(__name__)

SETTLE_S = 1.0  # from the first change to the look: when a cluster rolls, all its servers do within a moment
RECONNECT_S = 5.0


class NewWalsStream:
    """Watches one peer for one mark. `async with`, or `close` in the end, leaves neither session nor thread behind."""

    def __init__(self, source: SourceCluster, peer_id: str, key: str) -> None:
        self.peer_id = peer_id
        self.key = key
        self._quorum = source.quorum
        self._own = OwnZNodes(source.root, source.nodes)
        self._changed = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._zk: KazooClient | None = None
        self._closed = False

    async def next(self, beside: Timestamps | None = None) -> NewWals:
        """Wait for closed WALs that neither the mark nor `beside` covers; `commit` is what moves the mark.

        A lost session, or an ensemble that is away, is waited for. Raises PeerError if the peer must not be shipped,
        StorageError, ZNodeValueError.
        """
        while True:
            self._changed.clear()
            try:
                found = await asyncio.to_thread(self._look, beside)
            except (ConnectError, QueuesMoving) as error:
                log.warning("%s; trying again", error)
                await asyncio.sleep(RECONNECT_S)
                continue
            if found is not None:
                return found
            await self._changed.wait()
            await asyncio.sleep(SETTLE_S)

    async def commit(self, newest: Timestamps) -> bool:
        """Let the mark cover `newest`; returns whether it did not already. Raises ConnectError, ZkError."""
        return await asyncio.to_thread(lambda: commit(self._client(), self._own, self.peer_id, self.key, newest))

    def look_again(self) -> None:
        """Let `next` look at the queues though nothing changed there: what it takes for covered has."""
        self._changed.set()

    async def close(self) -> None:
        """End the session. Done in a thread that ends by itself, so being cancelled here leaves nothing behind either."""
        await asyncio.to_thread(self._close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    def _look(self, beside: Timestamps | None) -> NewWals | None:
        return find_new(self._client(), self._own, self.peer_id, self.key, beside, self._on_watch)

    def _client(self) -> KazooClient:
        with self._lock:
            if self._closed:
                raise ConnectError("this stream was closed")
            if self._zk is None:
                self._zk = connect(self._quorum)
                self._zk.add_listener(self._on_state)
            return self._zk

    def _close(self) -> None:
        with self._lock:
            self._closed = True
            if self._zk is not None:
                disconnect(self._zk)
                self._zk = None

    def _on_watch(self, _: WatchedEvent) -> None:
        self._wake()

    def _on_state(self, state: str) -> None:
        if state == KazooState.CONNECTED:
            self._wake()

    def _wake(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._changed.set)
        except RuntimeError:  # the loop has ended, and nobody is waiting
            log.debug("a change of peer %s came after the event loop's end", self.peer_id)
