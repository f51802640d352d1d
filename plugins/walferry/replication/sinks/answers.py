"""Records whether the peer cluster acknowledges the edits sent to it.

All senders of a task report here; the thread that publishes the summary reads the record.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

FAILING_SECONDS = 2.0  # a failure that the next try repairs is not an outage
SILENCE_SECONDS = 10.0  # without an error; HBase logs calls that take as long (hbase.ipc.warn.response.time)
REPEAT_SECONDS = 30.0
LONGEST_REPEAT_SECONDS = 600.0


@dataclass(frozen=True)
class Outage:
    """Since when the peer cluster acknowledges nothing, how many tries have failed, and why the last try did (None: none has)."""

    since: float  # seconds since the epoch
    tries: int
    error: str | None


class Answers:
    """The outcomes of the tries to reach the peer cluster. Any thread may call the methods.

    Durations are taken from `clock`, so that a correction of the machine's time neither uses up the patience with a peer cluster
    nor prolongs it. `epoch_clock` only gives the time of day, for people.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, epoch_clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._epoch_clock = epoch_clock
        self._lock = threading.Lock()
        self._under_way = 0
        self._since: float | None = None
        self._heard = 0.0
        self._quiet_until = 0.0
        self._tries = 0
        self._error: str | None = None

    def trying(self, expected_seconds: float = SILENCE_SECONDS) -> None:
        """Note that a try begins. For `expected_seconds` the peer cluster may be silent without anything being wrong."""
        with self._lock:
            now = self._clock()
            self._under_way += 1
            self._since = now if self._since is None else self._since
            self._quiet_until = max(self._quiet_until, now + expected_seconds)

    def answered(self) -> None:
        """Note that the peer cluster has taken the edits, has refused them for good, or says that it is too busy now."""
        with self._lock:
            self._under_way -= 1
            self._tries, self._error = 0, None
            self._since = self._clock() if self._under_way else None
            self._quiet_until = self._quiet_until if self._under_way else 0.0

    def failed(self, error: str) -> None:
        """Note that a try failed."""
        with self._lock:
            self._under_way -= 1
            self._tries += 1
            self._error = error

    def given_up(self) -> None:
        """Note that this side ended a try, so that it is unknown whether the peer cluster would have answered."""
        with self._lock:
            self._under_way -= 1
            if not self._under_way and not self._tries:
                self._since = None

    def heard(self) -> None:
        """Note that a server with a call under way answers other calls: it works on that call."""
        with self._lock:
            self._heard = self._clock()

    @property
    def since(self) -> float:
        """Since when the peer cluster acknowledges nothing, in seconds since the epoch; now if it does, or is asked nothing."""
        with self._lock:
            return self._epoch_clock() if self._since is None else self._in_epoch(self._since)

    @property
    def silent_seconds(self) -> float:
        """For how long the peer cluster has neither acknowledged the edits sent to it nor worked on them."""
        with self._lock:
            return 0.0 if self._since is None else self._clock() - max(self._since, self._heard)

    @property
    def outage(self) -> Outage | None:
        """The peer cluster's silence, once it has lasted some seconds."""
        with self._lock:
            now = self._clock()
            if self._since is None or (now - self._since < FAILING_SECONDS if self._tries else now < self._quiet_until):
                return None
            return Outage(self._in_epoch(self._since), self._tries, self._error)

    def _in_epoch(self, moment: float) -> float:
        return self._epoch_clock() - (self._clock() - moment)


class Repeats:
    """Decides when to repeat a message about a lasting problem: at once, then after growing intervals."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._next = 0.0
        self._interval = REPEAT_SECONDS
        self._begun = False

    def due(self) -> bool:
        """Return whether to send the message now. True counts it as sent."""
        now = self._clock()
        if self._begun and now < self._next:
            return False
        self._begun, self._next = True, now + self._interval
        self._interval = min(2 * self._interval, LONGEST_REPEAT_SECONDS)
        return True

    def reset(self) -> bool:
        """Note that the problem is over; return whether the message was ever sent."""
        said, self._begun, self._interval = self._begun, False, REPEAT_SECONDS
        return said
