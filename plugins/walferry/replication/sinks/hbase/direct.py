"""Sends shipments to the peer cluster's regions directly, by doing here the work of a RegionServer's sink.

    shipment  →  row mutations (actions)  →  Multis to the servers of their regions (rounds)  →  a result for each action

The peer cluster writes the mutations straight into its regions. With ReplicateWALEntry a RegionServer of the peer cluster takes
the shipment apart and sends the mutations on, which about doubles the peer cluster's cost.

The calls have no priority of their own, so they wait in the same queue as the calls of the peer cluster's users, like the
mutations that a sink sends on. The queue of replication has three handlers by default, which HBase's own sources need.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import numpy as np
from kazoo.exceptions import NoAuthError

from walferry.base.errors import WalferryError
from walferry.base.kernels.types import Flags, Ints
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
from walferry.replication.sinks.hbase.rounds import MAX_ACTIONS, MAX_BYTES, Most, Places, calls_of_round
from walferry.replication.sinks.hbase.shipment import Shipment
from walferry.replication.sinks.hbase.tries import HBaseTries
from walferry.replication.sinks.tries import NEVER_TRIED, SendTerms

PASSING = (LocationsUnknown, RegionUnavailable, *tries.PASSING)


class DirectRefused(WalferryError):
    """The peer cluster does not let the user write to its regions, or cannot take such writes. Another kind of sink may work."""


@dataclass
class _Work:
    """A shipment on its way."""

    actions: Actions
    left: Ints  # the actions that are not acknowledged yet, in their order
    seconds: Callable[[], float]  # how long reaching hbase:meta and the servers may still take. Raises Stopped
    places: Places | None = None  # the places of these actions; None: not looked up yet
    wrong: frozenset[int] = frozenset()  # the tables whose regions may not be where `places` says
    doubt: Flags = field(init=False)  # for each action, whether a call of unknown outcome has carried it
    doubtful: set[ServerName] = field(default_factory=set)  # the servers of these calls
    unsettled: bool = False  # whether one of these servers has acknowledged an action in doubt

    def __post_init__(self) -> None:
        self.doubt = np.zeros(len(self.actions), np.bool_)

    @property
    def now(self) -> Flags:
        """Flag the remaining actions that may be sent. Actions in doubt go first: none may take effect after newer ones."""
        doubt = self.doubt[self.left]
        return doubt if doubt.any() else np.ones(self.left.size, np.bool_)

    def note(self, ended: CallEnded) -> None:
        """Note that a call has ended, or that only our wait for it has."""
        if ended.in_doubt:
            self.doubt[ended.call.actions] = True
            self.doubtful.add(ended.call.server)
        elif ended.call.server in self.doubtful:
            self.unsettled |= bool(self.doubt[ended.done].any())
        self.doubt[ended.done] = False

    def settled(self) -> None:
        """Note that no call is in doubt any more."""
        self.doubtful.clear()
        self.unsettled = False

    def take(self, done: Sequence[Ints], failed: Sequence[Ints]) -> None:
        """Remove the actions that are done; note that the tables of the failed ones are to be looked up again."""
        gone = np.isin(self.left, np.concatenate([*done, self.left[:0]]))
        self.left = self.left[~gone]
        self.places = self.places and self.places.but(gone)
        tables = self.actions.of(ActionRow.TABLE)
        self.wrong = frozenset(int(table) for some in failed for table in np.unique(tables[some]))

    def whereabouts(self) -> set[tuple[bytes, ServerName | None]]:
        """Return the regions of the remaining actions, and their servers."""
        return {(region.name, region.server) for region in self.places.regions().values()} if self.places else set()


class DirectShipper:
    """Ships to the peer cluster's regions over its own connections. Each sender has its own shipper.

    All senders share the `locations`, and the limit of calls at once. Retries, sleeps and timeouts are as in a Shipper, and a
    round is a try. If a throttling peer cluster refuses a request even after the wait that it asked for, requests become smaller.
    """

    def __init__(self, locations: Locations, terms: SendTerms, share: Share | None = None) -> None:
        self._locations = locations
        self._tries = HBaseTries(terms, PASSING)
        # Limits of a request. Fewer actions, once the peer cluster has refused a request because of their number.
        self._most = Most(MAX_ACTIONS, min(MAX_BYTES, terms.settings.shipment_bytes))
        self._pace: int | None = None  # the number of actions in a request while the peer cluster throttles
        share = share or Share()
        share.join()
        self._calls = Calls(terms.login, self._tries.check_stop, share, terms.right)

    overdue = False  # no call here may take longer than an ordinary call

    @property
    def calls(self) -> frozenset[ServerName]:
        """The servers with calls of ours under way."""
        return self._calls.servers

    @property
    def failed_batches(self) -> int:
        """The number of rounds after which some actions had to be sent again."""
        return self._tries.failed

    def ship(self, shipment: Shipment, deadline: float) -> None:
        """Send until every action is acknowledged. `deadline` is on the clock. While the peer cluster is busy, this waits until
        the deadline, without counting tries.

        Raises PeerClusterUnreachable when the deadline or the patience with a silent peer cluster is over; Stopped;
        ShipmentUnfit; TableNotFound or ColumnFamilyNotFound if the peer cluster lacks one; CellTooLarge; another RemoteError for
        an edit that the peer cluster does not accept in any way; DirectRefused; and the errors that end the right to send. A
        shipment that was not acknowledged may have been applied all the same, wholly or in part.
        """
        for piece in pieces(shipment):
            self._ship(find_actions(piece), deadline)

    def _ship(self, actions: Actions, deadline: float) -> None:
        """Send actions as `ship` does."""
        work = _Work(actions, np.arange(len(actions)), self._seconds(deadline))
        try:
            self._ship_all(work, deadline)
        except BaseException:
            if work.unsettled or work.doubt.any():  # another way of sending would not know of these calls
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
            except Unsure:  # the right became unsure while connecting
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
            # before a look-up, which a silent peer cluster prolongs
            self._tries.left(deadline, failures, last_error, answered=answered)
            wrong = work.wrong
            jumped = not jumped and not isinstance(error, LocationsUnknown) and self._have_moved(work)
            if jumped:  # nothing has been tried yet at the rows' new places
                self._tries.failed += 1
            else:
                self._tries.pause(failures, deadline, last_error)
                work.wrong = wrong

    def interrupt(self, why: str | None = None, server: ServerName | None = None) -> None:
        """From another thread: end the calls under way, or only the call at `server`. Their errors say `why`."""

        def say_why() -> None:  # called first: the sender may notice the end at once
            self._tries.why = why

        self._calls.interrupt(server, say_why)

    def close(self) -> None:
        """Close all connections. If the sender has not ended yet, its calls fail, and the sender closes their connections."""
        self.interrupt()
        self._calls.close()

    def _seconds(self, deadline: float) -> Callable[[], float]:
        """Return a function for the time left to reach servers: some seconds at least, however near the deadline is."""
        least = self._tries.clock() + LAST_CONNECT_SECONDS

        def left() -> float:
            self._tries.check_stop()
            return max(self._tries.hope(deadline), least - self._tries.clock())

        return left

    def _try(self, work: _Work, timeout: float) -> WalferryError | None:
        """Send one round. Returns the error that makes it necessary to send some actions again; None without one."""
        try:
            with self._tries.noted():
                return self._round(work, timeout)
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

    def _round(self, work: _Work, timeout: float) -> WalferryError | None:
        """Send the actions that can be sent, and remove finished ones from `work`. Returns an error if some must be sent again;
        raises it if nothing was acknowledged, or if trying again does not help.
        """
        places = self._placed(work)
        done: list[Ints] = []
        failed: list[Ints] = []
        errors: list[WalferryError] = []
        refused: list[int] = []
        now = work.now
        most = replace(self._most, actions=min(self._most.actions, self._pace or MAX_ACTIONS))
        calls = calls_of_round(work.actions, work.left[now], places.but(~now), most)
        for ended in self._calls.make(work.actions, calls, timeout, work.seconds):
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
        """Halve the limit of actions, as the peer cluster has refused requests with that many."""
        if max(refused) > self._most.actions or min(refused) == 1:
            raise ShipmentUnfit(f"the peer cluster refuses a request of {max(refused)} actions that change one row")
        self._most = replace(self._most, actions=min(refused) // 2)
        self._tries.failed += 1

    def _placed(self, work: _Work) -> Places:
        """Return the places of the actions, looked up if they are unknown or have turned out wrong. Raises as Locations.of, but
        TableNotFound for a table that the peer cluster lacks.
        """
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
        """Return the error with which a server of the peer cluster would answer."""
        problem = f"hbase:meta has no region of table {one_line(table, MAX_TABLE_CHARS)}"
        return TableNotFound(f"peer cluster {self._tries.peer_cluster}", "TableNotFoundException", problem, True, table=table)

    def _have_moved(self, work: _Work) -> bool:
        """Look up again the regions whose places have turned out wrong; return whether any has moved."""
        before = work.whereabouts()
        with suppress(TooManyRegions, NoAuthError, *PASSING):  # the next round meets the same error
            self._placed(work)
        return work.whereabouts() != before


def _no_server(actions: Actions, action: int) -> RegionUnavailable:
    table = one_line(actions.tables[int(actions.of(ActionRow.TABLE)[action])].decode(), MAX_TABLE_CHARS)
    return RegionUnavailable(
        f"no server of the peer cluster has the region of row {actions.key(action)[:100]!r} of table {table}"
    )
