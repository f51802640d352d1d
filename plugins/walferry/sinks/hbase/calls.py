"""Makes the calls of a round side by side, and tells of each what it has done and what has failed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial

from walferry.errors import WalferryError
from walferry.kernels.read import Ints
from walferry.names import ServerName
from walferry.rpc.client import SERVICE
from walferry.rpc.codec import Result
from walferry.rpc.connection import Connection, first_to_answer
from walferry.rpc.errors import ProtocolError, RemoteError
from walferry.security.login import Login
from walferry.sinks.hbase import tries
from walferry.sinks.hbase.action_errors import action_error, is_final, is_too_many
from walferry.sinks.hbase.actions import Actions
from walferry.sinks.hbase.connections import connection_to, open_all
from walferry.sinks.hbase.multi import METHOD, Multi, MultiResult, Outcome, read_result
from walferry.sinks.hbase.rounds import Call, done_in

# Each failed action brings a stack trace, and a Multi may have thousands.
MAX_RESPONSE_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True)
class Ended:
    """What has become of a call."""

    call: Call
    done: Ints  # the actions that need not be sent again
    errors: list[WalferryError]

    @property
    def too_many(self) -> bool:
        """Whether the server has refused the call because of the number of its actions."""
        return not self.done.size and any(map(is_too_many, self.errors))


class Calls:
    """The calls of one lane, over connections that stay. Only `interrupt` and `servers` are for other threads too."""

    def __init__(self, login: Login, check_stop: Callable[[], None]) -> None:
        self._login = login
        self._check_stop = check_stop  # raises Stopped
        self._connections: dict[ServerName, Connection] = {}
        self._under_way: dict[ServerName, Connection] = {}

    @property
    def servers(self) -> frozenset[ServerName]:
        """The servers that have calls under way."""
        return frozenset(self._under_way.copy())

    @property
    def connected(self) -> frozenset[ServerName]:
        """The servers that there are connections to."""
        return frozenset(self._connections)

    def make(self, actions: Actions, calls: Sequence[Call], timeout: float, connecting: Callable[[], float]) -> list[Ended]:
        """Make the calls. Returns when none is under way any more. `connecting` tells how long connecting may still take, and
        raises Stopped."""
        ended: list[Ended] = []
        begun: list[tuple[Call, Connection]] = []
        try:
            for call in calls:
                self._under_way[call.server] = self._connection(call.server)
            failures = open_all([self._under_way[call.server] for call in calls], lambda: min(connecting(), timeout))
            for call, failure in zip(calls, failures, strict=True):
                self._check_stop()
                connection, problem = self._under_way[call.server], failure
                try:
                    if problem is None:
                        connection.begin(METHOD, call.multi.param.data, [call.multi.cells.data], timeout=timeout)
                        begun.append((call, connection))
                except tries.PASSING as error:
                    problem = error
                if problem is not None:
                    ended.append(self._failed(call, problem))
            while begun:
                at = first_to_answer([connection for _, connection in begun])
                call, connection = begun[at]
                try:
                    ended.append(_told(actions, call, connection.end(partial(_read, call.multi))))
                    self._under_way.pop(call.server, None)
                except tries.PASSING as error:
                    ended.append(self._failed(call, error))
                del begun[at]
        finally:
            for _, connection in begun:
                connection.close()
            self._under_way.clear()
        return ended

    def interrupt(self, server: ServerName | None, before: Callable[[], None]) -> None:
        """From another thread: end the calls under way, or only the one at `server`. Calls `before` first if there are any."""
        ended = [connection for at, connection in self._under_way.copy().items() if server in (None, at)]
        if ended:
            before()
        for connection in ended:
            connection.interrupt()

    def close_but(self, servers: Collection[ServerName]) -> None:
        """Close the connections to all other servers."""
        for server in self._connections.keys() - servers:
            self._drop(server)

    def _failed(self, call: Call, error: WalferryError) -> Ended:
        """A call has ended with an error. A server that is gone gets a new connection if it comes back."""
        self._under_way.pop(call.server, None)
        if isinstance(error, RemoteError):
            error.do_not_retry = is_final(error)
        else:
            self._drop(call.server)
        return Ended(call, call.multi.order[:0], [error])

    def _drop(self, server: ServerName) -> None:
        """Close the connection to a server, if there is one: the end of the lane may have come first."""
        if (connection := self._connections.pop(server, None)) is not None:
            connection.close()

    def _connection(self, server: ServerName) -> Connection:
        connection = self._connections.get(server)
        if connection is None:
            connection = self._connections[server] = connection_to(
                server, SERVICE, login=self._login, max_response_bytes=MAX_RESPONSE_BYTES
            )
        return connection


def _read(multi: Multi, result: Result) -> MultiResult:
    return read_result(multi, result.message)


def _told(actions: Actions, call: Call, result: MultiResult) -> Ended:
    """What a result tells: each kind of error once."""
    server = f"{call.server.host}:{call.server.port}"
    errors: dict[str, WalferryError] = {}
    unclear: list[WalferryError] = []
    for encoded in result.exceptions:
        try:
            error = action_error(server, encoded)
            errors.setdefault(error.class_name, error)
        except ProtocolError as unreadable:  # what else the round's answers say is true all the same
            unclear = [unreadable]
    if missing := int((result.outcome == Outcome.NOTHING).sum()):
        unclear.append(ProtocolError(server, f"{METHOD}: no result for {missing} of {result.outcome.size} actions"))
    return Ended(call, done_in(actions, call.multi, result), [*errors.values(), *unclear])
