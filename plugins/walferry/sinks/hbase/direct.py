"""Sends shipments to the slave's regions themselves: what a RegionServer's sink would do with a shipment, done here.

    shipment  →  row mutations (actions)  →  a Multi to each server that has some of them (rounds)  →  a result for each action

The slave writes what it gets straight into its regions. With ReplicateWALEntry a RegionServer of the slave takes the shipment
apart and sends the mutations on, which costs the slave about as much again.

The calls have no priority of their own, so they wait in the queue of the slave's users, as do the mutations that a sink sends on.
The queue of replication has three handlers by default, which HBase's own sources need.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import numpy as np
from kazoo.exceptions import NoAuthError

from walferry.errors import WalferryError
from walferry.kernels.read import Ints
from walferry.names import ServerName
from walferry.rpc.client import SERVICE
from walferry.rpc.codec import KEY_VALUE_CODEC_WITH_TAGS, Result
from walferry.rpc.connection import Connection, first_to_answer
from walferry.rpc.errors import (
    MAX_MESSAGE_CHARS,
    MAX_TABLE_CHARS,
    ColumnFamilyNotFound,
    ProtocolError,
    RemoteError,
    RequestTooLarge,
    TableNotFound,
)
from walferry.sinks.answers import Answers
from walferry.sinks.hbase import tries
from walferry.sinks.hbase.action_errors import action_error, is_final, is_too_many
from walferry.sinks.hbase.actions import ActionRow, Actions, ShipmentUnfit, find_actions
from walferry.sinks.hbase.locations import Locations, LocationsUnknown
from walferry.sinks.hbase.multi import METHOD, Multi, MultiResult, Outcome, read_result
from walferry.sinks.hbase.rounds import MAX_ACTIONS, Call, Places, calls_of_round, done_in
from walferry.sinks.hbase.shipment import Shipment
from walferry.sinks.hbase.tries import CONNECT_SECONDS, LAST_CONNECT_SECONDS, NEVER_TRIED, Tries
from walferry.source.knobs import Knobs
from walferry.tables.errors import MissingTable, RegionUnavailable, TooManyRegions
from walferry.texts import one_line

PASSING = (LocationsUnknown, RegionUnavailable, *tries.PASSING)
# Each failed action brings a stack trace, and a Multi may have thousands.
MAX_RESPONSE_BYTES = 64 * 1024 * 1024
_BUSY = frozenset({"RegionTooBusyException", "RpcThrottlingException", "CallQueueTooBigException", "CallDroppedException"})


class DirectRefused(WalferryError):
    """The slave does not let the user write to its regions, or cannot do it. Another kind of sink may work."""


@dataclass
class _Work:
    """A shipment on its way."""

    actions: Actions
    left: Ints  # the actions that are not acknowledged, in their order
    seconds: Callable[[], float]  # how long it may still take to reach hbase:meta and the servers. Raises Stopped
    places: Places | None = None  # of these; None: not looked up yet
    wrong: frozenset[int] = frozenset()  # the tables whose regions may not be where they are taken to be

    def take(self, done: Sequence[Ints], failed: Sequence[Ints]) -> None:
        """Some actions are done; the tables of others are to be looked up again."""
        gone = np.isin(self.left, np.concatenate([*done, self.left[:0]]))
        self.left = self.left[~gone]
        self.places = self.places and self.places.but(gone)
        tables = self.actions.of(ActionRow.TABLE)
        self.wrong = frozenset(int(table) for some in failed for table in np.unique(tables[some]))

    def whereabouts(self) -> set[tuple[bytes, ServerName | None]]:
        """The regions of what is left, and their servers."""
        return {(region.name, region.server) for region in self.places.regions().values()} if self.places else set()


class DirectShipper:
    """Ships to the regions of `slave` (a name for messages) over connections of its own: one shipper a lane.

    All lanes share the `locations`. Retries, sleeps, timeouts and `answers` are as a Shipper has them; a try is a round.
    """

    def __init__(
        self,
        slave: str,
        locations: Locations,
        *,
        stop: threading.Event,
        user: str | None = None,
        knobs: Knobs | None = None,
        answers: Answers | None = None,
        clock: Callable[[], float] = time.monotonic,
        wait: Callable[[float], bool] | None = None,
    ) -> None:
        self._locations = locations
        self._user = user
        self._tries = Tries(slave, stop=stop, knobs=knobs, answers=answers, clock=clock, wait=wait, passing=PASSING)
        self._most = MAX_ACTIONS  # of a request; fewer once the slave has refused as many
        self._connections: dict[ServerName, Connection] = {}
        self._under_way: dict[ServerName, Connection] = {}

    overdue = False  # no call may take longer than an ordinary one

    @property
    def calls(self) -> frozenset[ServerName]:
        """The servers that have calls of ours under way."""
        return frozenset(self._under_way.copy())

    @property
    def failed_batches(self) -> int:
        """Rounds after which something had to be sent again."""
        return self._tries.failed

    def ship(self, shipment: Shipment, deadline: float) -> None:
        """Send until every action is acknowledged. `deadline` is on the clock.

        Raises SlaveUnreachable when the deadline or the patience with a silent slave is over; Stopped; ShipmentUnfit;
        TableNotFound or ColumnFamilyNotFound for what the slave lacks; and DirectRefused. A shipment that was not acknowledged
        may have been applied all the same, or a part of it.
        """
        actions = find_actions(shipment)
        work = _Work(actions, np.arange(len(actions)), self._seconds(deadline))
        failures, last_error, answered, jumped = 0, NEVER_TRIED, False, False
        call_timeout = self._tries.knobs.call_timeout_seconds
        while work.left.size:
            left = self._tries.left(deadline, failures, last_error, answered=answered)
            before = work.left.size
            error = self._try(work, call_timeout if failures == 0 else min(left, call_timeout))
            if work.left.size < before:
                failures = 0
            if error is None:
                continue
            failures += 1
            last_error, answered = self._tries.last_error(error), isinstance(error, RemoteError | RegionUnavailable)
            call_timeout = self._tries.longer(call_timeout, error, METHOD)
            self._tries.left(deadline, failures, last_error, answered=answered)  # before a look-up, which a silent slave prolongs
            wrong = work.wrong
            jumped = not jumped and not isinstance(error, LocationsUnknown) and self._have_moved(work)
            if jumped:  # where the rows are now, nothing has been tried yet
                self._tries.failed += 1
            else:
                self._tries.pause(failures, deadline, last_error)
                work.wrong = wrong

    def interrupt(self, why: str | None = None, server: ServerName | None = None) -> None:
        """From another thread: end the calls under way, or only the one at `server`, so that they fail as `why` says."""
        ended = [connection for at, connection in self._under_way.copy().items() if server in (None, at)]
        if ended:
            self._tries.why = why
        for connection in ended:
            connection.interrupt()

    def close(self) -> None:
        """Close all connections. Calls of a lane that has not ended yet fail, and the lane closes theirs."""
        self.interrupt()
        for server in self._connections.keys() - self.calls:
            self._drop(server)

    def _seconds(self, deadline: float) -> Callable[[], float]:
        """What is left of a shipment's time for reaching servers: some seconds at least, however near the deadline is."""
        least = self._tries.clock() + LAST_CONNECT_SECONDS

        def left() -> float:
            self._tries.check_stop()
            return max(self._tries.hope(deadline), least - self._tries.clock())

        return left

    def _try(self, work: _Work, timeout: float) -> WalferryError | None:
        """One round. Returns the error because of which some of it has to be sent again; None if there is none."""
        try:
            with self._tries.told():
                return self._round(work, timeout, work.seconds)
        except MissingTable as error:
            problem = one_line(str(error), MAX_MESSAGE_CHARS)
            raise TableNotFound(self._tries.slave, "TableNotFoundException", problem, True, table=error.table) from None
        except RequestTooLarge as error:
            raise ShipmentUnfit(str(error)) from error
        except TooManyRegions as error:
            raise DirectRefused(str(error)) from error
        except NoAuthError as error:
            raise DirectRefused(f"the znode that tells where hbase:meta is may not be read ({error!r})") from error
        except PASSING as error:
            if not isinstance(error, RemoteError) or not error.do_not_retry:
                return error
            if isinstance(error, TableNotFound | ColumnFamilyNotFound):
                raise
            raise DirectRefused(str(error)) from error

    def _round(self, work: _Work, timeout: float, connecting: Callable[[], float]) -> WalferryError | None:
        """Send what can be sent, and take what is done off `work`. Returns an error because of which a part has to be sent again;
        raises it if nothing was acknowledged, or if trying again does not help."""
        places = self._placed(work)
        done: list[Ints] = []
        failed: list[Ints] = []
        errors: list[WalferryError] = []
        calls = calls_of_round(work.actions, work.left, places, self._most)
        refused: list[int] = []
        for call, answer in self._answers_to(calls, timeout, connecting):
            if not isinstance(answer, MultiResult) and is_too_many(answer):
                refused.append(call.multi.order.size)
                continue
            theirs = _errors_in(call, answer) if isinstance(answer, MultiResult) else [answer]
            done.append(done_in(work.actions, call.multi, answer) if isinstance(answer, MultiResult) else work.left[:0])
            if not all(map(_is_busy, theirs)):
                failed.append(np.setdiff1d(call.multi.order, done[-1]))
            errors += theirs
        if (homeless := work.left[places.homeless()]).size:
            failed.append(homeless)
            errors.append(_no_server(work.actions, int(homeless[0])))
        work.take(done, failed)
        if final := next((error for error in errors if isinstance(error, RemoteError) and error.do_not_retry), None):
            raise final
        if refused:
            self._send_fewer(refused)
        if errors and not any(some.size for some in done):
            raise errors[0]
        return errors[0] if errors else None

    def _send_fewer(self, refused: Sequence[int]) -> None:
        """The slave has refused requests with so many actions: from now on none has more than half as many."""
        if max(refused) > self._most or min(refused) == 1:
            raise ShipmentUnfit(f"the slave refuses a request of {max(refused)} actions that change one row")
        self._most = min(refused) // 2
        self._tries.failed += 1

    def _placed(self, work: _Work) -> Places:
        """Where the actions are to go; looked up, if that is not known or has turned out wrong. Raises as Locations.of."""
        if work.places is None or work.wrong:
            old = work.places.maps if work.places else None
            maps = [
                self._locations.of(table, old[i] if old and i in work.wrong else None, work.seconds)
                for i, table in enumerate(work.actions.tables)
            ]
            work.places, work.wrong = Places.of(work.actions, work.left, maps), frozenset()
            for server in self._connections.keys() - self._locations.servers:
                self._drop(server)
        return work.places

    def _have_moved(self, work: _Work) -> bool:
        """Look up again what has turned out wrong; returns whether anything is elsewhere now."""
        before = work.whereabouts()
        with suppress(MissingTable, TooManyRegions, NoAuthError, *PASSING):  # the next round comes upon it
            self._placed(work)
        return work.whereabouts() != before

    def _answers_to(
        self, calls: Sequence[Call], timeout: float, connecting: Callable[[], float]
    ) -> list[tuple[Call, MultiResult | WalferryError]]:
        """Make the calls side by side. Returns when none is under way any more.

        They are begun one after the other. What the time for connecting does not suffice for is left out.
        """
        answers: list[tuple[Call, MultiResult | WalferryError]] = []
        begun: list[tuple[Call, Connection]] = []
        try:
            for call in calls:
                if (left := connecting()) <= 0 and (begun or answers):
                    break
                connection = self._under_way[call.server] = self._connection(call.server)
                self._tries.check_stop()
                param, cells = call.multi.param.data, call.multi.cells.data
                try:
                    connection.begin(METHOD, param, [cells], timeout=timeout, connect_timeout=max(left, LAST_CONNECT_SECONDS))
                    begun.append((call, connection))
                except tries.PASSING as error:
                    answers.append((call, self._failed(call, error)))
            while begun:
                at = first_to_answer([connection for _, connection in begun])
                call, connection = begun[at]
                try:
                    answers.append((call, connection.end(partial(_read, call.multi))))
                    self._under_way.pop(call.server, None)
                except tries.PASSING as error:
                    answers.append((call, self._failed(call, error)))
                del begun[at]
        finally:
            for _, connection in begun:
                connection.close()
            self._under_way.clear()
        return answers

    def _failed(self, call: Call, error: WalferryError) -> WalferryError:
        """A call has ended with an error. A server that is gone gets a new connection if it comes back."""
        self._under_way.pop(call.server, None)
        if isinstance(error, RemoteError):
            error.do_not_retry = is_final(error)
        else:
            self._drop(call.server)
        return error

    def _drop(self, server: ServerName) -> None:
        """Close the connection to a server, if there is one: `close` may have come first."""
        if (connection := self._connections.pop(server, None)) is not None:
            connection.close()

    def _connection(self, server: ServerName) -> Connection:
        connection = self._connections.get(server)
        if connection is None:
            connection = self._connections[server] = Connection(
                server.host,
                server.port,
                SERVICE,
                user=self._user,
                cell_codec=KEY_VALUE_CODEC_WITH_TAGS,
                connect_timeout=CONNECT_SECONDS,
                max_response_bytes=MAX_RESPONSE_BYTES,
            )
        return connection


def _read(multi: Multi, result: Result) -> MultiResult:
    return read_result(multi, result.message)


def _errors_in(call: Call, result: MultiResult) -> list[WalferryError]:
    """The errors that a result tells of, each kind once."""
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
    return [*errors.values(), *unclear]


def _is_busy(error: WalferryError) -> bool:
    """Whether a server has refused something for now that it could do in principle: its regions are where they were."""
    return isinstance(error, RemoteError) and error.class_name.rpartition(".")[2] in _BUSY


def _no_server(actions: Actions, action: int) -> RegionUnavailable:
    table = one_line(actions.tables[int(actions.of(ActionRow.TABLE)[action])].decode(), MAX_TABLE_CHARS)
    return RegionUnavailable(f"no server of the slave has the region of row {actions.key(action)[:100]!r} of table {table}")
