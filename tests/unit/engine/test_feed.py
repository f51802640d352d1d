"""The entries that a reader hands to the senders, and where it stops."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator
from types import SimpleNamespace

import pytest

from tests.unit.replication.filters.test_entry_filter import RULES, batch_of, entry, put
from tests.unit.replication.filters.test_visibility import SECRET, cell
from tests.unit.replication.sinks.hbase.test_bulk_loads import OFF, load
from walferry.base.security.login import UNSECURED
from walferry.engine import run as run_module
from walferry.engine.counters import Counters
from walferry.engine.feed import Feed
from walferry.engine.in_flight import InFlight, WalOffset
from walferry.engine.outcome import RunOutcome
from walferry.engine.run import FeedReader
from walferry.engine.summary import GroupSummary, Status
from walferry.hbase.files.closedness import WalNotClosed
from walferry.hbase.wal.errors import WalError
from walferry.hbase.wal.wal_batches import WalBatch
from walferry.replication.filters.rules import FilterRules
from walferry.replication.filters.visibility import LabelFilter, LabelsRefused
from walferry.replication.peers.reading import Peer
from walferry.replication.peers.settings import PeerSettings, SinkKind
from walferry.replication.sinks.hbase.bulk_loads import BulkLoadRefused
from walferry.replication.sinks.hbase.sink import HBaseSink
from walferry.replication.source.cluster import VisibilityLabels


class Batches:
    """A feed of batches in memory.

    `late` is the WAL that is not closed in time, `ended` the one that ends at an error, `first` how many of each batch's entries
    are chosen. A file that is `broken` cannot be closed.
    """

    def __init__(
        self, *wals: list[WalBatch], late: int | None = None, ended: int | None = None, first: int | None = None,
        broken: bool = False,
    ) -> None:  # fmt: skip
        self._wals, self._late, self._ended, self._first, self._broken = wals, late, ended, first, broken
        self.count = len(wals)
        self.handed: list[int] = []
        self.closed: list[int] = []

    def position(self, wal: int) -> int:
        return 0

    def batches(self, wal: int) -> Generator[tuple[WalBatch, str]]:
        try:
            for batch in self._wals[wal]:
                yield batch, f"wal {wal}"
            if wal == self._late:
                raise WalNotClosed("wal", "it has no trailer", 0.5)  # seconds, as the deadline has cut them short
        finally:
            self.closed.append(wal)
            if self._broken:
                raise OSError("an input or output error")

    def rules(self, wal: int) -> FilterRules:
        return RULES

    def chosen(self, batch: WalBatch) -> WalBatch:
        return batch if self._first is None else batch.chosen(slice(self._first))

    def ready(self, wal: int, batch: WalBatch) -> int:
        return len(batch.index)

    def not_ready(self) -> tuple[str, int]:
        return "it waits", 0

    def handing_out(self, wal: int, batch: WalBatch) -> None:
        """Nothing is noted."""

    def handed_out(self, wal: int, batch: WalBatch) -> None:
        self.handed.append(len(batch.index))

    def ends_at(self, wal: int, error: WalError) -> bool:
        assert self.closed[-1] == wal, "what a feed notes at the end of its reading comes before what it notes of the error"
        return wal == self._ended


class Read:
    """A reader that has read a feed to its end."""

    def __init__(self, feed: Feed, deadline: float = float("inf"), *, committed: bool = True) -> None:
        self.dispatched: list[int] = []
        self.flushed: list[list[int]] = []  # what was dispatched before each wait for a commit
        self.finished = False
        self.in_flight, self.outcome = InFlight(), RunOutcome()
        senders = SimpleNamespace(
            dispatch=lambda batch, *_: self.dispatched.append(len(batch.index)), flush=lambda: None,
            finish=lambda: setattr(self, "finished", True),
        )  # fmt: skip
        run = SimpleNamespace(
            feed=feed, labels=LabelFilter(VisibilityLabels.REFUSE, dict), sink=SINK, in_flight=self.in_flight,
            counters=Counters(GroupSummary(group="g")), outcome=self.outcome, deadline=deadline,
            await_committed=lambda: self._await(run, committed),
        )  # fmt: skip
        FeedReader(run, senders).run()  # type: ignore[arg-type]

    def _await(self, run: SimpleNamespace, committed: bool) -> bool:
        self.flushed.append(list(self.dispatched))
        if not committed:
            run.deadline = float("-inf")
        return committed


SINK = HBaseSink(
    Peer("p", "zk:2181:/hbase", "DISABLED", {}), PeerSettings(sink=SinkKind.REPLICATE), 0.0, source=OFF, hfiles=None,
    login=UNSECURED, stop=threading.Event(),
)  # fmt: skip
SOUND = batch_of(entry(put()), entry(put()))
STOPS = [entry(put()), load(), entry(put()), entry(cell(SECRET))], [entry(put()), entry(cell(SECRET)), entry(put()), load()]


@pytest.mark.parametrize(("entries", "error"), [(STOPS[0], BulkLoadRefused), (STOPS[1], LabelsRefused)])
def test_entries_before_the_first_one_that_stops_the_queue_are_shipped(entries, error):
    feed = Batches([batch_of(*entries)], [SOUND])
    read = Read(feed)
    assert read.dispatched == feed.handed == [1]
    with pytest.raises(error):
        read.outcome.status()
    assert read.finished
    assert feed.closed == [0], "nothing behind it is read"


def test_all_wals_are_read_in_their_order_and_are_done_then():
    feed = Batches([SOUND, SOUND], [], [SOUND])
    read = Read(feed)
    assert read.dispatched == [2, 2, 2]
    assert feed.closed == [0, 1, 2]
    assert read.in_flight.low_watermark() == WalOffset(3, 0)
    assert read.outcome.status() is Status.DONE


def test_a_wal_that_ends_at_an_error_is_followed_by_the_next_one():
    feed = Batches([batch_of(*STOPS[0])], [SOUND], ended=0)
    read = Read(feed)
    assert read.dispatched == [1, 2]
    assert read.in_flight.low_watermark() == WalOffset(2, 0)
    assert read.outcome.status() is Status.DONE


def test_what_is_read_before_the_time_is_over_is_shipped_and_the_rest_is_left():
    late = Read(Batches([SOUND], [SOUND], [SOUND], late=1))
    assert (late.dispatched, late.outcome.status(), late.finished) == ([2, 2], Status.DEADLINE, True)
    assert late.in_flight.low_watermark().wal == 1
    over = Read(Batches([SOUND]), deadline=time.monotonic() - 1)
    assert (over.dispatched, over.outcome.status(), over.finished) == ([], Status.DEADLINE, True)


@pytest.mark.parametrize("first", [0, 1])
def test_only_what_the_feed_has_chosen_is_shipped(first: int) -> None:
    feed = Batches([SOUND], [SOUND], first=first)
    read = Read(feed)
    assert read.dispatched == [first, first][: 2 * first]
    assert feed.handed == [2, 2]
    assert read.in_flight.low_watermark() == WalOffset(2, 0)


def test_a_file_that_cannot_be_closed_hides_no_other_error_and_no_deadline() -> None:
    ended = Read(Batches([batch_of(*STOPS[0])], ended=0, broken=True))
    assert (ended.dispatched, ended.outcome.status()) == ([1], Status.DONE)
    over = Read(Batches([SOUND], broken=True), deadline=time.monotonic() - 1)
    assert over.outcome.status() is Status.DEADLINE


class Waiting(Batches):
    """A feed whose third entry may not be shipped before the first two are committed, and then only at the try `ready_at`.

    What it waits for gets closer until the try `closer_until`.
    """

    def __init__(self, ready_at: int, closer_until: int) -> None:
        super().__init__([batch_of(*(entry(put()) for _ in range(4)))])
        self.ready_at, self.closer_until, self.tries = ready_at, closer_until, 0

    def ready(self, wal: int, batch: WalBatch) -> int:
        self.tries += 1
        return 2 if self.tries == 1 else len(batch.index) if self.tries >= self.ready_at else 0

    def not_ready(self) -> tuple[str, int]:
        return f"it waits at try {self.tries}", min(self.tries, self.closer_until)


@pytest.mark.parametrize(
    ("ready_at", "closer_until", "committed", "dispatched", "ends"),
    [
        (2, 0, True, [2, 2], Status.DONE),
        (6, 6, True, [2, 2], Status.DONE),
        (6, 3, True, [2], Status.WAITING),
        (9, 9, False, [2], Status.DEADLINE),
    ],
    ids=["after a commit", "what it waits for gets closer", "and no closer", "the deadline comes first"],
)
def test_an_entry_that_has_to_wait_gets_other_chances(monkeypatch, ready_at, closer_until, committed, dispatched, ends):
    monkeypatch.setattr(run_module, "AGAIN_SECONDS", 0.0)
    monkeypatch.setattr(run_module, "CLOSER_SECONDS", -1.0)  # each try has to be closer
    feed = Waiting(ready_at, closer_until)
    read = Read(feed, committed=committed)
    assert read.dispatched == dispatched
    assert read.flushed == [[2]], "requests that are being filled are sent, or nothing would be committed"
    assert read.outcome.status() is ends
    assert read.outcome.waits == ("it waits at try 4" if ends is Status.WAITING else None)
    assert read.finished
