"""Lanes: connections of one task that send side by side, each in order.

An entry's lane is a hash of its region, so a region's edits stay in one lane and keep their order. A lane fills a shipment, then
queues it; its thread sends one shipment at a time and waits for the acknowledgement. All lanes together hold a bounded number
of bytes.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from walferry.filters.window import Kept
from walferry.shipping.acknowledged import Acknowledged, WalOffset
from walferry.sinks.hbase.shipment import Bytes, Ints, Shipment, assemble, join
from walferry.wal.windows import Window

LANES_OF_A_JOB = 8  # about as many as HBase's replication.source.maxthreads, by which it sends one queue
LANES_OF_A_GROUP = 2


def lanes_of_each(groups: int) -> int:
    """How many lanes each of a job's groups has: one that is alone, as in a recovered queue's drain, has those of all."""
    return max(LANES_OF_A_GROUP, LANES_OF_A_JOB // groups)


class Stopped(Exception):
    """The group's shipping was stopped; the reader has nothing more to do."""


class Ships(Protocol):
    """Sends one shipment and returns when a sink has acknowledged it; raises when there is no use in trying on."""

    def __call__(self, shipment: Shipment) -> object: ...


@dataclass(frozen=True)
class LaneLimits:
    """How much is sent at once and held."""

    shipment_bytes: int = 2 << 20  # measured: 1 to 4 MB are as good as any
    shipment_entries: int = 25_000  # HBase's replication.source.nb.capacity
    buffer_bytes: int = 64 << 20  # of all lanes: HBase's replication.source.size.capacity


class Budget:
    """Bytes that may be held at once. What is larger than the whole budget is let through when nothing else is held."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._held = 0
        self._stopped = False
        self._changed = threading.Condition()

    def take(self, size: int) -> None:
        """Wait until `size` bytes fit. Raises Stopped when the group is stopped meanwhile."""
        with self._changed:
            self._changed.wait_for(lambda: self._stopped or self._held == 0 or self._held + size <= self._size)
            if self._stopped:
                raise Stopped
            self._held += size

    def give_back(self, size: int) -> None:
        """`size` bytes are no longer held."""
        with self._changed:
            self._held -= size
            self._changed.notify_all()

    def stop(self) -> None:
        """Wake whoever waits."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()


@dataclass
class _Open:
    """A shipment that is still being filled."""

    ticket: int
    parts: list[Shipment]
    size: int = 0
    entries: int = 0


class Lanes:
    """`len(ships)` lanes. `dispatch`, `flush` and `finish` belong to the one reader thread."""

    def __init__(
        self, ships: list[Ships], acknowledged: Acknowledged, mark: Bytes, limits: LaneLimits, *, stop: threading.Event,
        on_acknowledged: Callable[[Shipment], None], on_failure: Callable[[BaseException], None],
    ) -> None:  # fmt: skip
        self._acknowledged = acknowledged
        self._mark = mark
        # What the lanes have begun to fill is held too.
        self._limits = replace(limits, shipment_bytes=min(limits.shipment_bytes, limits.buffer_bytes // (2 * len(ships))))
        self._on_acknowledged = on_acknowledged
        self._on_failure = on_failure
        self._budget = Budget(limits.buffer_bytes - len(ships) * self._limits.shipment_bytes)
        self._open: list[_Open | None] = [None] * len(ships)
        self._queues: list[queue.SimpleQueue[tuple[int, Shipment] | None]] = [queue.SimpleQueue() for _ in ships]
        self._stop = stop
        self._threads = [
            threading.Thread(target=self._send_all, args=(ship, q), name=f"lane-{i}", daemon=True)
            for i, (ship, q) in enumerate(zip(ships, self._queues, strict=True))
        ]
        for thread in self._threads:
            thread.start()

    def dispatch(self, window: Window, kept: Kept, wal: int, alone: Mapping[int, Shipment] | None = None) -> None:
        """Hand the kept entries of a window to their lanes; waits while too much is held. Raises Stopped.

        The entries in `alone` go by themselves, as the shipments given, in their lane and after what is before them in it.
        """
        if self._stop.is_set():
            raise Stopped
        chosen = np.flatnonzero(kept.cells)
        if alone:
            chosen = np.union1d(chosen, np.array(sorted(alone)))
        for some in _fitting(chosen, kept.size, self._limits.buffer_bytes // 8, chosen.size):
            self._dispatch(some, window, kept, wal, alone or {})
            self._acknowledged.read_to(WalOffset(wal, int(window.next_positions[some[-1]])))

    def _dispatch(self, chosen: Ints, window: Window, kept: Kept, wal: int, alone: Mapping[int, Shipment]) -> None:
        """Lane by lane: until all have theirs no position passes the first of these entries."""
        lane_of = window.index.region_hash[chosen] % np.uint64(len(self._queues))
        for lane in range(len(self._queues)):
            for part in _parts(chosen[lane_of == lane], kept.size, self._limits, alone):
                first = WalOffset(wal, window.entry_offset(part[0]))
                if int(part[0]) in alone:
                    self._flush(lane)
                    ticket = self._acknowledged.take(first, int(window.index.write_time[part[0]]))
                    self._queue(lane, ticket, alone[int(part[0])])
                else:
                    self._add(lane, first, window, kept, part)

    def flush(self) -> None:
        """Queue what the lanes have begun to fill, as at the end of a file."""
        for lane in range(len(self._queues)):
            self._flush(lane)

    def finish(self) -> None:
        """Flush, and let the lanes end when all is sent."""
        self.flush()
        for q in self._queues:
            q.put(None)

    def stop(self) -> None:
        """Send nothing more but what is on its way."""
        self._stop.set()
        self._budget.stop()
        for q in self._queues:
            q.put(None)

    @property
    def running(self) -> bool:
        """Whether any lane is still at work."""
        return any(t.is_alive() for t in self._threads)

    def join(self, timeout: float) -> bool:
        """Wait for the lanes to end, at most `timeout` seconds; whether all did."""
        give_up = time.monotonic() + timeout
        for thread in self._threads:
            thread.join(max(0.0, give_up - time.monotonic()))
        return not self.running

    def _add(self, lane: int, first: WalOffset, window: Window, kept: Kept, part: Ints) -> None:
        open_ = self._open[lane]
        size = int(kept.size[part].sum())
        limits = self._limits
        if open_ and (open_.size + size > limits.shipment_bytes or open_.entries + part.size > limits.shipment_entries):
            self._flush(lane)
            open_ = None
        if open_ is None:
            open_ = self._open[lane] = _Open(self._acknowledged.take(first, int(window.index.write_time[part[0]])), [])
        shipment = assemble(window, kept, part, self._mark)
        open_.parts.append(shipment)
        open_.size += size
        open_.entries += int(part.size)
        if open_.size >= limits.shipment_bytes or open_.entries >= limits.shipment_entries:
            self._flush(lane)

    def _flush(self, lane: int) -> None:
        open_, self._open[lane] = self._open[lane], None
        if open_:
            self._queue(lane, open_.ticket, join(open_.parts))

    def _queue(self, lane: int, ticket: int, shipment: Shipment) -> None:
        self._budget.take(shipment.size)
        self._queues[lane].put((ticket, shipment))

    def _send_all(self, ship: Ships, shipments: queue.SimpleQueue[tuple[int, Shipment] | None]) -> None:
        while (item := shipments.get()) is not None and not self._stop.is_set():
            ticket, shipment = item
            try:
                ship(shipment)
            except BaseException as e:  # nothing behind this shipment can be registered: the other lanes and the reader end too
                self._on_failure(e)
                self.stop()
                return
            self._on_acknowledged(shipment)  # first: what may be registered has been counted
            self._acknowledged.close(ticket)
            self._budget.give_back(shipment.size)


def _parts(chosen: Ints, size: Ints, limits: LaneLimits, alone: Mapping[int, Shipment]) -> Iterator[Ints]:
    """`chosen` cut so that no part exceeds a shipment, unless a single entry does, and that each of `alone` is a part."""
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
