"""Tracks for how long a client's session surely goes on, as far as the client itself can know.

ZooKeeper ends a session when it has not heard from the client for the session's negotiated time. The client cannot know when
ZooKeeper last heard from it, but it knows when it *sent* the last answered request or ping, which ZooKeeper cannot have heard
earlier. So a session goes on for at least its negotiated time from that moment, whatever has happened to the network or to this
process since.

The clock is CLOCK_BOOTTIME. It goes on while the process is stopped, while its threads wait for a processor, and while the
machine is suspended, when CLOCK_MONOTONIC stands still. If a hypervisor stops a whole machine, perhaps none of its clocks shows
it. Then the part about to be sent goes out late, which no client can prevent, and ZooKeeper's first answer ends the rest.
"""

from __future__ import annotations

import time
from collections import deque
from typing import Any

PING_XID = -2


def now() -> float:
    """Return the seconds on a clock that goes on while this process or its machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Heard:
    """The time at which a client sent its last answered request. The connection's thread writes it, any thread may read it."""

    def __init__(self) -> None:
        self.session_seconds = 0.0  # as negotiated
        self._at = float("-inf")
        self._sent: deque[tuple[int, float]] = deque()  # unanswered requests and pings

    @property
    def seconds(self) -> float:
        """The seconds since the last answered request was sent."""
        return now() - self._at

    def connected(self, began: float, session_seconds: float) -> None:
        """Note that a server has accepted the session, over a connection that was begun at a moment of `now`."""
        self.session_seconds = session_seconds
        self._at = max(self._at, began)

    def connecting(self) -> None:
        """Note that no request sent before will be answered."""
        self._sent.clear()

    def sending(self, xid: int) -> None:
        """Note that a request is going to be sent."""
        self._sent.append((xid, now()))

    def answered(self, xid: int) -> None:
        """Note the answer to a request. Answers come in the order of the requests; other messages are ignored."""
        if all(each != xid for each, _ in self._sent):
            return
        while True:
            each, at = self._sent.popleft()
            if each == xid:
                self._at = max(self._at, at)
                return


def listen(connection: Any) -> Heard:
    """Note the requests and answers on kazoo's connection, by replacing its methods: kazoo offers no hook for this."""
    heard = Heard()
    connect, submit, read = connection._connect, connection._submit, connection._read_header

    def connecting(host: str, address: str, port: int) -> Any:
        heard.connecting()
        began = now()
        read_timeout, connect_timeout = connect(host, address, port)
        heard.connected(began, read_timeout * 1.5 / 1000)  # kazoo reads for two thirds of the negotiated time
        return read_timeout, connect_timeout

    def submitting(request: Any, timeout: float, xid: int | None = None) -> None:
        if xid:
            heard.sending(xid)
        submit(request, timeout, xid)

    def reading(timeout: float) -> Any:
        header, buffer, offset = read(timeout)
        heard.answered(header.xid)
        return header, buffer, offset

    connection._connect, connection._submit, connection._read_header = connecting, submitting, reading
    return heard
