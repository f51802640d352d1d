"""Sends shipments to the peer cluster: one ReplicateWALEntry request at a time, tried until it is acknowledged or cannot succeed.

parameter  = the shipment's entries: WALEntry messages, each tagged as field 1 of ReplicateWALEntryRequest
cell block = the shipment's cells, as KeyValueCodecWithTags writes them and as an uncompressed WAL contains them
"""

from __future__ import annotations

import logging

from walferry.base.protos.hbase_pb2 import ReplicateWALEntryResponse
from walferry.base.protos.parsing import parse_message
from walferry.base.zk.right import PermittedRequest, Unsure
from walferry.hbase.names import ServerName
from walferry.hbase.rpc.admin import MAX_RESPONSE_BYTES, SERVICE
from walferry.hbase.rpc.connection import Connection
from walferry.hbase.rpc.errors import ConnectionFailed, NotAuthenticated, RemoteError, RpcTimeout
from walferry.replication.sinks.answers import SILENCE_SECONDS
from walferry.replication.sinks.hbase import tries
from walferry.replication.sinks.hbase.action_errors import is_busy
from walferry.replication.sinks.hbase.connections import LAST_CONNECT_SECONDS, connection_to
from walferry.replication.sinks.hbase.manager import NoSinks, SinkManager
from walferry.replication.sinks.hbase.requests import RequestPart
from walferry.replication.sinks.hbase.shipment import Shipment
from walferry.replication.sinks.hbase.tries import HBaseTries
from walferry.replication.sinks.tries import NEVER_TRIED, SendTerms

METHOD = "ReplicateWALEntry"
PASSING = (NoSinks, *tries.PASSING)

log = logging.getLogger(__name__)


class Shipper:
    """Ships over its own connections. Each sender has its own shipper.

    After the nth failure in a row the shipper sleeps for n base sleeps. Each call that timed out gives the next call as much more
    time. The terms' `stop`, once set, ends sleeps; `interrupt` ends the call under way too.
    """

    def __init__(self, sinks: SinkManager, terms: SendTerms) -> None:
        self._sinks = sinks
        self._login = terms.login
        self._clock = terms.clock
        self._tries = HBaseTries(terms, PASSING)
        self._connections: dict[ServerName, Connection] = {}
        self._overdue_at: float | None = None
        self._calling: ServerName | None = None
        self._current: Connection | None = None
        self._in_doubt = False  # whether the last call was sent and its outcome is unknown

    @property
    def calls(self) -> frozenset[ServerName]:
        """The server with a call of ours under way, if there is one."""
        calling = self._calling
        return frozenset() if calling is None else frozenset({calling})

    @property
    def failed_batches(self) -> int:
        """The number of requests that had to be sent again."""
        return self._tries.failed

    def ship(self, shipment: Shipment | RequestPart, deadline: float, expected_seconds: float | None = None) -> ServerName:
        """Send until a server acknowledges; return this server. `deadline` is on the clock, time.monotonic by default.

        A first try that begins before the deadline gets its whole time: a peer cluster that is only slow is not unreachable.
        `expected_seconds` is for a shipment that gives a server much work, and that must not be sent twice while a server works
        on it. Such a call does not time out before the deadline, nor before the expected time. After an ordinary call's time it
        is `overdue`: `look_after_calls` then ends it unless the server still answers.

        While the peer cluster is busy, this waits until the deadline, without counting tries.

        Raises PeerClusterUnreachable when the deadline or the patience with a silent peer cluster is over, Stopped,
        RequestTooLarge, a RemoteError that says that trying again does not help, such as TableNotFound; NotAuthenticated if all
        servers reject the login; and the errors that end the right to send. A shipment that was not acknowledged may have been
        applied all the same.
        """
        count, busy, last_error, answered, in_doubt = 0, 0, NEVER_TRIED, False, False
        call_timeout = self._tries.settings.call_timeout_seconds
        while True:
            self._tries.await_right(deadline)
            left = self._tries.left(deadline, count, last_error, answered=answered)
            count += 1
            if expected_seconds is None:
                timeout = call_timeout if count == 1 else min(left, call_timeout)
            else:
                timeout = max(expected_seconds, left) if count == 1 else left
            try:
                server = self._noted(shipment, timeout, left, expected_seconds)
                if in_doubt:
                    self._tries.settle()
                return server
            except Unsure:  # the right became unsure while connecting
                count -= 1
                continue
            except PASSING as error:
                in_doubt |= self._in_doubt
                if tries.is_hopeless(error):
                    if not (isinstance(error, NotAuthenticated) and error.others_may and self._sinks.has_others):
                        raise
                    log.warning("another server is shipped to: %s", error)
                    last_error = str(error)
                    continue
                if is_busy(error):
                    busy += 1
                    count, last_error, answered = 0, str(error), True
                    self._tries.rest(error, busy, deadline)
                    continue
                last_error, answered = self._tries.last_error(error), isinstance(error, RemoteError)
                call_timeout = self._tries.longer(call_timeout, error, METHOD)
            self._tries.pause(count, deadline, last_error)
            if count % self._tries.settings.subset_tries == 0:
                self._sinks.redraw()

    @property
    def overdue(self) -> bool:
        """Whether the call under way is one that may take longer than ordinary calls, and does."""
        overdue_at = self._overdue_at
        return overdue_at is not None and self._clock() >= overdue_at

    def interrupt(self, why: str | None = None, server: ServerName | None = None) -> None:
        """From another thread: end the call under way, or only a call at `server`. Its error says `why`.

        If `stop` is set, a waiting `ship` ends now, with Stopped. Otherwise `ship` decides whether to try again.
        """
        if server is not None and server != self._calling:
            return
        self._tries.why = why
        connection = self._current
        if connection is not None:
            connection.interrupt()

    def close(self) -> None:
        """Close all connections."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def _noted(self, shipment: Shipment | RequestPart, timeout: float, left: float, expected_seconds: float | None) -> ServerName:
        """Call `_try` and report its outcome."""
        self._overdue_at = None if expected_seconds is None else self._clock() + self._tries.settings.call_timeout_seconds
        try:
            noted, right = self._tries.noted(expected_seconds or SILENCE_SECONDS), self._tries.right
            with noted, right.request(expected_seconds or timeout) as request:
                return self._try(shipment, timeout, left, request)
        finally:
            self._overdue_at = None

    def _try(self, shipment: Shipment | RequestPart, timeout: float, left: float, request: PermittedRequest) -> ServerName:
        """Send one request to one server. Time beyond the deadline (in `left` seconds) is for working, not for connecting."""
        server = self._sinks.choose()
        self._current, self._calling = self._connection(server), server
        self._in_doubt = False
        connecting = max(left, LAST_CONNECT_SECONDS)
        try:
            self._tries.check_stop()
            self._current.begin(
                METHOD, shipment.entries, shipment.cells,  # type: ignore[arg-type]  # an array of bytes is a buffer
                timeout=timeout, connect_timeout=connecting, may_go_on=request.may_go_on,
            )  # fmt: skip
            self._in_doubt = True
            self._current.end(lambda result: parse_message(ReplicateWALEntryResponse, result.message))
        except RemoteError:
            request.answered()
            self._in_doubt = False
            self._sinks.report_bad(server)
            raise
        except (ConnectionFailed, RpcTimeout):
            self._sinks.report_gone(server)
            raise
        finally:
            self._current = self._calling = None
        self._sinks.report_good(server)
        return server

    def _connection(self, server: ServerName) -> Connection:
        for unused in self._connections.keys() - self._sinks.sinks - {server}:
            self._connections.pop(unused).close()
        if server not in self._connections:
            self._connections[server] = connection_to(server, SERVICE, login=self._login, max_response_bytes=MAX_RESPONSE_BYTES)
        return self._connections[server]
