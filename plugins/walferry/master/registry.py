"""The RegionServers that this master has given up, and what a server is told when it starts or reports.

Which servers are live is for ZooKeeper to say, so nothing is kept of those that report: callers are whoever they say they are.

Source: HBase's ServerManager (branch-1.4). It also gives up a server when a newer one says that it has the same host and port.
Here the end of its session decides that too: otherwise any caller could make live servers abort. And HBase forgets a dead server
then; here it is never forgotten, because no later server has its start code.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from walferry.hbase.names import ServerName
from walferry.hbase.rpc.server_codec import CallRefused, JavaException

MAX_SKEW_SECONDS = 30.0  # hbase.master.maxclockskew
WARNING_SKEW_SECONDS = 10.0  # hbase.master.warningclockskew

log = logging.getLogger(__name__)


class ServerRegistry:
    """The servers that were given up. Any thread may use it."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._dead: set[ServerName] = set()

    @property
    def dead(self) -> frozenset[ServerName]:
        """The servers that were given up."""
        with self._lock:
            return frozenset(self._dead)

    def start(self, server: ServerName, its_clock_ms: int) -> None:
        """Let a server start. Raises Refused if its clock is far off, or if it was given up."""
        skew = abs(self._clock() - its_clock_ms / 1000)
        if skew > MAX_SKEW_SECONDS:
            message = f"the clock of {server} is {skew:.1f} s off its master's; at most {MAX_SKEW_SECONDS:g} s are allowed"
            raise CallRefused(JavaException.CLOCK_OUT_OF_SYNC, message)
        if skew > WARNING_SKEW_SECONDS:
            log.warning("the clock of %s is %.1f s off; a server is refused from %g s on", server, skew, MAX_SKEW_SECONDS)
        self._check(server, "starts")

    def report(self, server: ServerName) -> None:
        """Take a server's report. It may have started under another master. Raises Refused if it was given up."""
        self._check(server, "reports")

    def give_up(self, server: ServerName) -> None:
        """Tell the server from now on that it is dead. Call this before its WALs are fenced."""
        with self._lock:
            self._dead.add(server)

    def _check(self, server: ServerName, what: str) -> None:
        with self._lock:
            if server in self._dead:
                raise CallRefused(
                    JavaException.YOU_ARE_DEAD, f"{server} {what}, but its regions are being opened at other servers"
                )
