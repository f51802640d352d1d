"""Records how an attempt at a WAL group ends, and why. The reader, the senders and the supervisor report here."""

from __future__ import annotations

import threading

from walferry.engine.summary import Status
from walferry.replication.sinks.errors import PeerClusterUnreachable, Stopped


class RunOutcome:
    """How one attempt ends. Any thread may call the methods. The first error counts, even if the time is over."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._error: BaseException | None = None
        self._late = False
        self._waits = ""
        self.stop = threading.Event()  # set when everything must end now, however the attempt ends

    def note(self, error: BaseException) -> None:
        """Record an error that ended the reader or a sender."""
        if isinstance(error, Stopped):
            return  # the attempt was already stopped, and the reason is noted
        if isinstance(error, PeerClusterUnreachable) and not error.tries:
            self.run_out_of_time()
            return
        with self._lock:
            self._error = self._error or error

    def run_out_of_time(self) -> None:
        """Note that the time is over: reading stops, and edits without an acknowledgement stay queued."""
        self._late = True

    def wait(self, why: str) -> None:
        """Note that an entry may not be shipped yet: reading stops, and it stays queued."""
        self._waits = why

    @property
    def waits(self) -> str | None:
        """Why the next entry may not be shipped yet; None unless that has ended the attempt."""
        return self._waits if self._waits and not self._late else None

    def status(self) -> Status:
        """Return the group's final status. Raises the error of an attempt that has failed or whose peer cluster is down."""
        if self._error:
            raise self._error
        if self.waits:
            return Status.WAITING
        return Status.DEADLINE if self._late else Status.DONE
