"""The tries of a sender, whatever they send: how long they go on, how long they pause, and how they are reported."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from walferry.base.errors import WalferryError
from walferry.base.security.login import UNSECURED, Login
from walferry.base.zk.right import Right
from walferry.hbase.rpc.errors import ConnectionFailed, NotAuthenticated, RemoteError, RpcTimeout
from walferry.replication.peers.settings import PeerSettings
from walferry.replication.sinks.answers import SILENCE_SECONDS, Answers, Repeats
from walferry.replication.sinks.errors import PeerClusterUnreachable, Stopped
from walferry.replication.sinks.hbase.action_errors import is_busy, seconds_to_wait

RIGHT_SECONDS = 0.1  # between two checks whether the right to send is certain again
SETTLE_SECONDS = 10.0  # HBase's threads that wait for memory look every 5 s; its sink's calls take at most 10 s
TIMEOUT_GROWTH = 10  # calls that time out again and again get up to this many times the first timeout
NEVER_TRIED = "none: the deadline had passed already"
MOST_SLEEPS = 10  # a wait for a busy peer cluster grows up to this many base sleeps
LEAST_REST_SECONDS, LONGEST_REST_SECONDS = 0.01, 60.0
PASSING = (ConnectionFailed, RpcTimeout, RemoteError)  # the next try may succeed, unless the error says that it cannot

log = logging.getLogger(__name__)


def is_hopeless(error: WalferryError) -> bool:
    """Return whether no further try can succeed: the server says so, or does not accept our keys or settings."""
    return error.do_not_retry if isinstance(error, RemoteError) else isinstance(error, NotAuthenticated) and not error.retry_helps


@dataclass(frozen=True)
class SendTerms:
    """The terms that all senders to a peer cluster share. `peer_cluster` is its name in messages, e.g. its cluster key.

    `stop`, once set, ends sleeps. `wait(seconds)` sleeps, and returns whether to stop. `answers` records tries.
    """

    peer_cluster: str
    stop: threading.Event
    login: Login = UNSECURED
    settings: PeerSettings = field(default_factory=PeerSettings)
    answers: Answers = field(default_factory=Answers)
    right: Right = field(default_factory=Right)
    clock: Callable[[], float] = time.monotonic
    wait: Callable[[float], bool] | None = None


class Tries:
    """The tries of one sender to ship. After the nth failure in a row it sleeps for n base sleeps.

    `passing` lists the errors after which the next try may succeed.
    """

    def __init__(self, terms: SendTerms, passing: tuple[type[WalferryError], ...]) -> None:
        self.right = terms.right
        self.peer_cluster = terms.peer_cluster
        self.settings = terms.settings
        self.clock = terms.clock
        self.failed = 0
        self.why: str | None = None  # why this side ended the call under way, if it did
        self._stop = terms.stop
        self._wait = terms.wait or terms.stop.wait
        self._answers = terms.answers
        self._passing = passing
        self._busy = Repeats(terms.clock)

    def left(self, deadline: float, tries: int, last_error: str, *, answered: bool) -> float:
        """Return the seconds until the deadline. Raises Stopped, and PeerClusterUnreachable if the deadline is over or, after a
        try, the peer cluster has been silent for too long; `answered`: whether the last error came from the peer cluster itself.
        """
        if self._stop.is_set():
            raise Stopped(f"asked to stop before a shipment to {self.peer_cluster} was acknowledged")
        left, patience = deadline - self.clock(), self.settings.patience_seconds
        out_of_patience = tries > 0 and self._answers.silent_seconds >= patience
        if left <= 0 or out_of_patience:
            waited = patience if out_of_patience else None
            raise PeerClusterUnreachable(
                self.peer_cluster, self._answers.since, tries, last_error, patience_seconds=waited, answered=answered
            )
        return left

    def await_right(self, deadline: float) -> None:
        """Wait until requests may be sent, or until the deadline. Raises Stopped, and the errors that end the right for good."""
        while not self.right.is_sure() and self.clock() < deadline:
            if self._wait(RIGHT_SECONDS):
                raise Stopped(f"asked to stop while it was not sure that {self.peer_cluster} may be sent anything")

    def hope(self, deadline: float) -> float:
        """Return the seconds until the deadline, or until the patience with the peer cluster ends, whichever is sooner."""
        return min(deadline - self.clock(), self.settings.patience_seconds - self._answers.silent_seconds)

    @contextmanager
    def noted(self, expected_seconds: float = SILENCE_SECONDS) -> Iterator[None]:
        """Report the outcome of the block, which is a try, to `answers`."""
        self._answers.trying(expected_seconds)
        try:
            yield
        except BaseException as error:
            if isinstance(error, RemoteError) and (error.do_not_retry or is_busy(error)):
                self._answers.answered()
            elif isinstance(error, self._passing) and not is_hopeless(error) and not self._stop.is_set():
                self._answers.failed(self.why or str(error))
            else:
                self._answers.given_up()
            raise
        self._answers.answered()

    def check_stop(self) -> None:
        """Raise Stopped if the sender is to stop. Call this once a call can be interrupted, before the call is made."""
        if self._stop.is_set():
            raise Stopped(f"asked to stop before a shipment to {self.peer_cluster} was sent")

    def last_error(self, error: Exception) -> str:
        """Return why a try failed: this side's reason for ending it, which is then forgotten, or else the error."""
        why, self.why = self.why, None
        return why or str(error)

    def longer(self, call_timeout: float, error: Exception, method: str) -> float:
        """Return the timeout for the call after a failure with `error`: a call that timed out gives the next call more time."""
        if not (isinstance(error, RpcTimeout) and error.what == method):
            return call_timeout
        first = self.settings.call_timeout_seconds
        return min(call_timeout + first, TIMEOUT_GROWTH * first)

    def settle(self) -> None:
        """Wait until a call of unknown outcome has had its effect. Call this when the call's edits have been acknowledged in a
        later call, and before newer edits are sent.

        The server drops a call that has waited for longer than its timeout, or whose connection is closed. But it finishes a call
        that it has begun, e.g. when memory is free again, and this call would overwrite newer edits. Once the server has carried
        out the same edits in a later call, the earlier call ends soon, but its end is not reported. This wait is no longer than
        an ordinary call.
        """
        seconds = min(SETTLE_SECONDS, self.settings.call_timeout_seconds)
        log.info("a call to %s whose end is not known may still have its effect: waiting %.1f s", self.peer_cluster, seconds)
        if self._wait(seconds):
            raise Stopped(f"asked to stop before it was known that a call to {self.peer_cluster} has ended")

    def pause(self, failures: int, deadline: float, last_error: str) -> None:
        """Sleep after the nth failure in a row; not beyond the deadline, nor beyond the patience with the peer cluster."""
        self.failed += 1
        seconds = self.settings.sleep_seconds * min(failures, self.settings.retries_multiplier)
        seconds = max(0.0, min(seconds, self.hope(deadline)))
        log.info("a shipment to %s failed, trying again in %.1f s: %s", self.peer_cluster, seconds, last_error)
        if self._wait(seconds):
            raise Stopped(
                f"asked to stop while a shipment to {self.peer_cluster} was not acknowledged; the last error: {last_error}"
            )

    def rest(self, error: WalferryError, times: int, deadline: float) -> None:
        """Wait until a busy peer cluster may accept the same edits: as long as it says, or else for `times` base sleeps.

        This does not use up the patience with the peer cluster. The wait ends at the deadline.
        """
        self.failed += 1
        said = seconds_to_wait(error)
        base = self.settings.sleep_seconds * min(times, self.settings.retries_multiplier, MOST_SLEEPS)
        seconds = min(base if said is None else max(said, LEAST_REST_SECONDS), LONGEST_REST_SECONDS)
        seconds = max(0.0, min(seconds, deadline - self.clock()))
        noted = log.info if self._busy.due() else log.debug
        noted("peer cluster %s is busy, trying again in %.3g s: %s", self.peer_cluster, seconds, error)
        if self._wait(seconds):
            raise Stopped(f"asked to stop while {self.peer_cluster} was busy; it said: {error}")
