"""The tries of a sender to HBase's servers: which of their errors pass, and how long to wait after these."""

from __future__ import annotations

import logging

from walferry.base.errors import WalferryError
from walferry.hbase.rpc.errors import ConnectionFailed, NotAuthenticated, RemoteError, RpcTimeout
from walferry.replication.sinks.answers import Repeats
from walferry.replication.sinks.errors import Stopped
from walferry.replication.sinks.hbase.action_errors import is_busy, seconds_to_wait
from walferry.replication.sinks.tries import SendTerms, Tries

SETTLE_SECONDS = 10.0  # HBase's threads that wait for memory look every 5 s; its sink's calls take at most 10 s
TIMEOUT_GROWTH = 10  # calls that time out again and again get up to this many times the first timeout
MOST_SLEEPS = 10  # a wait for a busy peer cluster grows up to this many base sleeps
LEAST_REST_SECONDS, LONGEST_REST_SECONDS = 0.01, 60.0
PASSING = (ConnectionFailed, RpcTimeout, RemoteError)  # the next try may succeed, unless the error says that it cannot

log = logging.getLogger(__name__)


def is_hopeless(error: WalferryError) -> bool:
    """Return whether no further try can succeed: the server says so, or does not accept our keys or settings."""
    return error.do_not_retry if isinstance(error, RemoteError) else isinstance(error, NotAuthenticated) and not error.retry_helps


class HBaseTries(Tries):
    """The tries of one sender to HBase's servers. `passing` lists the errors after which the next try may succeed."""

    def __init__(self, terms: SendTerms, passing: tuple[type[WalferryError], ...]) -> None:
        super().__init__(terms)
        self._passing = passing
        self._busy = Repeats(terms.clock)

    def is_answer(self, error: BaseException) -> bool:
        """Return whether a server has refused the edits for good, or says that it is too busy."""
        return isinstance(error, RemoteError) and (error.do_not_retry or is_busy(error))

    def may_pass(self, error: BaseException) -> bool:
        """Return whether the next try may succeed after this error."""
        return isinstance(error, self._passing) and not is_hopeless(error)

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
