"""A sender's connections to the peer cluster's RegionServers, and its share of all senders' calls under way there."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from walferry.base.security.login import Login
from walferry.hbase.names import ServerName
from walferry.hbase.rpc.codec import KEY_VALUE_CODEC_WITH_TAGS
from walferry.hbase.rpc.connection import Connection
from walferry.hbase.rpc.errors import ConnectionFailed, RpcError, RpcTimeout

CONNECT_SECONDS = 10.0
LAST_CONNECT_SECONDS = 2.0  # the least time for connecting, when the deadline is near
AT_ONCE = 16  # servers that a sender connects to side by side


def connection_to(server: ServerName, service: str, *, login: Login, max_response_bytes: int) -> Connection:
    """Return a connection, not open yet, to a service of a server that takes cells."""
    return Connection(
        server.host,
        server.port,
        service,
        login=login,
        cell_codec=KEY_VALUE_CODEC_WITH_TAGS,
        connect_timeout=CONNECT_SECONDS,
        max_response_bytes=max_response_bytes,
    )


def open_all(connections: Sequence[Connection], seconds: Callable[[], float]) -> list[RpcError | None]:
    """Open the closed ones of these connections side by side: many dead servers take no more time than one.

    Returns for each connection why it could not be opened, or None. `seconds` returns how long connecting may still go on; its
    errors end the connecting. The first servers get at least LAST_CONNECT_SECONDS.
    """
    failures: list[RpcError | None] = [None] * len(connections)
    closed = [place for place, connection in enumerate(connections) if not connection.is_open]
    if not closed:
        return failures

    def open_one(turn: int) -> None:
        left, connection = seconds(), connections[closed[turn]]
        if left <= 0 and turn >= AT_ONCE:
            failures[closed[turn]] = ConnectionFailed(connection.server, "connecting: the time was over before its turn")
            return
        try:
            connection.open(max(left, LAST_CONNECT_SECONDS))
        except (ConnectionFailed, RpcTimeout) as error:
            failures[closed[turn]] = error

    if len(closed) == 1:
        open_one(0)
        return failures
    with ThreadPoolExecutor(min(len(closed), AT_ONCE), thread_name_prefix="connect") as pool:
        for _ in pool.map(open_one, range(len(closed))):
            pass
    return failures


class Share:
    """Limits the calls to each server. A sender may always have one call to a server under way. It may have several side by side
    as long as all senders together have fewer calls there than there are senders.

    So a peer cluster never gets more calls at once than if each sender had work and made one call. Senders without work leave
    their calls to busy senders: with a peer cluster that is far away, or a table of few regions, each answer takes its time.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._senders = 0
        self._held: dict[ServerName, list[int]] = {}

    def join(self) -> None:
        """Note that there is another sender."""
        with self._lock:
            self._senders += 1

    @contextmanager
    def of(self, server: ServerName, wanted: int) -> Iterator[int]:
        """Yield how many of the `wanted` calls to `server` the sender may have under way during the block: at least one."""
        with self._lock:
            held = self._held.setdefault(server, [])
            fair = -(-self._senders // (len(held) + 1))
            mine = max(1, min(wanted, fair, self._senders - sum(held)))
            held.append(mine)
        try:
            yield mine
        finally:
            with self._lock:
                held.remove(mine)
