"""Implements the right to send requests that change another cluster, for as long as its holder surely has it.

A fenced lock (fenced_lock.py) fences its holder's writes to ZooKeeper. Nothing fences the requests that the holder sends to a
peer cluster, so time has to separate them. The promise is: **two holders of one right never have requests under way at the same
time**, so no request of an earlier holder takes effect after a request of the next. It rests on three bounds, one after the
other:

1. *When a holder stops.* Before each part of a request goes to the kernel, the holder knows that its session goes on
   (session_time.py): ZooKeeper has answered a request that was sent less than SURE_SHARE of the session's time ago. A process
   that was stopped, or is cut off from ZooKeeper, sends nothing more, and closes the connection of a half-sent request. The other
   half of the session's time is a reserve: a ZooKeeper server that has lost its leader may answer for some more ticks, while the
   leader no longer hears from the session.
2. *When a sent request has come to its end.* Each request contains its time limit in seconds. Once it is over, HBase 1.4 and
   later neither begins the request nor takes another row's lock for it (CallRunner.run, HRegion.getRowLockInternal). A request
   that has a row's lock by then comes before any request that takes the lock later. The seconds count from the request's arrival
   at the server. Connections give up bytes that the other side's machine has not taken after a third of this time, and 20 s at
   most (TCP_USER_TIMEOUT), even after the death of their process. They drop unsent bytes when a request is ended (SO_LINGER).
   `spare_seconds`, half of this time and 30 s at most, cover both, the delay of a sink that passes edits on to other servers, and
   a server that was itself stopped for a moment.
3. *When the next holder begins.* A holder's record in ZooKeeper says for how long its requests may take effect after its end. A
   holder that ends well writes the rest of that time, which is 0 if all of its requests were answered. If a holder just vanished,
   the next holder sends nothing until the whole time has passed since its own acquisition.

There are limits. A process that is stopped between the check and the system call sends that one part when it goes on. A
RegionServer that stands still for longer than `spare_seconds` with a request in its machine's buffers may carry it out late, if
it still has its regions then. And a sink's load of HFiles counts as lasting as long as copying the files should, but the sink is
not bound by that.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from kazoo.client import KazooClient

from walferry.base.zk.session_time import now

SURE_SHARE = 0.5  # of the session's time; pings are a third of it apart
MOST_SPARE_SECONDS, LEAST_SPARE_SECONDS = 30.0, 3.0
NEVER = float("-inf")


def spare_seconds(seconds: float) -> float:
    """Return for how long a request with a limit of `seconds` may take effect beyond its limit."""
    return min(MOST_SPARE_SECONDS, max(LEAST_SPARE_SECONDS, seconds / 2))


class Unsure(Exception):
    """It is uncertain at the moment whether the right is held, so nothing more was sent. A signal, not an error."""


class Ground(Protocol):
    """The lock or lease that a right rests on."""

    def is_sure(self) -> bool:
        """Return whether the right is surely held now. Raises an error if it is lost for good."""

    def allow(self, seconds: float) -> None:
        """Record for the next holder that requests may take effect for `seconds` after this holder's end. Raises ConnectError,
        and an error if the right is lost."""


class Right:
    """The right to send, and the requests under way. Any thread may call the methods.

    A request may take at most `usual_seconds`, and the next holder already knows this limit. At `quiet_at`, a moment of
    `heard.now`, the requests of earlier holders have come to their end. A right without a ground always holds.
    """

    def __init__(
        self, ground: Ground | None = None, usual_seconds: float = 0.0, quiet_at: float = NEVER, clock: Callable[[], float] = now
    ) -> None:
        self._ground = ground
        self._usual = self._allowed = usual_seconds
        self._quiet_at = quiet_at
        self._clock = clock
        self._lock = threading.Lock()
        self._under_way: set[PermittedRequest] = set()
        self._late = NEVER
        self.ended = False

    def is_sure(self) -> bool:
        """Return whether requests may be sent now. Raises the ground's errors."""
        sure = self._ground is None or self._ground.is_sure()
        return sure and not self.ended and self._clock() >= self._quiet_at

    @property
    def quiet_seconds(self) -> float:
        """The seconds for which requests of this and earlier holders may still take effect; 0 if none is under way."""
        with self._lock:
            return max(0.0, self._last_end() - self._clock())

    def _last_end(self) -> float:
        return max(self._quiet_at, self._late, *(request.until for request in self._under_way), NEVER)

    def begin_anew(self) -> None:
        """Send nothing more until all requests so far have come to their end: code that does not know of them is going to send
        their content again."""
        with self._lock:
            self._quiet_at = self._last_end()

    def end(self) -> float:
        """Send nothing more. Returns the `quiet_seconds`, which a holder must record when it gives up its right."""
        self.ended = True  # first: a sender that has checked before has noted it in its request
        return self.quiet_seconds

    def begin(self, seconds: float) -> PermittedRequest:
        """Begin a request that a server may carry out for `seconds` after it was sent. Raises the ground's errors."""
        with self._lock:
            if self._ground is not None:
                needed = max(seconds, self._usual, *(request.seconds for request in self._under_way))
                if needed > self._allowed or (needed < self._allowed and self._clock() >= self._late):
                    self._ground.allow(needed)
                    self._allowed = needed
            request = PermittedRequest(self, seconds)
            self._under_way.add(request)
            return request

    @contextmanager
    def request(self, seconds: float) -> Iterator[PermittedRequest]:
        """Yield a request. It counts as answered if the block ends without an error, or calls `answered` itself."""
        request = self.begin(seconds)
        try:
            yield request
            request.answered()
        finally:
            request.cut()

    def _end(self, request: PermittedRequest, until: float) -> None:
        with self._lock:
            if request in self._under_way:
                self._under_way.remove(request)
                self._late = max(self._late, until)


class PermittedRequest:
    """One request. `may_go_on` is called before each part of it goes to the kernel."""

    def __init__(self, right: Right, seconds: float) -> None:
        self._right = right
        self.seconds = seconds
        self.until = NEVER  # by then it has come to its end in any case

    def may_go_on(self) -> None:
        """Check that the next part may be sent. Raises Unsure, and the ground's errors."""
        # Also before the check, which may take long: code that ends the right meanwhile must know of this possible part.
        before, self.until = self.until, self._end()
        try:
            if not self._right.is_sure():
                raise Unsure
            self.until = self._end()
            if self._right.ended:
                raise Unsure
        except BaseException:
            self.until = before
            raise

    def _end(self) -> float:
        """Return when a part that is sent now has come to its end."""
        return self._right._clock() + self.seconds + spare_seconds(self.seconds)

    def answered(self) -> None:
        """Note that the server is done with the request."""
        self._right._end(self, NEVER)

    def cut(self) -> None:
        """Note that no one waits for the answer; the server may still carry out the sent parts. Does nothing after an answer."""
        self._right._end(self, self.until)


def has_heard(zk: KazooClient) -> bool:
    """Return whether ZooKeeper has answered a request that was sent recently enough for a holder to go on."""
    return bool(zk.heard.seconds < SURE_SHARE * zk.heard.session_seconds)
