"""Makes a server seem far away, by a TCP proxy that delays all bytes by the same time each way and limits nothing else.

    with DelayingProxy(("127.0.0.2", 20000), ("127.0.0.1", 20000), seconds=0.025):     # a round trip of 50 ms
        ...

Each piece gets the time at which it is due, so any number of pieces are on their way at once, on any number of connections. The
proxy does not imitate other properties of a long line: connections start fast, lose nothing and are made at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable

CHUNK = 256 << 10
MOST_CHUNKS = 256  # on their way in one direction of a connection, however slow its reader is: 64 MB
START_TIMEOUT_SECONDS = 10


class DelayingProxy:
    """Listens at `at` and passes everything to `target` and back, after `seconds` each way. A context manager.

    `is_near` gets the source port of each new connection; a near connection is not delayed.
    """

    def __init__(
        self, at: tuple[str, int], target: tuple[str, int], seconds: float, *, is_near: Callable[[int], bool] = lambda port: False
    ) -> None:
        self._at = at
        self._target = target
        self._seconds = seconds
        self._is_near = is_near
        self._loop = asyncio.new_event_loop()
        self._connections: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"delays {at[0]}:{at[1]}", daemon=True)

    def start(self) -> None:
        """Accept connections. Raises OSError if the address is taken."""
        self._thread.start()
        listening = asyncio.run_coroutine_threadsafe(asyncio.start_server(self._accepted, *self._at, limit=CHUNK), self._loop)
        self._server = listening.result(START_TIMEOUT_SECONDS)

    def close(self) -> None:
        """Break all connections, and refuse new ones."""
        if not self._thread.is_alive():
            return
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(START_TIMEOUT_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(START_TIMEOUT_SECONDS)

    def __enter__(self) -> DelayingProxy:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def _end(self) -> None:
        self._server.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            await self._passed_on(reader, writer)
        except (OSError, asyncio.CancelledError):
            pass  # either end or `close` has broken the connection
        finally:
            self._connections.discard(task)
            writer.close()

    async def _passed_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forward both directions until both have ended."""
        near = await asyncio.to_thread(self._is_near, writer.get_extra_info("peername")[1])
        seconds = 0.0 if near else self._seconds
        there, back = await asyncio.open_connection(*self._target, limit=CHUNK)
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(_delayed(reader, back, seconds))
                both.create_task(_delayed(there, writer, seconds))
        except* OSError:
            pass
        finally:
            back.close()


async def _delayed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seconds: float) -> None:
    """Forward one direction, and its end."""
    under_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(MOST_CHUNKS)
    clock = asyncio.get_running_loop().time

    async def read() -> None:
        data = b"begun"
        while data:
            data = await reader.read(CHUNK)
            await under_way.put((clock() + seconds, data))

    async with asyncio.TaskGroup() as sides:
        sides.create_task(read())
        while True:
            due, data = await under_way.get()
            if (early := due - clock()) > 0:
                await asyncio.sleep(early)
            if not data:
                break
            writer.write(data)
            await writer.drain()
        with contextlib.suppress(OSError):
            writer.write_eof()
