"""Makes the calls of a round side by side, and reports what each call has done and what has failed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from walferry.base.errors import WalferryError
from walferry.base.kernels.types import Ints
from walferry.base.security.login import Login
from walferry.base.zk.right import PermittedRequest, Right, Unsure
from walferry.hbase.names import ServerName
from walferry.hbase.rpc.client import SERVICE
from walferry.hbase.rpc.connection import Connection, first_to_answer
from walferry.hbase.rpc.errors import ProtocolError, RemoteError, RpcError
from walferry.replication.sinks.errors import Stopped
from walferry.replication.sinks.hbase import tries
from walferry.replication.sinks.hbase.action_errors import action_error, is_final, is_too_many
from walferry.replication.sinks.hbase.actions import Actions
from walferry.replication.sinks.hbase.connections import Share, connection_to, open_all
from walferry.replication.sinks.hbase.multi import METHOD, ActionOutcome, Multi, MultiResult, assemble_multi, read_result
from walferry.replication.sinks.hbase.rounds import Call, done_in

# Each failed action brings a stack trace, and a Multi may contain thousands of actions.
MAX_RESPONSE_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True)
class CallEnded:
    """The result of a call."""

    call: Call
    done: Ints  # the actions that need not be sent again
    errors: list[WalferryError]
    in_doubt: bool = False  # the server may still carry out the call

    @property
    def too_many(self) -> bool:
        """Whether the server has refused the call because of the number of its actions."""
        return not self.done.size and any(map(is_too_many, self.errors))


@dataclass(eq=False, repr=False)
class _Line:
    """A connection to a server, over which the waiting calls go one after the other."""

    server: ServerName
    connection: Connection
    waiting: deque[Call]  # shared by all lines to the server
    call: Call = field(init=False)
    multi: Multi = field(init=False)
    request: PermittedRequest = field(init=False)


class Calls:
    """The calls of one sender, over lasting connections. Other threads may only call `interrupt`, `close` and `servers`."""

    def __init__(self, login: Login, check_stop: Callable[[], None], share: Share, right: Right | None = None) -> None:
        self._right = right or Right()
        self._login = login
        self._check_stop = check_stop  # raises Stopped
        self._share = share
        self._connections: dict[ServerName, list[Connection]] = {}
        self._under_way: dict[Connection, ServerName] = {}

    @property
    def servers(self) -> frozenset[ServerName]:
        """The servers with calls under way."""
        return frozenset(self._under_way.copy().values())

    def make(self, actions: Actions, calls: Sequence[Call], timeout: float, connecting: Callable[[], float]) -> list[CallEnded]:
        """Make the calls. Calls to one server go side by side as far as the sender's share of the server allows.

        Returns when no call is under way any more. After a call has failed, wholly or in part, no other call to its server
        begins. Once the sender is to stop, or must not send for the moment, no call begins at all. `connecting` returns how long
        connecting may still take, and raises Stopped. Raises Stopped or Unsure if no call was begun.
        """
        waiting: dict[ServerName, deque[Call]] = {}
        for call in calls:
            waiting.setdefault(call.server, deque()).append(call)
        with ExitStack() as stack:
            lines = [
                _Line(server, connection, of_server)
                for server, of_server in waiting.items()
                for connection in self._connections_to(server, stack.enter_context(self._share.of(server, len(of_server))))
            ]
            self._under_way.update({line.connection: line.server for line in lines})
            try:
                return self._make(actions, lines, timeout, connecting)
            finally:
                self._under_way.clear()

    def _make(self, actions: Actions, lines: Sequence[_Line], timeout: float, connecting: Callable[[], float]) -> list[CallEnded]:
        ended: list[CallEnded] = []
        begun: list[_Line] = []
        try:
            failures = open_all([line.connection for line in lines], lambda: min(connecting(), timeout))
            for line, failure in zip(lines, failures, strict=True):
                self._begin(actions, line, timeout, begun, ended, failure)
            while begun:
                line = begun.pop(first_to_answer([line.connection for line in begun]))
                ended.append(self._end(actions, line))
                self._begin(actions, line, timeout, begun, ended)
            if lines and not ended:
                self._check_stop()
                raise Unsure
        finally:
            for line in begun:
                line.connection.close()
                line.request.cut()
        return ended

    def _begin(
        self, actions: Actions, line: _Line, timeout: float, begun: list[_Line], ended: list[CallEnded],
        problem: RpcError | None = None,
    ) -> None:  # fmt: skip
        """Begin the next call to a line's server, if one waits. With a `problem` the call ends at once."""
        if not line.waiting or self._stopped():
            self._under_way.pop(line.connection, None)
            return
        line.call = line.waiting.popleft()
        try:
            if problem is not None:
                raise problem
            line.multi = assemble_multi(actions, line.call.groups)
            self._send(line, timeout)
            begun.append(line)
        except Unsure:
            self._under_way.pop(line.connection, None)
        except tries.PASSING as error:
            ended.append(self._failed(line, error))

    def _send(self, line: _Line, timeout: float) -> None:
        line.request = self._right.begin(timeout)
        try:
            line.connection.begin(
                METHOD, line.multi.param.data, [line.multi.cells.data], timeout=timeout, may_go_on=line.request.may_go_on
            )
        except BaseException:
            line.request.cut()
            raise

    def _end(self, actions: Actions, line: _Line) -> CallEnded:
        """Wait for the answer on a line."""
        try:
            result = line.connection.end(lambda answer: read_result(line.multi, answer.message))
            line.request.answered()
            reported = _reported(actions, line, result)
        except tries.PASSING as error:
            if isinstance(error, RemoteError):
                line.request.answered()
            return replace(self._failed(line, error), in_doubt=not isinstance(error, RemoteError))
        finally:
            line.request.cut()
        if reported.errors:
            line.waiting.clear()
        return reported

    def _stopped(self) -> bool:
        try:
            self._check_stop()
        except Stopped:
            return True
        return False

    def interrupt(self, server: ServerName | None, before: Callable[[], None]) -> None:
        """From another thread: end the calls under way, or only those at `server`. If there are any, call `before` first."""
        ended = [connection for connection, at in self._under_way.copy().items() if server in (None, at)]
        if ended:
            before()
        for connection in ended:
            connection.interrupt()

    def close_but(self, servers: Collection[ServerName]) -> None:
        """Close the connections to all servers but these."""
        for server in self._connections.keys() - servers:
            for connection in self._connections.pop(server, ()):  # the sender may have closed them first
                connection.close()

    def close(self) -> None:
        """From another thread: close all idle connections. The sender closes the others when their calls fail."""
        for connections in self._connections.copy().values():
            for connection in connections:
                if connection not in self._under_way:
                    connection.close()

    def _failed(self, line: _Line, error: WalferryError) -> CallEnded:
        """Return the result of a call that raised an error. A server that is gone gets a new connection if it comes back."""
        self._under_way.pop(line.connection, None)
        line.waiting.clear()
        if isinstance(error, RemoteError):
            error.do_not_retry = is_final(error)
        else:
            line.connection.close()
        return CallEnded(line.call, line.call.actions[:0], [error])

    def _connections_to(self, server: ServerName, count: int) -> list[Connection]:
        known = self._connections.setdefault(server, [])
        while len(known) < count:
            known.append(connection_to(server, SERVICE, login=self._login, max_response_bytes=MAX_RESPONSE_BYTES))
        return known[:count]


def _reported(actions: Actions, line: _Line, result: MultiResult) -> CallEnded:
    """Return the result that the server's answer gives, with each kind of error once."""
    server = f"{line.server.host}:{line.server.port}"
    errors: dict[str, WalferryError] = {}
    unclear: list[WalferryError] = []
    for encoded in result.exceptions:
        try:
            error = action_error(server, encoded)
            errors.setdefault(error.class_name, error)
        except ProtocolError as unreadable:  # the round's other answers still count
            unclear = [unreadable]
    if missing := int((result.outcome == ActionOutcome.NOTHING).sum()):
        unclear.append(ProtocolError(server, f"{METHOD}: no result for {missing} of {result.outcome.size} actions"))
    return CallEnded(line.call, done_in(actions, line.multi, result), [*errors.values(), *unclear])
