"""The right to send requests that change something elsewhere, for as long as its holder surely has it.

A fenced lock (fenced_lock.py) fences what its holder writes in ZooKeeper. Nothing fences what the holder sends to a slave, so
time has to do it. The promise is: **two holders of one right never have requests under way at the same time**, so no request of
an earlier holder takes effect after one of the next. It rests on three bounds, one after the other:

1. *When a holder stops.* Before each part of a request that is handed to the kernel, the holder knows that its session goes on
   (session_time.py): ZooKeeper has answered something that was sent less than SURE_SHARE of the session's time ago. A process
   that was stopped, or that is cut off from ZooKeeper, sends nothing more, and the connection of a request that was half sent is
   closed. The other half of the session's time is spare: a ZooKeeper server that has lost its leader may answer for some ticks
   more, while the leader hears nothing of the session any more.
2. *When what was sent has come to its end.* Each request tells the server how many seconds it has. HBase 1.4 and later, once
   these are over, neither begins a request nor takes another row's lock for one (CallRunner.run, HRegion.getRowLockInternal).
   What has a row's lock by then comes before whatever takes the lock later. The seconds count from when the server has the
   request. Connections give up what the other side's machine has not taken after a third of this time, and 20 s at most
   (TCP_USER_TIMEOUT), also after the death of their process, and drop what is not sent yet when a request is ended
   (SO_LINGER). `spare_seconds`, half of this time and 30 s at most, are for both, for the second hand of a sink that passes
   edits on, and for a server that was stopped for a moment itself.
3. *When the next holder begins.* A holder's record in ZooKeeper says for how long its requests may take effect after its end. A
   holder that ends well writes how much of that is left, which is nothing if all of its requests were answered. If it just
   vanished, the next holder sends nothing until the whole time has passed since it acquired the right.

There are limits. A process that is stopped between the question and the system call sends that one part when it goes on. A
RegionServer that stands still for longer than `spare_seconds` with a request in its machine's buffers may carry it out late,
if it still has its regions then. And the load of HFiles that a sink was asked for is taken to last as long as copying the
files should; the sink is not bound by that.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from kazoo.client import KazooClient

from walferry.base.zk.session_time import now

SURE_SHARE = 0.5  # of the session's time; a ping follows each third
MOST_SPARE_SECONDS, LEAST_SPARE_SECONDS = 30.0, 3.0
NEVER = float("-inf")


def spare_seconds(seconds: float) -> float:
    """For how long a request that a server has `seconds` for may take effect beyond them."""
    return min(MOST_SPARE_SECONDS, max(LEAST_SPARE_SECONDS, seconds / 2))


class Unsure(Exception):
    """It is not sure at the moment that the right is held, so nothing more was sent. A signal, not an error."""


class Ground(Protocol):
    """What a right rests on."""

    def is_sure(self) -> bool:
        """Whether the right is surely held now. Raises an error if it is lost for good."""

    def allow(self, seconds: float) -> None:
        """Let the next holder know that requests may take effect for so long after this holder's end. Raises ConnectError, and
        an error if the right is lost."""


class Right:
    """The right to send, and the requests that are under way by it. Any thread may call the methods.

    Requests have `usual_seconds`, as the next holder has been told. `quiet_at`, a moment of `heard.now`, is when those of earlier
    holders have come to their end. A right without a ground always holds.
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
        """Whether requests may be sent now. Raises what the ground does."""
        sure = self._ground is None or self._ground.is_sure()
        return sure and not self.ended and self._clock() >= self._quiet_at

    @property
    def quiet_seconds(self) -> float:
        """For how long requests of this holder and earlier ones may still take effect; 0 if none is under way."""
        with self._lock:
            return max(0.0, self._last_end() - self._clock())

    def _last_end(self) -> float:
        return max(self._quiet_at, self._late, *(request.until for request in self._under_way), NEVER)

    def begin_anew(self) -> None:
        """Send nothing more until all requests so far have come to their end: what they carried is going to be sent once more, by
        somebody who does not know of them."""
        with self._lock:
            self._quiet_at = self._last_end()

    def end(self) -> float:
        """Send nothing more. Returns the `quiet_seconds`, which a holder that gives its right up has to tell."""
        self.ended = True  # first: who has asked before has said so in its request
        return self.quiet_seconds

    def begin(self, seconds: float) -> PermittedRequest:
        """A request that a server may carry out for `seconds` after it was sent. Raises what the ground does."""
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
        """A request that is answered if the block ends without an error, or says so itself."""
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
    """One request. `may_go_on` is called before each part of it that is handed to the kernel."""

    def __init__(self, right: Right, seconds: float) -> None:
        self._right = right
        self.seconds = seconds
        self.until = NEVER  # when it has come to its end, whatever has become of it

    def may_go_on(self) -> None:
        """Raises Unsure, and what the ground does."""
        # Before the question, too, which may take long: who ends the right meanwhile has to know of what may be sent then.
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
        """When a part that is sent now has come to its end."""
        return self._right._clock() + self.seconds + spare_seconds(self.seconds)

    def answered(self) -> None:
        """The server is done with it."""
        self._right._end(self, NEVER)

    def cut(self) -> None:
        """No answer is waited for any more; the server may still carry out what was sent. Nothing changes after an answer."""
        self._right._end(self, self.until)


def has_heard(zk: KazooClient) -> bool:
    """Whether ZooKeeper has answered something that was sent lately enough for a holder to go on."""
    return bool(zk.heard.seconds < SURE_SHARE * zk.heard.session_seconds)
