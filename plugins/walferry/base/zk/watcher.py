"""Reads ZooKeeper from an event loop whenever something has changed there, by ZooKeeper's watches and without polling.

kazoo works in its own threads. Blocking calls run in threads of the loop's executor, and watches reach the loop by
call_soon_threadsafe. Watches end with the connection, so after each loss everything is read again, which sets new watches.
"""

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Self, TypeVar

from kazoo.client import KazooClient
from kazoo.protocol.states import KazooState, WatchedEvent

from walferry.base.errors import WalferryError
from walferry.base.security.login import Login
from walferry.base.zk.client import Watch, connect, disconnect
from walferry.base.zk.errors import ConnectError, Contention
from walferry.base.zk.secured import SecuredClient

log = logging.getLogger(__name__)

SETTLE_SECONDS = 1.0  # between the first change and the read: changes come in swarms, for example when all servers roll
RECONNECT_SECONDS = 5.0

T = TypeVar("T")
Look = Callable[[KazooClient, Watch], T | None]


class Watcher:
    """One session with an ensemble. Use `async with`, or call `close` in the end, so that no session or thread is left."""

    waits_through: tuple[type[WalferryError], ...] = (ConnectError, Contention)  # errors of a look that the next one may not have

    def __init__(self, quorum: str, login: Login) -> None:
        self._quorum = quorum
        self._login = login
        self._changed = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._zk: SecuredClient | None = None
        self._closed = False

    async def connect(self) -> None:
        """Begin the session now instead of at the first use. Raises ConnectError if the ensemble does not answer."""
        await self.call(lambda _: None)

    async def first(self, look: Look[T], pause: Callable[[], float | None] = lambda: None) -> T:
        """Call `look` until it finds something, and return its finding. Each change that its watches report causes another call.

        After each call, `pause()` returns the seconds until `look` is called even without a change (None: only after a change).
        If the session is lost or the ensemble is away, this waits for it. Raises LoginRefused, and the errors of `look` that are
        not among `waits_through`.
        """
        while True:
            self._changed.clear()
            try:
                found = await asyncio.to_thread(lambda: look(self._client(), self._on_watch))
            except self.waits_through as error:
                if not error.retry_helps:
                    raise
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
        """Call `function` with this session's client, in a thread, and return its result. Raises ConnectError."""
        return await asyncio.to_thread(lambda: function(self._client()))

    def look_again(self) -> None:
        """Make `first` look again, because something outside ZooKeeper that its `look` depends on has changed."""
        self._changed.set()

    async def close(self) -> None:
        """End the session in a thread that ends by itself: even if this call is cancelled, no session or thread is left."""
        await asyncio.to_thread(self._close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _client(self) -> KazooClient:
        with self._lock:
            if self._closed:
                raise ConnectError("this watcher was closed")
            if self._zk is not None and self._zk.over:
                disconnect(self._zk)
                self._zk = None
            if self._zk is None:
                self._zk = connect(self._quorum, login=self._login)
                self._zk.add_listener(self._on_state)
            return self._zk

    def _close(self) -> None:
        with self._lock:
            self._closed = True
            if self._zk is not None:
                disconnect(self._zk)
                self._zk = None

    def _on_watch(self, _: WatchedEvent) -> None:
        # kazoo keeps a znode's watches in a set until one fires: an equal callback each time, or each look would add one.
        self._wake()

    def _on_state(self, state: str) -> None:
        if state == KazooState.CONNECTED:
            self._wake()

    def _wake(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._changed.set)
        except RuntimeError:  # the loop has ended, so nothing waits for the change
            log.debug("a change came after the event loop had ended")
