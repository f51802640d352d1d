"""Keeps what a peer's groups send within the peer's bandwidth.

HBase's throttler counts for one RegionServer, so the peer gets its bandwidth from each server. Here `bandwidth` is the limit of
all groups of the peer together, whichever task or run ships them. Each group that ships has an ephemeral znode beside those of
the others, counts them every second, and takes an equal share:

    <root>/shipping/<quoted znode parent>/<quoted peer>/<token>

A group that is not alone sends nothing until the others have seen it, so the shares together keep to the bandwidth. As in HBase,
the edits of a request count, once however often it is sent, and not the files that a bulk load has the slave copy.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError, NoNodeError, NotEmptyError, SessionExpiredError

from walferry.hbase.peers import Peer
from walferry.sinks.errors import Stopped
from walferry.sinks.sink import Request
from walferry.source.knobs import Knobs
from walferry.source.session import Session
from walferry.zk.client import children, retried
from walferry.zk.errors import ConnectError

SHARE_SECONDS = 1.0  # between two looks at how many groups ship
SETTLE_LOOKS = 2  # after which the other groups have seen a new one
LEAST_SHIPMENT_BYTES = 16 << 10
CYCLE_SECONDS = 0.1  # of which what was not used may be sent later; HBase's throttler counts by such cycles, too
SHORTEST_SECONDS = 0.001  # of a wait
SLICE_SECONDS = 0.25  # after which a waiting lane takes a new rate into account


class Throttle:
    """Spaces the requests of one group, of all its lanes together, so that they keep to `rate` bytes a second.

    A request waits until the rate has allowed for all its bytes since the request before it. So in any period no more bytes are
    sent than the rate allows, one request, and the bytes of one cycle.
    """

    def __init__(
        self, rate: float, stop: threading.Event, *,
        clock: Callable[[], float] = time.monotonic, wait: Callable[[float], bool] | None = None,
    ) -> None:  # fmt: skip
        self._rate = rate
        self._clock = clock
        self._wait = wait or stop.wait
        self._turn = threading.Lock()  # one lane waits for its bytes, the others for their turn
        self._lock = threading.Lock()
        self._allowed = 0.0  # bytes, since the last request
        self._at = clock()

    def set_rate(self, rate: float) -> None:
        """From now on allow `rate` bytes a second; 0 holds everything back."""
        with self._lock:
            self._accrue()
            self._rate = rate

    def take(self, size: int, deadline: float) -> None:
        """Wait until `size` bytes may be sent, or until `deadline` (on the clock). Raises Stopped if the group is stopped."""
        with self._turn:
            while (pause := min(self.pause(size), deadline - self._clock())) > 0:
                if self._wait(min(pause, SLICE_SECONDS)):
                    raise Stopped

    def pause(self, size: int) -> float:
        """Seconds until `size` bytes are allowed, at the present rate; 0 if they are, and then they count as sent."""
        with self._lock:
            self._accrue()
            if self._allowed >= size:
                self._allowed = min(self._allowed - size, self._rate * CYCLE_SECONDS)
                return 0.0
            return max(SHORTEST_SECONDS, (size - self._allowed) / self._rate) if self._rate else SLICE_SECONDS

    def _accrue(self) -> None:
        now = self._clock()
        self._allowed += self._rate * (now - self._at)
        self._at = now


class Limit:
    """What one group of a peer may send: its share of `bandwidth`, which is bytes a second, or 0 for no limit.

    `count` tells how many of the peer's groups ship now, with this one.
    """

    def __init__(
        self, bandwidth: int, count: Callable[[], int], stop: threading.Event, *,
        clock: Callable[[], float] = time.monotonic, wait: Callable[[float], bool] | None = None,
    ) -> None:  # fmt: skip
        self._bandwidth = bandwidth
        self._count = count
        self._clock = clock
        self._looked = clock()
        alone = not bandwidth or count() <= 1
        self._looks_to_wait = 0 if alone else SETTLE_LOOKS
        self.throttle = Throttle(bandwidth if alone else 0, stop, clock=clock, wait=wait)

    def knobs(self, knobs: Knobs) -> Knobs:
        """`knobs` with requests that are small enough to be sent every second or so."""
        if not self._bandwidth:
            return knobs
        return replace(knobs, shipment_bytes=min(knobs.shipment_bytes, max(LEAST_SHIPMENT_BYTES, self._bandwidth)))

    def send(self, send: Callable[[Request, float], None], request: Request, deadline: float) -> None:
        """Call `send` as soon as the request may be sent, or at the deadline. Raises Stopped, and what `send` raises."""
        if self._bandwidth:
            self.throttle.take(request.size, deadline)
        send(request, deadline)

    def look(self) -> None:
        """Count the groups that ship, and take an equal share, if the last look was SHARE_SECONDS ago. Raises ConnectError."""
        if not self._bandwidth or self._clock() - self._looked < SHARE_SECONDS:
            return
        self._looked = self._clock()
        self._looks_to_wait -= 1
        if self._looks_to_wait <= 0:
            self.throttle.set_rate(self._bandwidth / max(1, self._count()))


@contextmanager
def limit_of(peer: Peer, session: Session, stop: threading.Event) -> Iterator[Limit]:
    """The limit of one group of the peer, which counts as shipping for the length of the block. Raises ConnectError."""
    if not peer.bandwidth:
        yield Limit(0, lambda: 1, stop)
        return
    zk, folder = session.zk, session.own.shipping(peer.id)
    mine = f"{folder}/{uuid.uuid4().hex}"
    _join(zk, folder, mine)
    try:
        yield Limit(peer.bandwidth, lambda: len(children(zk, folder) or ()), stop)
    finally:
        with suppress(NoNodeError, NotEmptyError, ConnectError, SessionExpiredError):  # mine goes with the session
            retried(zk, zk.delete, mine)
            retried(zk, zk.delete, folder)


def _join(zk: KazooClient, folder: str, mine: str) -> None:
    while True:
        retried(zk, zk.ensure_path, folder)
        try:
            retried(zk, zk.create, mine, ephemeral=True)
        except NoNodeError:  # the last group has just deleted the folder
            continue
        except NodeExistsError:  # made by a request of ours whose answer was lost
            pass
        return
