"""How many calls the senders of a task have under way to each server of the slave, all together."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from walferry.hbase.names import ServerName


class Share:
    """A sender has one call to a server under way whenever it wants; and several, side by side, as long as there are fewer of all
    senders together than there are senders.

    So a slave gets no more calls at once than if each sender had work and made one, and senders without work leave theirs to
    those that have much: with a slave that is far away, or a table of few regions, each answer takes its time.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._senders = 0
        self._held: dict[ServerName, list[int]] = {}

    def join(self) -> None:
        """There is one more sender."""
        with self._lock:
            self._senders += 1

    @contextmanager
    def of(self, server: ServerName, wanted: int) -> Iterator[int]:
        """How many of the `wanted` calls to `server` the sender may have under way during the block: one at least."""
        with self._lock:
            held = self._held.setdefault(server, [])
            fair = -(-self._senders // (len(held) + 1))
            mine = max(1, min(wanted, fair, self._senders - sum(held)))
            held.append(mine)
        try:
            yield mine
        finally:
            with self._lock:
                held.remove(mine)
