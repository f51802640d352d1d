"""Sends shipments to the slave: one ReplicateWALEntry request at a time, tried until it is acknowledged or there is no hope.

parameter  = the shipment's entries: WALEntry messages, each tagged as field 1 of ReplicateWALEntryRequest
cell block = the shipment's cells, as KeyValueCodecWithTags writes them and as an uncompressed WAL holds them
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from walferry.names import ServerName
from walferry.protos.hbase_pb2 import ReplicateWALEntryResponse
from walferry.rpc.admin import MAX_RESPONSE_BYTES, SERVICE
from walferry.rpc.codec import KEY_VALUE_CODEC_WITH_TAGS, Buffer
from walferry.rpc.connection import Connection
from walferry.rpc.errors import ConnectionFailed, RemoteError, RpcTimeout
from walferry.sinks.answers import SILENCE_SECONDS, Answers
from walferry.sinks.errors import SlaveUnreachable, Stopped
from walferry.sinks.hbase.manager import NoSinks, SinkManager
from walferry.source.knobs import Knobs

METHOD = "ReplicateWALEntry"
CONNECT_SECONDS = 10.0
LAST_CONNECT_SECONDS = 2.0  # for connecting, at least, when the deadline is near
TIMEOUT_GROWTH = 10  # calls that time out again and again get up to this many times the first timeout
PASSING = (NoSinks, ConnectionFailed, RpcTimeout, RemoteError)  # the next try may go better, unless the error says no
NEVER_TRIED = "none: the deadline had passed already"

log = logging.getLogger(__name__)


class Shipment(Protocol):
    """What one request carries; all buffers have one-byte items."""

    @property
    def entries(self) -> Sequence[Buffer]: ...
    @property
    def cells(self) -> Sequence[Buffer]: ...


class Shipper:
    """Ships to `slave` (a name for messages, e.g. its cluster key) over connections of its own: one shipper a lane.

    The nth failure in a row is followed by a sleep of n base sleeps, and each call that timed out gives the next one as much more
    time. `stop`, once set, ends sleeps; `interrupt` ends the call under way too. `wait(seconds)` sleeps and says whether to stop.
    `answers` is told of each try.
    """

    def __init__(
        self,
        slave: str,
        sinks: SinkManager,
        *,
        stop: threading.Event,
        user: str | None = None,
        knobs: Knobs | None = None,
        answers: Answers | None = None,
        clock: Callable[[], float] = time.monotonic,
        wait: Callable[[float], bool] | None = None,
    ) -> None:
        self._slave = slave
        self._sinks = sinks
        self._stop = stop
        self._user = user
        self._knobs = knobs or Knobs()
        self._clock = clock
        self._wait = wait or stop.wait
        self._answers = answers or Answers()
        self._connections: dict[ServerName, Connection] = {}
        self._why: str | None = None  # this side ended the call
        self._overdue_at: float | None = None
        self.calling: ServerName | None = None  # the server that has a call of ours under way
        self._current: Connection | None = None
        self.failed_batches = 0

    def ship(self, shipment: Shipment, deadline: float, expected_seconds: float | None = None) -> ServerName:
        """Send until a server acknowledges; returns which one did. `deadline` is on the clock, time.monotonic by default.

        A first try that begins before the deadline has its whole time: a slave that is only slow is not unreachable.
        `expected_seconds` is for a shipment that gives a server much to do and must not be sent twice while a server works on it.
        Such a call does not time out before the deadline, nor before the expected time. After an ordinary call's time it is
        `overdue`: whoever looks after the calls then ends it unless the server still answers.

        Raises SlaveUnreachable when the deadline or the patience with a silent slave is over, Stopped, RequestTooLarge, and a
        RemoteError that says itself that trying again does not help, such as TableNotFound. A shipment that was not
        acknowledged may have been applied all the same.
        """
        tries, call_timeout, last_error, answered = 0, self._knobs.call_timeout_seconds, NEVER_TRIED, False
        while True:
            if self._stop.is_set():
                raise Stopped(f"told to stop before a shipment to {self._slave} was acknowledged")
            left = deadline - self._clock()
            self._check_hope(left, tries, last_error, answered)
            tries += 1
            if expected_seconds is None:
                timeout = call_timeout if tries == 1 else min(left, call_timeout)
            else:
                timeout = max(expected_seconds, left) if tries == 1 else left
            try:
                return self._told(shipment, timeout, left, expected_seconds)
            except PASSING as error:
                if isinstance(error, RemoteError) and error.do_not_retry:
                    raise
                last_error, self._why = self._why or str(error), None
                answered = isinstance(error, RemoteError)
                if isinstance(error, RpcTimeout) and error.what == METHOD:
                    longest = TIMEOUT_GROWTH * self._knobs.call_timeout_seconds
                    call_timeout = min(call_timeout + self._knobs.call_timeout_seconds, longest)
            self._pause(tries, deadline, last_error)
            if tries % self._knobs.subset_tries == 0:
                self._sinks.redraw()

    @property
    def overdue(self) -> bool:
        """Whether a call that may take longer than ordinary ones does so."""
        overdue_at = self._overdue_at
        return overdue_at is not None and self._clock() >= overdue_at

    def interrupt(self, why: str | None = None) -> None:
        """From another thread: end the call under way, so that it fails as `why` says.

        With `stop` set that ends a waiting `ship` now, with Stopped; otherwise `ship` decides whether to try again.
        """
        self._why = why
        connection = self._current
        if connection is not None:
            connection.interrupt()

    def close(self) -> None:
        """Close all connections."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def _check_hope(self, left: float, tries: int, last_error: str, answered: bool) -> None:
        """Raise SlaveUnreachable if the deadline is over or, after a try, the slave has been silent for too long."""
        patience = self._knobs.patience_seconds
        out_of_patience = tries > 0 and self._answers.silent_seconds >= patience
        if left <= 0 or out_of_patience:
            waited = patience if out_of_patience else None
            raise SlaveUnreachable(
                self._slave, self._answers.since, tries, last_error, patience_seconds=waited, answered=answered
            )

    def _told(self, shipment: Shipment, timeout: float, left: float, expected_seconds: float | None) -> ServerName:
        """Call `_try` and report its outcome to `answers`."""
        self._answers.trying(expected_seconds or SILENCE_SECONDS)
        self._overdue_at = None if expected_seconds is None else self._clock() + self._knobs.call_timeout_seconds
        try:
            server = self._try(shipment, timeout, left)
        except BaseException as error:
            if isinstance(error, RemoteError) and error.do_not_retry:
                self._answers.answered()
            elif isinstance(error, PASSING) and not self._stop.is_set():
                self._answers.failed(self._why or str(error))
            else:
                self._answers.given_up()
            raise
        finally:
            self._overdue_at = None
        self._answers.answered()
        return server

    def _try(self, shipment: Shipment, timeout: float, left: float) -> ServerName:
        """One request to one server. Time beyond the deadline (in `left` seconds) is for a server at work, not for connecting."""
        server = self._sinks.choose()
        self._current, self.calling = self._connection(server), server
        connecting = max(left, LAST_CONNECT_SECONDS)
        try:
            if self._stop.is_set():  # since then `interrupt` may have found no call to end
                raise Stopped(f"told to stop before a shipment to {self._slave} was sent")
            self._current.call(
                METHOD, shipment.entries, ReplicateWALEntryResponse, shipment.cells, timeout=timeout, connect_timeout=connecting
            )
        except RemoteError:
            self._sinks.report_bad(server)
            raise
        except (ConnectionFailed, RpcTimeout):
            self._sinks.report_gone(server)
            raise
        finally:
            self._current = self.calling = None
        self._sinks.report_good(server)
        return server

    def _connection(self, server: ServerName) -> Connection:
        for unused in self._connections.keys() - self._sinks.sinks - {server}:
            self._connections.pop(unused).close()
        if server not in self._connections:
            self._connections[server] = Connection(
                server.host,
                server.port,
                SERVICE,
                user=self._user,
                cell_codec=KEY_VALUE_CODEC_WITH_TAGS,
                connect_timeout=CONNECT_SECONDS,
                max_response_bytes=MAX_RESPONSE_BYTES,
            )
        return self._connections[server]

    def _pause(self, failures: int, deadline: float, last_error: str) -> None:
        """Sleep after the nth failure in a row; not beyond the deadline, nor beyond the patience with the slave."""
        self.failed_batches += 1
        seconds = self._knobs.sleep_seconds * min(failures, self._knobs.retries_multiplier)
        hope = self._knobs.patience_seconds - self._answers.silent_seconds
        seconds = max(0.0, min(seconds, deadline - self._clock(), hope))
        log.info("a shipment to %s failed, trying again in %.1f s: %s", self._slave, seconds, last_error)
        if self._wait(seconds):
            raise Stopped(f"told to stop while a shipment to {self._slave} was not acknowledged; the last error: {last_error}")
