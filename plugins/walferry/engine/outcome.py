"""How an attempt at a WAL group stands, and why it ends. The reader, the senders and the supervisor all report here."""

from __future__ import annotations

import threading
from enum import Enum, auto

from walferry.engine.summary import Status
from walferry.replication.sinks.errors import SlaveUnreachable, Stopped


class Phase(Enum):
    """Every phase may follow SHIPPING; only an error may follow LATE; the others are final."""

    SHIPPING = auto()
    LATE = auto()  # the time is over: nothing more is read, and what is not acknowledged stays queued
    SLAVE_DOWN = auto()
    FAILED = auto()


class RunOutcome:
    """The phase of one attempt. Any thread may call the methods; of several errors the first one counts."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._error: BaseException | None = None
        self.phase = Phase.SHIPPING
        self.stop = threading.Event()  # set when everything must end now, whatever the phase

    def note(self, error: BaseException) -> None:
        """An error ended the reader or a sender: find out what it means for the attempt."""
        if isinstance(error, Stopped):
            return  # it was told to end, and the reason is noted already
        if not isinstance(error, SlaveUnreachable):
            self._fail(Phase.FAILED, error)
        elif error.tries:
            self._fail(Phase.SLAVE_DOWN, error)
        else:
            self.run_out_of_time()

    def run_out_of_time(self) -> None:
        """SHIPPING → LATE."""
        with self._lock:
            if self.phase is Phase.SHIPPING:
                self.phase = Phase.LATE

    def status(self) -> Status:
        """The status that the group ends with. Raises the error of an attempt that has FAILED or whose slave is down."""
        if self._error:
            raise self._error
        return Status.DEADLINE if self.phase is Phase.LATE else Status.DONE

    def _fail(self, phase: Phase, error: BaseException) -> None:
        """SHIPPING or LATE → `phase`."""
        with self._lock:
            if self._error is None:
                self.phase, self._error = phase, error
