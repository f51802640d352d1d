"""The connections of a sender to the slave's RegionServers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from walferry.base.security.login import Login
from walferry.hbase.names import ServerName
from walferry.hbase.rpc.codec import KEY_VALUE_CODEC_WITH_TAGS
from walferry.hbase.rpc.connection import Connection
from walferry.hbase.rpc.errors import ConnectionFailed, RpcError, RpcTimeout

CONNECT_SECONDS = 10.0
LAST_CONNECT_SECONDS = 2.0  # for connecting, at least, when the deadline is near
AT_ONCE = 16  # servers that a sender connects to side by side


def connection_to(server: ServerName, service: str, *, login: Login, max_response_bytes: int) -> Connection:
    """A connection to a service of a server that takes cells. It is not open yet."""
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
    """Open those that are not open, side by side: servers that are gone take no more time than one of them does.

    Returns why each could not be opened, or None. `seconds` tells how long connecting may still go on, and what it raises ends
    it. The first servers get LAST_CONNECT_SECONDS at least.
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
