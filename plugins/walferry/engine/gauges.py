"""Keeps figures of the summary that are looked up now and then, not counted: about the sink, and about edits not shipped yet."""

from __future__ import annotations

import logging
from collections.abc import Callable

from walferry.engine.counters import Counters
from walferry.engine.in_flight import InFlight
from walferry.replication.sinks.answers import Repeats
from walferry.replication.sinks.sink import Sink

log = logging.getLogger(__name__)


class Gauges:
    """Looks up figures of a row of WALs and of a sink, once these exist. `target` names the sink's owner in the log.

    `unread_since` returns a time (ms since the epoch) before which no entry of the WAL with this number that is not handed out
    was written, if known. Any thread may call it.
    """

    def __init__(self, counters: Counters, in_flight: InFlight, target: str) -> None:
        self._counters = counters
        self._in_flight = in_flight
        self._target = target
        self._say_again = Repeats()
        self.unread_since: Callable[[int], int | None] = lambda wal: None
        self.sink: Sink | None = None

    def update(self) -> None:
        """Pass the figures to the counters, and log an outage."""
        if self.sink is not None:
            self._of_sink(self.sink)
        if (unread := self.unread_since(self._in_flight.low_watermark().wal)) is not None:
            self._counters.next_to_replicate(self._in_flight.oldest_written() or unread)

    def _of_sink(self, sink: Sink) -> None:
        outage = sink.answers.outage
        self._counters.retried(sink.failed_requests)
        self._counters.sent_as(sink.kind, sink.refused)
        self._counters.outage(outage)
        if outage is None:
            self._say_again.reset()
        elif self._say_again.due():
            log.warning("%s acknowledges nothing: %s", self._target, outage.error or "no answer")
