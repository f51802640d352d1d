"""Sending shipments to the slave: one ReplicateWALEntry request at a time, tried until acknowledged or the deadline.

parameter  = the shipment's entries: WALEntry messages, each tagged as field 1 of ReplicateWALEntryRequest
cell block = the shipment's cells, as KeyValueCodecWithTags writes them and as an uncompressed WAL holds them
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from walferry.errors import WalferryError
from walferry.names import ServerName
from walferry.protos.hbase_pb2 import ReplicateWALEntryResponse
from walferry.rpc.admin import SERVICE
from walferry.rpc.codec import KEY_VALUE_CODEC_WITH_TAGS, Buffer
from walferry.rpc.connection import CALL_TIMEOUT_SECONDS, CONNECT_TIMEOUT_SECONDS, Connection
from walferry.rpc.errors import ConnectionFailed, RemoteError, RpcTimeout
from walferry.sinks.hbase.answers import SILENCE_S, Answers
from walferry.sinks.hbase.manager import NoSinks, SinkManager

METHOD = "ReplicateWALEntry"
LAST_CONNECT_S = 2.0  # for connecting, at least, when the deadline is near
_log = logging.getLogger(__name__)


class Shipment(Protocol):
    """What is sent in one request; one-byte items in all buffers."""

    @property
    def entries(self) -> Sequence[Buffer]: ...
    @property
    def cells(self) -> Sequence[Buffer]: ...


class SlaveUnreachable(WalferryError):
    """No RegionServer of `slave` acknowledged a shipment until the deadline, in `tries` tries; `last_error` is the last one's."""

    def __init__(self, slave: str, tries: int, last_error: str) -> None:
        super().__init__(
            f"slave {slave} acknowledged nothing until the deadline, in {tries} tries; the last: {last_error}",
            "The backlog is kept: run again when the slave is up, or raise the deadline",
        )
        self.slave = slave
        self.tries = tries
        self.last_error = last_error


class ShippingStopped(Exception):
    """The run was told to stop while a shipment was not yet acknowledged."""


@dataclass(frozen=True, kw_only=True)
class Retries:
    """How hard a shipment is tried. The nth failure with one subset is followed by a sleep of n times `sleep_s`."""

    tries: int = 10  # with one subset of the slave's servers, before another is drawn
    sleep_s: float = 1.0  # replication.source.sleepforretries
    connect_timeout_s: float = CONNECT_TIMEOUT_SECONDS
    call_timeout_s: float = CALL_TIMEOUT_SECONDS  # replication.source.shipedits.timeout
    max_call_timeout_s: float = 10 * CALL_TIMEOUT_SECONDS  # each call that timed out lets the next take as much longer


class Shipper:
    """Ships to `slave` (a name for messages, e.g. its cluster key) over connections of its own: one shipper a lane.

    `stop`, once set, ends sleeps; `interrupt` ends the call under way too. `wait(seconds)` sleeps and says whether to stop.
    `answers` is told of each try.
    """

    def __init__(
        self,
        slave: str,
        sinks: SinkManager,
        *,
        stop: threading.Event,
        user: str | None = None,
        retries: Retries | None = None,
        answers: Answers | None = None,
        clock: Callable[[], float] = time.monotonic,
        wait: Callable[[float], bool] | None = None,
    ) -> None:
        self._slave = slave
        self._sinks = sinks
        self._stop = stop
        self._user = user
        self._retries = retries or Retries()
        self._clock = clock
        self._wait = wait or stop.wait
        self._answers = answers or Answers()
        self._connections: dict[ServerName, Connection] = {}
        self._why: str | None = None  # a call was ended from here
        self.calling: ServerName | None = None  # that has a call of ours under way
        self._current: Connection | None = None
        self.failed_batches = 0

    def ship(self, shipment: Shipment, deadline: float, first_timeout: float | None = None) -> ServerName:
        """Send until a server acknowledges; returns which one did. `deadline` is on the clock, time.monotonic by default.

        `first_timeout`: seconds that a server has at the first try, for a shipment that gives it much to do. A first try that
        begins before the deadline has its whole time: a slave that is only slow is not unreachable.
        Raises SlaveUnreachable at the deadline, ShippingStopped, RequestTooLarge, and a RemoteError that says itself that
        a retry is of no use, such as TableNotFound. A shipment that was not acknowledged may have been applied all the same.
        """
        tries, call_timeout = 0, first_timeout or self._retries.call_timeout_s
        last_error = "none: the deadline had passed already"
        while True:
            for failures in range(1, self._retries.tries + 1):
                if self._stop.is_set():
                    raise ShippingStopped(f"told to stop before a shipment to {self._slave} was acknowledged")
                left = deadline - self._clock()
                if left <= 0:
                    raise SlaveUnreachable(self._slave, tries, last_error)
                tries += 1
                try:
                    self._answers.trying(first_timeout or SILENCE_S)
                    server = self._try(shipment, call_timeout if tries == 1 else min(left, call_timeout), left)
                    self._answers.answered()
                    return server
                except (NoSinks, ConnectionFailed, RpcTimeout, RemoteError) as e:
                    if isinstance(e, RemoteError) and e.do_not_retry:
                        self._answers.answered()
                        raise
                    last_error, self._why = self._why or str(e), None
                    if self._stop.is_set():
                        self._answers.given_up()
                    else:
                        self._answers.failed(last_error)
                    if isinstance(e, RpcTimeout) and e.what == METHOD:
                        longest = max(self._retries.max_call_timeout_s, first_timeout or 0)
                        call_timeout = min(call_timeout + self._retries.call_timeout_s, longest)
                except BaseException:
                    self._answers.given_up()
                    raise
                self._pause(failures, deadline, last_error)
            self._sinks.redraw()

    def interrupt(self, why: str | None = None) -> None:
        """From another thread: end the call under way, so that it fails as `why` says.

        With `stop` set that ends a waiting `ship` now, with ShippingStopped; after the deadline with SlaveUnreachable.
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

    def _try(self, shipment: Shipment, timeout: float, left: float) -> ServerName:
        """The time beyond the deadline, in `left` seconds, is for a server that works on the call, not for finding one."""
        server = self._sinks.choose()
        self._current, self.calling = self._connection(server), server
        connecting = max(left, LAST_CONNECT_S)
        try:
            if self._stop.is_set():  # since then `interrupt` may have found no call to end
                raise ShippingStopped(f"told to stop before a shipment to {self._slave} was sent")
            self._current.call(
                METHOD, shipment.entries, ReplicateWALEntryResponse, shipment.cells, timeout=timeout, connect_timeout=connecting
            )
        except (ConnectionFailed, RpcTimeout, RemoteError):
            self._sinks.report_bad(server)
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
                connect_timeout=self._retries.connect_timeout_s,
            )
        return self._connections[server]

    def _pause(self, failures: int, deadline: float, last_error: str) -> None:
        self.failed_batches += 1
        seconds = max(0.0, min(self._retries.sleep_s * failures, deadline - self._clock()))
        _log.info("a shipment to %s failed, trying again in %.1f s: %s", self._slave, seconds, last_error)
        if self._wait(seconds):
            raise ShippingStopped(
                f"told to stop while a shipment to {self._slave} was not acknowledged; the last error: {last_error}"
            )
