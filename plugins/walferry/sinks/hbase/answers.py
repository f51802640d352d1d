"""Whether the slave acknowledges what it is asked: told by all lanes of a task, read by the thread that publishes the summary."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

FAILING_S = 2.0  # a failure that the next try mends is no outage
SILENCE_S = 10.0  # without an error; as HBase, which logs calls that take as long (hbase.ipc.warn.response.time)
REPEAT_S = 30.0
LONGEST_REPEAT_S = 600.0


@dataclass(frozen=True)
class Outage:
    """Since when the slave acknowledges nothing, in how many failed tries, and why the last one failed (None: none has yet)."""

    since: float  # seconds since the epoch
    tries: int
    error: str | None


class Answers:
    """What became of the tries to reach the slave. Methods may be called from any thread."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._under_way = 0
        self._since: float | None = None
        self._quiet_until = 0.0
        self._tries = 0
        self._error: str | None = None

    def trying(self, patience_s: float = SILENCE_S) -> None:
        """A try begins; the slave may be silent for `patience_s` without anything being wrong."""
        with self._lock:
            now = self._clock()
            self._under_way += 1
            self._since = now if self._since is None else self._since
            self._quiet_until = max(self._quiet_until, now + patience_s)

    def answered(self) -> None:
        """The slave has taken what it got, or said itself that it will not."""
        with self._lock:
            self._under_way -= 1
            self._tries, self._error = 0, None
            self._since = self._clock() if self._under_way else None
            self._quiet_until = self._quiet_until if self._under_way else 0.0

    def failed(self, error: str) -> None:
        """A try failed."""
        with self._lock:
            self._under_way -= 1
            self._tries += 1
            self._error = error

    def given_up(self) -> None:
        """A try was ended from here, so nobody knows whether the slave would have answered."""
        with self._lock:
            self._under_way -= 1
            if not self._under_way and not self._tries:
                self._since = None

    @property
    def outage(self) -> Outage | None:
        """That the slave acknowledges nothing, once this has gone on for some seconds."""
        with self._lock:
            now = self._clock()
            if self._since is None or (now - self._since < FAILING_S if self._tries else now < self._quiet_until):
                return None
            return Outage(self._since, self._tries, self._error)


class Repeats:
    """When to say again what goes on: at once, then after intervals that grow."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._next = 0.0
        self._interval = REPEAT_S
        self._begun = False

    def due(self) -> bool:
        """Whether to say it now; asking counts as saying."""
        now = self._clock()
        if self._begun and now < self._next:
            return False
        self._begun, self._next = True, now + self._interval
        self._interval = min(2 * self._interval, LONGEST_REPEAT_S)
        return True

    def reset(self) -> bool:
        """It is over; whether it was ever said."""
        said, self._begun, self._interval = self._begun, False, REPEAT_S
        return said
