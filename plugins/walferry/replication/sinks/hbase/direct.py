"""Sends shipments to the slave's regions themselves: what a RegionServer's sink would do with a shipment, done here.

    shipment  →  row mutations (actions)  →  Multis to the servers that have them (rounds)  →  a result for each action

The slave writes what it gets straight into its regions. With ReplicateWALEntry a RegionServer of the slave takes the shipment
apart and sends the mutations on, which costs the slave about as much again.

The calls have no priority of their own, so they wait in the queue of the slave's users, as do the mutations that a sink sends on.
The queue of replication has three handlers by default, which HBase's own sources need.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import numpy as np
from kazoo.exceptions import NoAuthError

from walferry.base.errors import WalferryError
from walferry.base.kernels.read import Ints
from walferry.base.texts import one_line
from walferry.base.zk.right import Unsure
from walferry.hbase.names import ServerName
from walferry.hbase.rpc.errors import (
    MAX_TABLE_CHARS,
    CellTooLarge,
    ColumnFamilyNotFound,
    NotAuthenticated,
    RemoteError,
    RequestTooLarge,
    TableNotFound,
)
from walferry.hbase.tables.errors import MissingTable, RegionUnavailable, TooManyRegions
from walferry.replication.sinks.hbase import tries
from walferry.replication.sinks.hbase.action_errors import is_busy, is_throttled, is_unsound
from walferry.replication.sinks.hbase.actions import ActionRow, Actions, ShipmentUnfit, find_actions, pieces
from walferry.replication.sinks.hbase.calls import CallEnded, Calls
from walferry.replication.sinks.hbase.connections import LAST_CONNECT_SECONDS, Share
from walferry.replication.sinks.hbase.locations import Locations, LocationsUnknown
from walferry.replication.sinks.hbase.multi import METHOD
from walferry.replication.sinks.hbase.rounds import MAX_ACTIONS, MAX_BYTES, Flags, Most, Places, calls_of_round
from walferry.replication.sinks.hbase.shipment import Shipment
from walferry.replication.sinks.hbase.tries import NEVER_TRIED, SendTerms, Tries

PASSING = (LocationsUnknown, RegionUnavailable, *tries.PASSING)


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
    doubt: Flags = field(init=False)  # which of all actions a call has carried whose end is not known
    doubtful: set[ServerName] = field(default_factory=set)  # the servers of such calls
    unsettled: bool = False  # whether such a server has acknowledged an action in doubt

    def __post_init__(self) -> None:
        self.doubt = np.zeros(len(self.actions), np.bool_)

    @property
    def now(self) -> Flags:
        """Which of the actions that are left may be sent. Those in doubt come first: what follows them waits until it is known
        that nothing older can come after it."""
        doubt = self.doubt[self.left]
        return doubt if doubt.any() else np.ones(self.left.size, np.bool_)

    def note(self, ended: CallEnded) -> None:
        """A call has ended, or only our wait for it."""
        if ended.in_doubt:
            self.doubt[ended.call.actions] = True
            self.doubtful.add(ended.call.server)
        elif ended.call.server in self.doubtful:
            self.unsettled |= bool(self.doubt[ended.done].any())
        self.doubt[ended.done] = False

    def settled(self) -> None:
        """No call is in doubt any more."""
        self.doubtful.clear()
        self.unsettled = False

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
    """Ships to the slave's regions over connections of its own: one shipper a sender.

    All senders share the `locations`, and how many calls they make at once. Retries, sleeps and timeouts are as a Shipper has
    them; a try is a round. While the slave throttles, requests that it does not take after the wait that it asked for become
    smaller.
    """

    def __init__(self, locations: Locations, terms: SendTerms, share: Share | None = None) -> None:
        self._locations = locations
        self._tries = Tries(terms, PASSING)
        # Of a request; fewer actions once the slave has refused as many.
        self._most = Most(MAX_ACTIONS, min(MAX_BYTES, terms.settings.shipment_bytes))
        self._pace: int | None = None  # the actions of a request while the slave throttles
        share = share or Share()
        share.join()
        self._calls = Calls(terms.login, self._tries.check_stop, share, terms.right)

    overdue = False  # no call may take longer than an ordinary one

    @property
    def calls(self) -> frozenset[ServerName]:
        """The servers that have calls of ours under way."""
        return self._calls.servers

    @property
    def failed_batches(self) -> int:
        """Rounds after which something had to be sent again."""
        return self._tries.failed

    def ship(self, shipment: Shipment, deadline: float) -> None:
        """Send until every action is acknowledged. `deadline` is on the clock.

        A slave that is busy is waited for until the deadline, without counting tries.

        Raises SlaveUnreachable when the deadline or the patience with a silent slave is over; Stopped; ShipmentUnfit;
        TableNotFound or ColumnFamilyNotFound for what the slave lacks; CellTooLarge; another RemoteError for an edit that it
        takes in no way; DirectRefused; and what ends the right to send. A shipment that was not acknowledged may have been
        applied all the same, or a part of it.
        """
        for piece in pieces(shipment):
            self._ship(find_actions(piece), deadline)

    def _ship(self, actions: Actions, deadline: float) -> None:
        """As `ship`, for actions."""
        work = _Work(actions, np.arange(len(actions)), self._seconds(deadline))
        try:
            self._ship_all(work, deadline)
        except BaseException:
            if work.unsettled or work.doubt.any():  # whoever sends the same in another way does not know of these calls
                self._tries.right.begin_anew()
            raise

    def _ship_all(self, work: _Work, deadline: float) -> None:
        failures, busy, last_error, answered, jumped = 0, 0, NEVER_TRIED, False, False
        call_timeout = self._tries.settings.call_timeout_seconds
        while work.left.size:
            self._tries.await_right(deadline)
            left = self._tries.left(deadline, failures, last_error, answered=answered)
            before = work.left.size
            try:
                error = self._try(work, call_timeout if failures == 0 else min(left, call_timeout))
            except Unsure:  # since the servers were connected to
                continue
            if work.unsettled and not work.doubt.any():
                self._tries.settle()
                work.settled()
            if work.left.size < before:
                failures = busy = 0
            if error is None:
                self._pace = self._pace and min(2 * self._pace, MAX_ACTIONS)
                continue
            if is_busy(error):
                busy += 1
                failures, last_error, answered = 0, str(error), True
                if busy > 1 and is_throttled(error):
                    self._pace = max(1, min(self._pace or MAX_ACTIONS, int(work.left.size)) // 2)
                self._tries.rest(error, busy, deadline)
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

        def say_why() -> None:  # the sender may come to know of the end at once
            self._tries.why = why

        self._calls.interrupt(server, say_why)

    def close(self) -> None:
        """Close all connections. Calls of a sender that has not ended yet fail, and the sender closes theirs."""
        self.interrupt()
        self._calls.close()

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
        except RequestTooLarge as error:
            raise ShipmentUnfit(str(error)) from error
        except TooManyRegions as error:
            raise DirectRefused(str(error)) from error
        except NoAuthError as error:
            raise DirectRefused(f"the znode that tells where hbase:meta is may not be read ({error!r})") from error
        except PASSING as error:
            if not tries.is_hopeless(error):
                return error
            ours = isinstance(error, NotAuthenticated) and not error.others_may
            if ours or isinstance(error, TableNotFound | ColumnFamilyNotFound | CellTooLarge) or is_unsound(error):
                raise
            raise DirectRefused(str(error)) from error

    def _round(self, work: _Work, timeout: float, connecting: Callable[[], float]) -> WalferryError | None:
        """Send what can be sent, and take what is done off `work`. Returns an error because of which a part has to be sent again;
        raises it if nothing was acknowledged, or if trying again does not help."""
        places = self._placed(work)
        done: list[Ints] = []
        failed: list[Ints] = []
        errors: list[WalferryError] = []
        refused: list[int] = []
        now = work.now
        most = replace(self._most, actions=min(self._most.actions, self._pace or MAX_ACTIONS))
        calls = calls_of_round(work.actions, work.left[now], places.but(~now), most)
        for ended in self._calls.make(work.actions, calls, timeout, connecting):
            work.note(ended)
            if ended.too_many:
                refused.append(ended.call.actions.size)
                continue
            if not all(map(is_busy, ended.errors)):
                failed.append(np.setdiff1d(ended.call.actions, ended.done))
            done.append(ended.done)
            errors += ended.errors
        if (homeless := work.left[now & places.homeless()]).size:
            failed.append(homeless)
            errors.append(_no_server(work.actions, int(homeless[0])))
        work.take(done, failed)
        if final := next(filter(tries.is_hopeless, errors), None):
            raise final
        if refused:
            self._send_fewer(refused)
        if not errors:
            return None
        first = next((error for error in errors if not is_busy(error)), errors[0])
        if not any(some.size for some in done):
            raise first
        return first

    def _send_fewer(self, refused: Sequence[int]) -> None:
        """The slave has refused requests with so many actions: from now on none has more than half as many."""
        if max(refused) > self._most.actions or min(refused) == 1:
            raise ShipmentUnfit(f"the slave refuses a request of {max(refused)} actions that change one row")
        self._most = replace(self._most, actions=min(refused) // 2)
        self._tries.failed += 1

    def _placed(self, work: _Work) -> Places:
        """Where the actions are to go; looked up, if that is not known or has turned out wrong. Raises as Locations.of, but
        TableNotFound for a table that the slave lacks."""
        if work.places is None or work.wrong:
            old = work.places.maps if work.places else None
            try:
                maps = [
                    self._locations.of(table, old[i] if old and i in work.wrong else None, work.seconds)
                    for i, table in enumerate(work.actions.tables)
                ]
            except MissingTable as error:
                raise self._not_there(error.table) from None
            work.places, work.wrong = Places.of(work.actions, work.left, maps), frozenset()
            self._calls.close_but(self._locations.servers)
        return work.places

    def _not_there(self, table: str) -> TableNotFound:
        """The error that a server of the slave would answer with, if it were asked."""
        problem = f"hbase:meta has no region of table {one_line(table, MAX_TABLE_CHARS)}"
        return TableNotFound(f"slave {self._tries.slave}", "TableNotFoundException", problem, True, table=table)

    def _have_moved(self, work: _Work) -> bool:
        """Look up again what has turned out wrong; returns whether anything is elsewhere now."""
        before = work.whereabouts()
        with suppress(TooManyRegions, NoAuthError, *PASSING):  # the next round comes upon it
            self._placed(work)
        return work.whereabouts() != before


def _no_server(actions: Actions, action: int) -> RegionUnavailable:
    table = one_line(actions.tables[int(actions.of(ActionRow.TABLE)[action])].decode(), MAX_TABLE_CHARS)
    return RegionUnavailable(f"no server of the slave has the region of row {actions.key(action)[:100]!r} of table {table}")
