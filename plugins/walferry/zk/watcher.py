"""What lies in ZooKeeper, looked at from an event loop whenever it has changed: ZooKeeper watches, no polling.

kazoo works in threads of its own. What blocks runs in threads of the loop's executor, and watches come back by
call_soon_threadsafe. ZooKeeper forgets watches with the connection, so after each loss everything is read again, which sets them
anew.
"""

import asyncio
import logging
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self, TypeVar

from kazoo.client import KazooClient
from kazoo.protocol.states import KazooState, WatchedEvent

from walferry.zk.client import Watch, connect, disconnect
from walferry.zk.errors import ConnectError, Contention

log = logging.getLogger(__name__)

SETTLE_SECONDS = 1.0  # from the first change to the look: changes come in swarms, as when all servers roll
RECONNECT_SECONDS = 5.0

T = TypeVar("T")
Look = Callable[[KazooClient, Watch], T | None]


class Watcher:
    """One session with an ensemble. `async with`, or `close` in the end, leaves neither session nor thread behind."""

    def __init__(self, quorum: str) -> None:
        self._quorum = quorum
        self._changed = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._zk: KazooClient | None = None
        self._closed = False

    async def connect(self) -> None:
        """Begin the session now, where the first use would. Raises ConnectError if the ensemble does not answer."""
        await self.call(lambda _: None)

    async def first(self, look: Look[T], pause: Callable[[], float | None] = lambda: None) -> T:
        """What `look` finds; while that is None it is asked again after each change that its watches tell of.

        It is asked without a change too, when the seconds that `pause()` says after each look are over (None: it is not).
        A lost session, or an ensemble that is away, is waited for. Raises whatever else `look` raises.
        """
        while True:
            self._changed.clear()
            try:
                found = await asyncio.to_thread(lambda: look(self._client(), self._on_watch))
            except (ConnectError, Contention) as error:
                log.warning("%s; trying again", error)
                await asyncio.sleep(RECONNECT_SECONDS)
                continue
            if found is not None:
                return found
            try:
                await asyncio.wait_for(self._changed.wait(), pause())
            except TimeoutError:
                continue
            await asyncio.sleep(SETTLE_SECONDS)

    async def call(self, function: Callable[[KazooClient], T]) -> T:
        """What `function` returns of this session's client, called in a thread. Raises ConnectError."""
        return await asyncio.to_thread(lambda: function(self._client()))

    def look_again(self) -> None:
        """Let `first` look although nothing has changed there: what its `look` takes into account besides has."""
        self._changed.set()

    async def close(self) -> None:
        """End the session. Done in a thread that ends by itself, so being cancelled here leaves nothing behind either."""
        await asyncio.to_thread(self._close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    def _client(self) -> KazooClient:
        with self._lock:
            if self._closed:
                raise ConnectError("this watcher was closed")
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
            log.debug("a change came after the event loop's end")
