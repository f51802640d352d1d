"""Chooses the RegionServers that take shipments: a random subset of the live ones, as in HBase's ReplicationSinkManager.

Unlike HBase's, this manager avoids for a while a server that did not answer or could not be reached. A server whose process hangs
stays registered in ZooKeeper as long as its session, and each further request to it would cost a whole call timeout.
"""

from __future__ import annotations

import logging
import math
import random
import threading
import time
from collections.abc import Callable, Sequence

from walferry.base.errors import WalferryError
from walferry.base.texts import one_line
from walferry.hbase.names import ServerName

REFRESH_SECONDS = 60.0
MAX_PROBLEM_CHARS = 1000  # a peer cluster may give its servers names of any length
AVOID_SECONDS = 600.0  # how long a server that did not answer is not chosen, if there are others

log = logging.getLogger(__name__)


class NoSinks(WalferryError):
    """The peer cluster has no live RegionServer, or its RegionServers cannot be listed."""


class SinkManager:
    """The current subset of the servers that `list_servers` returns. All senders of a task share one manager; it is thread-safe.

    The subset contains `ratio` (0 to 1) of the servers, rounded up, so at least one. It is drawn again by `redraw`, when the
    peer cluster's servers have changed (checked every REFRESH_SECONDS), and when reports have emptied it. If `list_servers`
    raises, the subset stays as it is.
    """

    def __init__(
        self,
        list_servers: Callable[[], Sequence[ServerName] | frozenset[ServerName]],
        ratio: float,
        *,
        bad_sink_threshold: int = 3,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not 0 < ratio <= 1:
            raise ValueError(f"the ratio of RegionServers to ship to is {ratio}; it must be over 0 and at most 1")
        self._list_servers = list_servers
        self._ratio = ratio
        self._bad_sink_threshold = bad_sink_threshold
        self._clock = clock
        self._lock = threading.Lock()
        self._live: frozenset[ServerName] = frozenset()
        self._sinks: list[ServerName] = []
        self._bad_reports: dict[ServerName, int] = {}
        self._avoided_until: dict[ServerName, float] = {}
        self._listed_at: float | None = None
        self._problem = "its RegionServers have not been listed yet"

    @property
    def sinks(self) -> frozenset[ServerName]:
        """The current subset."""
        with self._lock:
            return frozenset(self._sinks)

    @property
    def has_others(self) -> bool:
        """Whether there is a live server that has always answered, or was not tried."""
        with self._lock:
            return bool(self._good())

    def choose(self) -> ServerName:
        """Return a random member of the subset. Raises NoSinks, saying why there is none."""
        with self._lock:
            if not self._sinks:
                self._list()
                self._draw()
            elif self._listed_at is None or self._clock() - self._listed_at >= REFRESH_SECONDS:
                before = self._live
                self._list()
                if self._live != before:
                    self._draw()
            if not self._sinks:
                raise NoSinks(self._problem)
            return random.choice(self._sinks)

    def report_bad(self, server: ServerName) -> None:
        """Note that `server` answered with an error. After more errors in a row than the threshold it leaves the subset."""
        with self._lock:
            self._bad_reports[server] = self._bad_reports.get(server, 0) + 1
            if self._bad_reports[server] > self._bad_sink_threshold:
                self._leave(server)

    def report_gone(self, server: ServerName) -> None:
        """Note that `server` did not answer or could not be reached. It leaves the subset; others are preferred for a while."""
        with self._lock:
            self._avoided_until[server] = self._clock() + AVOID_SECONDS
            self._leave(server)

    def report_good(self, server: ServerName) -> None:
        """Note that `server` acknowledged a shipment."""
        with self._lock:
            self._bad_reports.pop(server, None)
            self._avoided_until.pop(server, None)

    def redraw(self) -> None:
        """List the peer cluster's servers and draw a new subset."""
        with self._lock:
            self._list()
            self._draw()

    def _leave(self, server: ServerName) -> None:
        if server in self._sinks:
            self._sinks.remove(server)

    def _list(self) -> None:
        self._listed_at = self._clock()
        try:
            self._live = frozenset(self._list_servers())
        except Exception as error:  # of any kind: a peer cluster that cannot be asked now may come back
            why = one_line(str(error) or type(error).__name__, MAX_PROBLEM_CHARS)
            self._problem = f"its RegionServers cannot be listed: {why}"
            log.warning("%s; going on with those known", self._problem)
        else:
            self._problem = "it has no live RegionServer"

    def _good(self) -> list[ServerName]:
        """Return the live servers that are not avoided."""
        now = self._clock()
        return sorted(server for server in self._live if self._avoided_until.get(server, 0.0) <= now)

    def _draw(self) -> None:
        count, good = math.ceil(len(self._live) * self._ratio), self._good()
        self._sinks = random.sample(good or sorted(self._live), min(count, len(good) or count))
        self._bad_reports.clear()
