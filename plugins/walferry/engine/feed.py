"""Defines the engine's input, and the thread that reads it, filters it and hands it to the senders."""

from __future__ import annotations

import logging
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from walferry.engine.counters import Counters
from walferry.engine.in_flight import InFlight, WalOffset
from walferry.engine.outcome import RunOutcome
from walferry.engine.senders import Senders
from walferry.hbase.files.closedness import CLOSE_TIMEOUT_SECONDS, WalNotClosed
from walferry.hbase.wal.errors import WalError
from walferry.hbase.wal.windows import Window
from walferry.replication.filters.rules import FilterRules
from walferry.replication.filters.visibility import LabelFilter
from walferry.replication.filters.window import filter_window
from walferry.replication.sinks.errors import Stopped
from walferry.replication.sinks.sink import Sink

log = logging.getLogger(__name__)


class Feed(Protocol):
    """A row of WALs, with their entries.

    A feed promises that it reads each of its WALs from the same offset to the same end, however often it is read, and that a
    WAL's batches come in the order of the file. One thread reads the feed.
    """

    @property
    def count(self) -> int:
        """The number of WALs."""

    def position(self, wal: int) -> int:
        """Return the offset at which reading the WAL with this number begins."""

    def batches(self, wal: int) -> Generator[tuple[Window, str]]:
        """Yield the WAL's batches of entries, each with the file's URL.

        A batch counts as handed out once the caller asks for the next one. Raises WalError, StoreError, WalNotClosed.
        """

    def rules(self, wal: int) -> FilterRules:
        """Return the rules for the WAL's entries."""

    def chosen(self, batch: Window) -> Window:
        """Return the part of a batch that is shipped, before any rules apply. The part may have no entries."""

    def handed_out(self, wal: int, batch: Window) -> None:
        """Note that all entries of a batch are with the senders, or filtered out."""

    def ends_at(self, wal: int, error: WalError) -> bool:
        """Return whether the WAL ends at an entry that cannot be read, after doing what the feed does in this case."""


@dataclass(frozen=True, kw_only=True)
class FeedReader:
    """Reads a feed to its end, or to `deadline` (time.monotonic)."""

    feed: Feed
    labels: LabelFilter
    sink: Sink
    senders: Senders
    in_flight: InFlight
    counters: Counters
    outcome: RunOutcome
    deadline: float

    def run(self) -> None:
        """Read all WALs in a row. An error ends the reading; entries that were read before are still shipped."""
        try:
            try:
                self._read_all()
            except Stopped:
                raise
            except Exception as error:
                self.outcome.note(error)
            self.senders.finish()
        except Stopped:
            return

    def _read_all(self) -> None:
        for wal in range(self.feed.count):
            if not self._read_wal(wal):
                self.outcome.run_out_of_time()
                return
            self.senders.flush()
            self.in_flight.read_to(WalOffset(wal + 1, 0))

    def _read_wal(self, wal: int) -> bool:
        """Read one WAL to its end; False if the deadline came first."""
        self.in_flight.read_to(WalOffset(wal, self.feed.position(wal)))
        rules = self.feed.rules(wal)
        try:
            with _closed_after(self.feed.batches(wal)) as batches:
                for batch, path in batches:
                    if time.monotonic() > self.deadline:
                        return False
                    self._hand_out_to_first_error(batch, wal, path, rules)
        except WalNotClosed as error:
            if error.waited_seconds < CLOSE_TIMEOUT_SECONDS:  # the deadline left it too little time to be closed
                return False
            raise
        except WalError as error:
            if not self.feed.ends_at(wal, error):
                raise
        return True

    def _hand_out_to_first_error(self, batch: Window, wal: int, path: str, rules: FilterRules) -> None:
        """Hand out a batch. If entries raise errors, hand out the entries before the first such entry, and raise its error."""
        try:
            self._hand_out(batch, wal, path, rules)
        except WalError as error:
            sound = batch.until(error.offset)
            if len(sound.index):
                self._hand_out_to_first_error(sound, wal, path, rules)
            raise

    def _hand_out(self, batch: Window, wal: int, path: str, rules: FilterRules) -> None:
        chosen = self.feed.chosen(batch)
        if len(chosen.index):
            chosen, kept = self.labels.apply(chosen, filter_window(chosen, rules, path), path)
            take = self.sink.take(chosen, kept, rules, path)
            self.counters.read(chosen, kept)  # first: entries must be counted before they may be committed
            self.senders.dispatch(chosen, kept, wal, take)
        self.feed.handed_out(wal, batch)
        self.in_flight.read_to(WalOffset(wal, int(batch.next_positions[-1])))


@contextmanager
def _closed_after(batches: Generator[tuple[Window, str]]) -> Iterator[Generator[tuple[Window, str]]]:
    """Close the batches' file before any error is handled. An error in closing does not hide another error."""
    try:
        yield batches
    finally:
        try:
            batches.close()
        except OSError as error:
            log.info("a WAL cannot be closed: %s", error)
