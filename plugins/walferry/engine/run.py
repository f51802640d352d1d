"""One run of the engine: a reader and senders at work, and a supervisor that commits their progress.

reader thread    reads the feed, filters, hands entries to the senders
sender threads   send requests, each in order, and wait for their acknowledgements (senders)
this thread      commits the low watermark, publishes the summary, looks after long calls, ends all when nothing may be sent
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from walferry.base.errors import WalferryError
from walferry.engine.bandwidth import Limit
from walferry.engine.counters import Counters
from walferry.engine.feed import Commit, Feed
from walferry.engine.in_flight import InFlight, WalOffset
from walferry.engine.outcome import RunOutcome
from walferry.engine.senders import Senders
from walferry.engine.summary import Status
from walferry.hbase.files.closedness import CLOSE_TIMEOUT_SECONDS, WalNotClosed
from walferry.hbase.wal.errors import WalError
from walferry.hbase.wal.wal_batches import WalBatch
from walferry.replication.filters.entry_filter import filter_batch
from walferry.replication.filters.rules import FilterRules
from walferry.replication.filters.visibility import LabelFilter
from walferry.replication.peers.settings import PeerSettings
from walferry.replication.sinks.errors import Stopped
from walferry.replication.sinks.sink import Sink

TICK_SECONDS = 0.1
COMMIT_SECONDS = 0.5  # between two commits
PUBLISH_SECONDS = 2.0  # between two summaries
LOOK_SECONDS = 2.0  # between two looks after the calls under way
JOIN_SECONDS = 10.0  # for threads to stop
AGAIN_SECONDS = 1.0  # until an entry that has to wait gets another chance
CLOSER_SECONDS = 10.0  # within which what it waits for has to get closer
CALLS_SECONDS = 10.0  # for calls under way to finish when the run ends

log = logging.getLogger(__name__)


@dataclass(kw_only=True)
class Run:
    """Ships one feed through one sink. `deadline` is on time.monotonic.

    The run calls `stops` every few seconds. It returns why nothing may be sent any more, such as that the peer was paused.
    `publish` writes the summary with the present figures. It raises an error that ends the run if the right to ship is lost.
    """

    feed: Feed
    commit: Commit
    sink: Sink
    limit: Limit
    labels: LabelFilter
    counters: Counters
    in_flight: InFlight
    outcome: RunOutcome
    settings: PeerSettings
    senders: int
    deadline: float
    stops: Callable[[], WalferryError | None]
    publish: Callable[[], None]
    _published: WalOffset = field(init=False, default_factory=lambda: WalOffset(0, 0))
    _committed: WalOffset = field(init=False, default_factory=lambda: WalOffset(0, 0))
    _wanted: threading.Event = field(init=False, default_factory=threading.Event)  # the reader waits for a commit

    def ship(self) -> Status:
        """Ship until the feed ends or the time is over. Returns how the run ended, or raises the error that ended it."""
        sends = [partial(self.limit.send, self.sink.sender().send, deadline=self.deadline) for _ in range(self.senders)]
        senders = Senders(
            sends, self.sink.join, self.in_flight, self.limit.settings(self.settings), stop=self.outcome.stop,
            on_acknowledged=self.counters.shipped, on_failure=self.outcome.note,
        )  # fmt: skip
        thread = threading.Thread(target=FeedReader(self, senders).run, name="reader", daemon=True)
        thread.start()
        try:
            self._supervise(thread, senders)
            self._await_pending()
        except BaseException:
            self._end_calls(senders)
            raise
        finally:
            self.commit.stop()
            senders.stop()
            self.sink.interrupt()
            senders.join(JOIN_SECONDS)
            thread.join(JOIN_SECONDS)
        return self.outcome.status()

    def _supervise(self, reader: threading.Thread, senders: Senders) -> None:
        """Commit, publish summaries, and look after calls and the limit, until reader and senders have ended.

        After the deadline the senders only finish calls under way, and only calls that the target works on.
        """
        committed = published = looked = time.monotonic()
        while reader.is_alive() or senders.running:
            time.sleep(TICK_SECONDS)
            self.limit.look()
            now = time.monotonic()
            if now - committed >= COMMIT_SECONDS or self._wanted.is_set():
                committed = now
                self._commit()
            if now - published >= PUBLISH_SECONDS:
                published = now
                self.publish()
                if (why := self.stops()) is not None:
                    self.outcome.note(why)
                    senders.stop()  # no new requests; requests under way finish
            if now - looked >= LOOK_SECONDS:
                self.sink.look_after_calls(self.deadline)
                looked = time.monotonic()
        self._commit()

    def _await_pending(self) -> None:
        """Wait, once everything is shipped or given up, until the commit has nothing left to do, or until the deadline."""
        if not self.commit.pending:
            return
        self.limit.leave()
        while self.commit.pending and time.monotonic() < self.deadline:
            time.sleep(TICK_SECONDS)
            self._commit()
        if self.commit.pending:
            self.outcome.run_out_of_time()
        self._commit()

    def _commit(self) -> None:
        watermark, before = self.in_flight.low_watermark(), self._published
        if watermark.wal != before.wal or (watermark != before and not self.commit.whole_wals):
            self.publish()  # first: committed edits are not shipped again, so no later attempt would count them
            self._published = watermark
        self.commit.commit(watermark)
        self._committed = watermark

    def await_committed(self) -> bool:
        """From the reader's thread: wait until all that it has read is committed. Returns False if the deadline comes first.

        Raises Stopped.
        """
        offset = self.in_flight.read
        self._wanted.set()
        try:
            while self._committed < offset:
                if self.outcome.stop.wait(TICK_SECONDS):
                    raise Stopped
                if time.monotonic() > self.deadline:
                    return False
            return True
        finally:
            self._wanted.clear()

    def _end_calls(self, senders: Senders) -> None:
        """Send no further request, and wait for the requests under way, so that the next run need not wait.

        A target goes on with a request whose connection was cut. A request that takes too long is cut all the same. The right to
        send then shows its next holder for how long the target may still carry it out (base/zk/right.py).
        """
        senders.stop()
        if not senders.join(CALLS_SECONDS):
            log.warning("the peer cluster has not answered for %g s, and is not waited for any longer", CALLS_SECONDS)
            self.sink.interrupt()


@dataclass(frozen=True)
class FeedReader:
    """Reads the feed of a run to its end, or to the run's deadline, filters it and hands it to the senders."""

    of: Run
    senders: Senders

    def run(self) -> None:
        """Read all WALs in a row. An error ends the reading; entries that were read before are still shipped."""
        try:
            try:
                self._read_all()
            except Stopped:
                raise
            except Exception as error:
                self.of.outcome.note(error)
            self.senders.finish()
        except Stopped:
            return

    def _read_all(self) -> None:
        for wal in range(self.of.feed.count):
            if time.monotonic() > self.of.deadline:  # WALs may have no entries, and be many
                self.of.outcome.run_out_of_time()
                return
            if not self._read_wal(wal):
                return
            self.senders.flush()
            self.of.in_flight.read_to(WalOffset(wal + 1, 0))

    def _read_wal(self, wal: int) -> bool:
        """Read one WAL to its end. Returns False if it ends before, and notes why: the deadline, or an entry that has to wait."""
        self.of.in_flight.read_to(WalOffset(wal, self.of.feed.position(wal)))
        rules = self.of.feed.rules(wal)
        try:
            with _closed_after(self.of.feed.batches(wal)) as batches:
                for batch, path in batches:
                    if not self._hand_out_in_order(batch, wal, path, rules):
                        return False
        except WalNotClosed as error:
            if error.waited_seconds < CLOSE_TIMEOUT_SECONDS:  # the deadline left it too little time to be closed
                self.of.outcome.run_out_of_time()
                return False
            raise
        except WalError as error:
            if not self.of.feed.ends_at(wal, error):
                raise
        return True

    def _hand_out_in_order(self, batch: WalBatch, wal: int, path: str, rules: FilterRules) -> bool:
        """Hand out a WAL batch. Returns False if not all of it was handed out, and notes why.

        An entry that has to wait gets another chance once all before it is committed, and as long as what it waits for gets
        closer.
        """
        give_up, seen = 0.0, -1
        while True:
            if time.monotonic() > self.of.deadline:
                self.of.outcome.run_out_of_time()
                return False
            if ready := self.of.feed.ready(wal, batch):
                self._hand_out_to_first_error(batch.chosen(slice(ready)), wal, path, rules)
                batch, give_up = batch.chosen(slice(ready, None)), 0.0
            if not len(batch.index):
                return True
            why, now = self.of.feed.not_ready()
            if not give_up:
                self.senders.flush()
                if not self.of.await_committed():
                    continue  # the deadline is over
            elif self.of.outcome.stop.wait(AGAIN_SECONDS):
                raise Stopped
            if not give_up or now > seen:
                give_up, seen = time.monotonic() + CLOSER_SECONDS, now
            elif time.monotonic() > give_up:
                self.of.outcome.wait(why)
                return False

    def _hand_out_to_first_error(self, batch: WalBatch, wal: int, path: str, rules: FilterRules) -> None:
        """Hand out a WAL batch. If entries raise errors, hand out the entries before the first one, and raise its error."""
        try:
            self._hand_out(batch, wal, path, rules)
        except WalError as error:
            sound = batch.until(error.offset)
            if len(sound.index):
                self._hand_out_to_first_error(sound, wal, path, rules)
            raise

    def _hand_out(self, batch: WalBatch, wal: int, path: str, rules: FilterRules) -> None:
        chosen = self.of.feed.chosen(batch)
        if len(chosen.index):
            chosen, kept = self.of.labels.apply(chosen, filter_batch(chosen, rules, path), path)
            take = self.of.sink.take(chosen, kept, rules, path)
            self.of.counters.read(chosen, kept)  # first: entries must be counted before they may be committed
            self.of.feed.handing_out(wal, chosen)
            self.senders.dispatch(chosen, kept, wal, take)
        self.of.feed.handed_out(wal, batch)
        self.of.in_flight.read_to(WalOffset(wal, int(batch.next_positions[-1])))


@contextmanager
def _closed_after(batches: Generator[tuple[WalBatch, str]]) -> Iterator[Generator[tuple[WalBatch, str]]]:
    """Close the batches' file before any error is handled. An error in closing does not hide another error."""
    try:
        yield batches
    finally:
        try:
            batches.close()
        except OSError as error:
            log.info("a WAL cannot be closed: %s", error)
