"""Records the state of an attempt at a WAL group, and why it ends. The reader, the senders and the supervisor report here."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum, auto

from walferry.engine.counters import Counters
from walferry.engine.summary import Status
from walferry.hbase.errors import PausedPeer
from walferry.replication.sinks.errors import SlaveUnreachable, Stopped


class Phase(Enum):
    """Any phase may follow SHIPPING. Only an error may follow LATE. The other phases are final."""

    SHIPPING = auto()
    LATE = auto()  # the time is over: reading stops, and edits without an acknowledgement stay queued
    SLAVE_DOWN = auto()
    FAILED = auto()


@contextmanager
def noted_end(counters: Counters, tell_others: Callable[[str], None], *, backlog: bool) -> Iterator[None]:
    """Note in the counters why a block that ships a group ends: its peer is paused, or its slave is down. Other errors pass.

    Args:
        counters: The group's counters.
        tell_others: Leaves a note for the run's other groups that the slave is down.
        backlog: Whether the unshipped edits are queued, so that the next batch ships them. The text then says so.
    """
    try:
        yield
    except PausedPeer as error:
        counters.end(Status.PAUSED, str(error))
    except SlaveUnreachable as error:
        text = str(error) if backlog else error.problem
        if not error.answered:  # otherwise this group's edits may be the trouble, and other groups try for themselves
            tell_others(text)
        counters.end(Status.SLAVE_DOWN, text)


class RunOutcome:
    """The phase of one attempt. Any thread may call the methods. Of several errors the first one counts."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._error: BaseException | None = None
        self.phase = Phase.SHIPPING
        self.stop = threading.Event()  # set when everything must end now, whatever the phase

    def note(self, error: BaseException) -> None:
        """Record an error that ended the reader or a sender, and set the phase that follows from it."""
        if isinstance(error, Stopped):
            return  # the attempt was already stopped, and the reason is noted
        if not isinstance(error, SlaveUnreachable):
            self._fail(Phase.FAILED, error)
        elif error.tries:
            self._fail(Phase.SLAVE_DOWN, error)
        else:
            self.run_out_of_time()

    def run_out_of_time(self) -> None:
        """Go from SHIPPING to LATE."""
        with self._lock:
            if self.phase is Phase.SHIPPING:
                self.phase = Phase.LATE

    def status(self) -> Status:
        """Return the status that the group ends with. Raises the error of an attempt that has FAILED or whose slave is down."""
        if self._error:
            raise self._error
        return Status.DEADLINE if self.phase is Phase.LATE else Status.DONE

    def _fail(self, phase: Phase, error: BaseException) -> None:
        """Go from SHIPPING or LATE to `phase`."""
        with self._lock:
            if self._error is None:
                self.phase, self._error = phase, error
