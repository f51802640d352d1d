"""The tries of a sender, whatever they send and wherever: how long they go on, how long they pause, how they are reported."""

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
from walferry.replication.peers.settings import PeerSettings
from walferry.replication.sinks.answers import SILENCE_SECONDS, Answers
from walferry.replication.sinks.errors import PeerClusterUnreachable, Stopped

RIGHT_SECONDS = 0.1  # between two checks whether the right to send is certain again
NEVER_TRIED = "none: the deadline had passed already"

log = logging.getLogger(__name__)


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
    """The tries of one sender to ship. After the nth failure in a row it sleeps for n base sleeps."""

    def __init__(self, terms: SendTerms) -> None:
        self.right = terms.right
        self.peer_cluster = terms.peer_cluster
        self.settings = terms.settings
        self.clock = terms.clock
        self.failed = 0
        self.why: str | None = None  # why this side ended the call under way, if it did
        self._stop = terms.stop
        self._wait = terms.wait or terms.stop.wait
        self._answers = terms.answers

    def is_answer(self, error: BaseException) -> bool:
        """Return whether the target has refused the edits for good, or says that it is too busy: it is not silent."""
        return False

    def may_pass(self, error: BaseException) -> bool:
        """Return whether the next try may succeed after this error."""
        return isinstance(error, WalferryError) and error.retry_helps

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
            if self.is_answer(error):
                self._answers.answered()
            elif self.may_pass(error) and not self._stop.is_set():
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
