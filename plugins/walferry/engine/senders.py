"""Sends requests from several threads: each sender sends in order, and all send side by side.

An entry's region, hashed, chooses its sender, so a region's edits stay with one sender and keep their order. Requests are filled
and queued, one at a time for each sender. All senders together hold a bounded number of bytes. The sink makes the requests.

Each acknowledgement takes a round trip, however small the request. So a sender sends everything that was queued since its last
send at once, and waits for the acknowledgement: this is little to a peer cluster that keeps up, and more to a peer cluster that
is far away. It takes no more than is acknowledged within about a second, because positions move only then.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from walferry.engine.in_flight import InFlight, WalOffset
from walferry.hbase.wal.wal_batches import WalBatch
from walferry.replication.filters.entry_filter import KeptEdits
from walferry.replication.peers.settings import PeerSettings
from walferry.replication.sinks.errors import Stopped
from walferry.replication.sinks.sink import Ints, SinkRequest, Take

SECONDS = 1.0  # within which requests sent at once should be acknowledged
MOST_BYTES = 16 << 20  # sent at once


Send = Callable[[Sequence[SinkRequest]], object]
"""Sends requests, in order, and returns when all are acknowledged; raises when trying again does not help."""


class Budget:
    """Limits the bytes that are held at once. A piece larger than the whole budget passes when nothing else is held."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._held = 0
        self._stopped = False
        self._changed = threading.Condition()

    def take(self, size: int) -> None:
        """Wait until `size` bytes fit. Raises Stopped if the group is stopped meanwhile."""
        with self._changed:
            self._changed.wait_for(lambda: self._stopped or self._held == 0 or self._held + size <= self._size)
            if self._stopped:
                raise Stopped
            self._held += size

    def give_back(self, size: int) -> None:
        """Note that `size` bytes are no longer held."""
        with self._changed:
            self._held -= size
            self._changed.notify_all()

    def stop(self) -> None:
        """Wake the waiting thread."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()


@dataclass(frozen=True)
class Queued:
    """A request, and its number among the requests in flight."""

    number: int
    request: SinkRequest
    alone: bool = False


class SenderQueue:
    """The requests that wait for one sender, in order. Any thread may put requests; the sender's own thread gets them."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._queued: deque[Queued] = deque()
        self._ended = False

    def __len__(self) -> int:
        return len(self._queued)

    def put(self, queued: Queued) -> None:
        """Add a request."""
        with self._changed:
            self._queued.append(queued)
            self._changed.notify()

    def end(self) -> None:
        """Note that no more requests will be put."""
        with self._changed:
            self._ended = True
            self._changed.notify()

    def get(self, most_bytes: float) -> list[Queued]:
        """Wait for a request, and take it with the requests behind it that together have at most `most_bytes`.

        A request that goes alone is taken alone. Returns an empty list if no more requests will come.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._queued or self._ended)
            some = [self._queued.popleft()] if self._queued else []
            left = most_bytes - sum(each.request.size for each in some)
            while self._queued and self._queued[0].request.size <= left and not (some[0].alone or self._queued[0].alone):
                some.append(self._queued.popleft())
                left -= some[-1].request.size
            return some


class SenderPace:
    """Decides how many bytes a sender may send at once: more and more while acknowledgements come in time, otherwise fewer."""

    def __init__(self, most_bytes: int) -> None:
        self._most = min(most_bytes, MOST_BYTES)
        self.bytes = 0.0

    def acknowledged(self, size: int, seconds: float) -> None:
        """Note that `size` bytes that were sent at once took so many `seconds`."""
        if seconds <= SECONDS:
            self.bytes = max(self.bytes, min(self._most, 2 * size))
        else:
            self.bytes = min(self.bytes, size * SECONDS / seconds)


@dataclass
class _Open:
    """A request that is still being filled."""

    number: int
    parts: list[SinkRequest]
    size: int = 0
    entries: int = 0


class Senders:
    """One thread for each of `sends`. `dispatch`, `flush` and `finish` belong to the one reader thread."""

    def __init__(
        self, sends: Sequence[Send], join: Callable[[Sequence[SinkRequest]], SinkRequest], in_flight: InFlight,
        settings: PeerSettings, *, stop: threading.Event, on_acknowledged: Callable[[SinkRequest], None],
        on_failure: Callable[[BaseException], None],
    ) -> None:  # fmt: skip
        self._in_flight = in_flight
        self._join = join
        # Requests that are being filled are held too.
        self._limits = replace(settings, shipment_bytes=min(settings.shipment_bytes, settings.buffer_bytes // (2 * len(sends))))
        self._on_acknowledged = on_acknowledged
        self._on_failure = on_failure
        self._budget = Budget(settings.buffer_bytes - len(sends) * self._limits.shipment_bytes)
        self._open: list[_Open | None] = [None] * len(sends)
        self._queues = [SenderQueue() for _ in sends]
        self._stop = stop
        self._threads = [
            threading.Thread(target=self._send_all, args=(send, q), name=f"sender-{i}", daemon=True)
            for i, (send, q) in enumerate(zip(sends, self._queues, strict=True))
        ]
        for thread in self._threads:
            thread.start()

    def dispatch(self, batch: WalBatch, kept: KeptEdits, wal: int, take: Take) -> None:
        """Hand the entries of a WAL batch that the sink takes to the senders; wait while too much is held. Raises Stopped.

        An entry that goes alone does so after the entries that its sender already has.
        """
        if self._stop.is_set():
            raise Stopped
        chosen = take.entries
        for some in _fitting(chosen, kept.size, self._limits.buffer_bytes // 8, chosen.size):
            self._dispatch(some, batch, kept, wal, take)
            self._in_flight.read_to(WalOffset(wal, int(batch.next_positions[some[-1]])))

    def _dispatch(self, chosen: Ints, batch: WalBatch, kept: KeptEdits, wal: int, take: Take) -> None:
        """Hand out sender by sender. Until all senders have their entries, no position passes the first of these entries."""
        sender_of = batch.index.region_hash[chosen] % np.uint64(len(self._queues))
        for sender in range(len(self._queues)):
            for part in _parts(chosen[sender_of == sender], kept.size, self._limits, take.alone):
                first = WalOffset(wal, batch.entry_offset(part[0]))
                written = int(batch.index.write_time[part[0]])
                if int(part[0]) in take.alone:
                    self._flush(sender)
                    self._queue(sender, Queued(self._in_flight.begin(first, written), take.request(part), alone=True))
                else:
                    self._add(sender, first, written, take, part, int(kept.size[part].sum()))

    def flush(self) -> None:
        """Queue the requests that are being filled, as at the end of a file."""
        for sender in range(len(self._queues)):
            self._flush(sender)

    def finish(self) -> None:
        """Flush, and let the senders end when all is sent."""
        self.flush()
        for q in self._queues:
            q.end()

    def stop(self) -> None:
        """Send no further request; requests under way go on."""
        self._stop.set()
        self._budget.stop()
        for q in self._queues:
            q.end()

    @property
    def running(self) -> bool:
        """Whether any sender is still at work."""
        return any(t.is_alive() for t in self._threads)

    def join(self, timeout: float) -> bool:
        """Wait at most `timeout` seconds for the senders to end. Returns whether all have ended."""
        give_up = time.monotonic() + timeout
        for thread in self._threads:
            thread.join(max(0.0, give_up - time.monotonic()))
        return not self.running

    def _add(self, sender: int, first: WalOffset, written: int, take: Take, part: Ints, size: int) -> None:
        request = take.request(part)  # first: if this raises, no empty request is left open
        open_ = self._open[sender]
        limits = self._limits
        if open_ and (open_.size + size > limits.shipment_bytes or open_.entries + part.size > limits.shipment_entries):
            self._flush(sender)
            open_ = None
        if open_ is None:
            open_ = self._open[sender] = _Open(self._in_flight.begin(first, written), [])
        open_.parts.append(request)
        open_.size += size
        open_.entries += int(part.size)
        if open_.size >= limits.shipment_bytes or open_.entries >= limits.shipment_entries:
            self._flush(sender)

    def _flush(self, sender: int) -> None:
        open_, self._open[sender] = self._open[sender], None
        if open_:
            self._queue(sender, Queued(open_.number, self._join(open_.parts)))

    def _queue(self, sender: int, queued: Queued) -> None:
        self._budget.take(queued.request.size)
        self._queues[sender].put(queued)

    def _send_all(self, send: Send, queued: SenderQueue) -> None:
        pace = SenderPace(self._limits.buffer_bytes // 4)
        while (some := queued.get(pace.bytes)) and not self._stop.is_set():
            began = time.monotonic()
            try:
                send([each.request for each in some])
            except BaseException as error:  # no later position can be registered, so the other senders and the reader end too
                self._on_failure(error)
                self.stop()
                return
            size = sum(each.request.size for each in some)
            pace.acknowledged(size, time.monotonic() - began)
            for each in some:
                self._on_acknowledged(each.request)  # first: edits must be counted before their position may be registered
                self._in_flight.acknowledge(each.number)
            self._budget.give_back(size)


def _parts(chosen: Ints, size: Ints, limits: PeerSettings, alone: Collection[int]) -> Iterator[Ints]:
    """Yield `chosen` in parts that each fit into a request, or are one entry; each entry of `alone` is a part of its own."""
    if not alone:
        yield from _fitting(chosen, size, limits.shipment_bytes, limits.shipment_entries)
        return
    at = np.flatnonzero(np.isin(chosen, np.array(list(alone))))
    for part in np.split(chosen, np.union1d(at, at + 1)):
        yield from _fitting(part, size, limits.shipment_bytes, limits.shipment_entries)


def _fitting(chosen: Ints, size: Ints, most_bytes: int, most_entries: int) -> Iterator[Ints]:
    ends = np.cumsum(size[chosen])
    start = 0
    while start < chosen.size:
        before = int(ends[start - 1]) if start else 0
        fit = int(np.searchsorted(ends, before + most_bytes, side="right"))
        stop = max(start + 1, min(fit, start + most_entries))
        yield chosen[start:stop]
        start = stop
