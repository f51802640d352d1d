"""What waits for a sender, and how much of it the sender sends at once.

Each acknowledgement takes a round trip, however little it is for. So a sender sends all that has been queued since it sent the
last time: little to a slave that keeps up, and more to one that is far away. It takes no more than is acknowledged within about a
second, because positions move only then.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass

from walferry.replication.sinks.sink import SinkRequest

SECONDS = 1.0  # within which what is sent at once should be acknowledged
MOST_BYTES = 16 << 20  # that are sent at once


@dataclass(frozen=True)
class Queued:
    """A request, and its number among those in flight."""

    number: int
    request: SinkRequest
    alone: bool = False


class SenderQueue:
    """The requests that wait for one sender, in order. Any thread may put some; the sender's own gets them."""

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
        """Nothing more will be put."""
        with self._changed:
            self._ended = True
            self._changed.notify()

    def get(self, most_bytes: float) -> list[Queued]:
        """Wait for a request, and take it and those behind it that together have at most so many bytes. One that goes alone is
        taken alone. Empty if there are no more."""
        with self._changed:
            self._changed.wait_for(lambda: self._queued or self._ended)
            some = [self._queued.popleft()] if self._queued else []
            left = most_bytes - sum(each.request.size for each in some)
            while self._queued and self._queued[0].request.size <= left and not (some[0].alone or self._queued[0].alone):
                some.append(self._queued.popleft())
                left -= some[-1].request.size
            return some


class SenderPace:
    """How many bytes a sender may send at once: more and more while they are acknowledged in time, otherwise fewer."""

    def __init__(self, most_bytes: int) -> None:
        self._most = min(most_bytes, MOST_BYTES)
        self.bytes = 0.0

    def acknowledged(self, size: int, seconds: float) -> None:
        """What was sent at once had `size` bytes, and took so long."""
        if seconds <= SECONDS:
            self.bytes = max(self.bytes, min(self._most, 2 * size))
        else:
            self.bytes = min(self.bytes, size * SECONDS / seconds)
