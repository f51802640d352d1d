"""Keeps the sending of a peer's groups within the peer's bandwidth.

HBase's throttler works per RegionServer, so an HBase peer gets its bandwidth from each server. Here `bandwidth` is the limit of
all groups of the peer together, whichever task or run ships them. Each group that has something to send has an ephemeral znode
next to the other groups' znodes, counts them all every second, and takes an equal share:

    <root>/shipping/<quoted znode parent>/<quoted peer>/<token>

A group takes no share while it starts its Spark worker, reads edits that the peer does not get, or copies WALs to the archive.

A share is valid for SETTLE_SECONDS after the count that it comes from, and a group that joins sends nothing for the same time. So
the shares together never exceed the bandwidth, even if a group counts late. As in HBase, a request's edits count once, even if
the request is sent again, and files that the peer cluster copies for a bulk load do not count.
"""

from __future__ import annotations

import math
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace

from kazoo.client import KazooClient
from kazoo.exceptions import AuthFailedError, NodeExistsError, NoNodeError, NotEmptyError, SessionExpiredError

from walferry.base.zk.client import children, retried
from walferry.base.zk.errors import ConnectError
from walferry.replication.peers.reading import Peer
from walferry.replication.peers.settings import PeerSettings
from walferry.replication.sinks.errors import Stopped
from walferry.replication.sinks.sink import SinkRequest
from walferry.replication.source.session import Session

SHARE_SECONDS = 1.0  # between two counts of the groups
SETTLE_SECONDS = 2.0  # a share is valid this long; by then the other groups have counted a new group
IDLE_SECONDS = 2.0  # a group that sends nothing for so long gives its share back
REQUESTS_A_SECOND = 4  # at least, even for a slow peer
LEAST_SHIPMENT_BYTES = 16 << 10
CYCLE_SECONDS = 0.1  # unused bytes of one cycle may be sent later; HBase's throttler has such cycles, too
SHORTEST_SECONDS = 0.001  # the shortest wait
SLICE_SECONDS = 0.25  # a waiting sender looks at the rate this often


class Throttle:
    """Spaces the requests of one group, of all its senders together, so that they keep to `rate` bytes per second.

    A request waits until the rate has allowed all its bytes since the request before it. So in any period, at most the rate's
    bytes, one request and the bytes of one cycle are sent.
    """

    def __init__(
        self, rate: float, stop: threading.Event, *,
        clock: Callable[[], float] = time.monotonic, wait: Callable[[float], bool] | None = None,
    ) -> None:  # fmt: skip
        self._rate = rate
        self._until = math.inf
        self._clock = clock
        self._wait = wait or stop.wait
        self._turn = threading.Lock()  # its holder waits for its bytes, the other senders for their turn
        self._lock = threading.Lock()
        self._allowed = 0.0  # bytes since the last request
        self._at = clock()

    def set_rate(self, rate: float, until: float = math.inf) -> None:
        """Allow `rate` bytes per second from now on, and nothing after `until` (on the clock)."""
        with self._lock:
            self._accrue()
            self._rate, self._until = rate, until

    def take(self, size: int, deadline: float) -> None:
        """Wait until `size` bytes may be sent, or until `deadline` (on the clock). Raises Stopped if the group is stopped."""
        with self._turn:
            while (pause := min(self.pause(size), deadline - self._clock())) > 0:
                if self._wait(min(pause, SLICE_SECONDS)):
                    raise Stopped

    def pause(self, size: int) -> float:
        """Return the seconds until `size` bytes are allowed at the present rate; on 0 they are allowed now, and count as sent."""
        with self._lock:
            self._accrue()
            if self._allowed >= size:
                self._allowed = min(self._allowed - size, self._rate * CYCLE_SECONDS)
                return 0.0
            return max(SHORTEST_SECONDS, (size - self._allowed) / self._rate) if self._rate else SLICE_SECONDS

    def _accrue(self) -> None:
        now = self._clock()
        self._allowed += self._rate * max(0.0, min(now, self._until) - self._at)
        self._at = now


class Sharers:
    """The groups that share a peer's bandwidth: each has a znode in a folder. This group's znode is ephemeral."""

    def __init__(self, zk: KazooClient, folder: str) -> None:
        self._zk = zk
        self._folder = folder
        self._token = uuid.uuid4().hex

    def join(self) -> int:
        """Make the group's znode and count them all, as `count` does. Raises ConnectError."""
        while True:
            retried(self._zk, self._zk.ensure_path, self._folder)
            try:
                retried(self._zk, self._zk.create, self._mine, ephemeral=True)
            except NoNodeError:  # the last group has just deleted the folder
                continue
            except NodeExistsError:  # our earlier request made it, but its answer was lost
                pass
            return self.count()

    def leave(self) -> None:
        """Delete the group's znode, and the folder after the last znode. If that fails, both go with the session."""
        for path in (self._mine, self._folder):
            with suppress(NoNodeError, NotEmptyError, ConnectError, SessionExpiredError, AuthFailedError):
                retried(self._zk, self._zk.delete, path)

    def count(self) -> int:
        """Return the number of groups; 0 if this group is not among them. Raises ConnectError."""
        tokens = children(self._zk, self._folder) or ()
        return len(tokens) if self._token in tokens else 0

    @property
    def _mine(self) -> str:
        return f"{self._folder}/{self._token}"


class Limit:
    """The limit of one group of a peer: its share of `bandwidth`, in bytes per second; 0 means no limit."""

    def __init__(
        self, bandwidth: int, sharers: Sharers, stop: threading.Event, *,
        clock: Callable[[], float] = time.monotonic, wait: Callable[[float], bool] | None = None,
    ) -> None:  # fmt: skip
        self._bandwidth = bandwidth
        self._sharers = sharers
        self._clock = clock
        self._lock = threading.Lock()
        self._sending = 0  # senders that wait for their bytes or for an acknowledgement
        self._sent = -math.inf  # when the last sender ended
        self._joined: float | None = None
        self._counted = -math.inf
        self.throttle = Throttle(0, stop, clock=clock, wait=wait)

    def settings(self, settings: PeerSettings) -> PeerSettings:
        """Return `settings` with requests small enough for REQUESTS_A_SECOND."""
        if not self._bandwidth:
            return settings
        most = max(LEAST_SHIPMENT_BYTES, self._bandwidth // REQUESTS_A_SECOND)
        return replace(settings, shipment_bytes=min(settings.shipment_bytes, most))

    def send(
        self, send: Callable[[Sequence[SinkRequest], float], None], requests: Sequence[SinkRequest], deadline: float
    ) -> None:
        """Call `send` with each request as soon as it may be sent, or at the deadline; with all at once if there is no limit.

        Raises Stopped, and the errors of `send`.
        """
        if not self._bandwidth:
            send(requests, deadline)
            return
        with self.sending():
            for request in requests:
                self.throttle.take(request.size, deadline)
                send([request], deadline)

    @contextmanager
    def sending(self) -> Iterator[None]:
        """Have the group take a share for the length of the block, and for a moment longer."""
        with self._lock:
            self._sending += 1
        try:
            yield
        finally:
            with self._lock:
                self._sending -= 1
                self._sent = self._clock()

    def look(self) -> None:
        """Take a share, adapt it to the number of groups, or give it back, as the group needs. Raises ConnectError."""
        if not self._bandwidth:
            return
        now = self._clock()
        if not self._sending and now - self._sent >= IDLE_SECONDS:
            self.leave()
        elif self._joined is None:
            self._join(now)
        elif now - self._counted >= SHARE_SECONDS:
            self._share(now, self._joined)

    def leave(self) -> None:
        """Give the share back."""
        if self._joined is not None:
            self.throttle.set_rate(0)
            self._joined = None
            self._sharers.leave()

    def _join(self, now: float) -> None:
        self.throttle.set_rate(0)
        alone = self._sharers.join() == 1
        self._joined, self._counted = self._clock(), now
        if alone:
            self.throttle.set_rate(self._bandwidth, now + SETTLE_SECONDS)

    def _share(self, now: float, joined: float) -> None:
        count = self._sharers.count()
        if not count:  # the session has expired, so the others share without this group
            self._join(now)
            return
        self._counted = now
        if count == 1 or now - joined >= SETTLE_SECONDS:
            self.throttle.set_rate(self._bandwidth / count, now + SETTLE_SECONDS)


@contextmanager
def limit_of(peer: Peer, session: Session, stop: threading.Event) -> Iterator[Limit]:
    """Yield the limit of one group of the peer. After the block the group gives its share back."""
    limit = Limit(peer.bandwidth, Sharers(session.zk, session.own.shipping(peer.id)), stop)
    try:
        yield limit
    finally:
        limit.leave()
