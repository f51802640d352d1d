"""A run that is ended at any moment loses nothing and keeps each region's order, whatever feed, sink and commit it has.

The model: entries of some regions in some WALs; a sink whose calls fail before or after they have taken effect; commits and
summaries that fail before or after they are written. Each run goes on where the commit says, until one ends well.
"""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.engine.test_feed import Batches
from tests.unit.engine.test_senders import Sinks, taken, wal_batch
from walferry.base.errors import WalferryError
from walferry.engine import run as module
from walferry.engine.counters import Counters
from walferry.engine.feed import Feed
from walferry.engine.gauges import Gauges
from walferry.engine.in_flight import InFlight, WalOffset
from walferry.engine.outcome import RunOutcome
from walferry.engine.run import Run
from walferry.engine.summary import GroupSummary, Status
from walferry.hbase.errors import PausedPeer
from walferry.hbase.wal.wal_batches import WalBatch
from walferry.replay.shipment import SummaryOnly
from walferry.replication.filters.rules import FilterRules
from walferry.replication.filters.visibility import LabelFilter
from walferry.replication.peers.settings import PeerSettings
from walferry.replication.queues.errors import LastWal
from walferry.replication.sinks.hbase.shipment import join
from walferry.replication.source.cluster import VisibilityLabels
from walferry.shipping.queue_positions import QueuePositions
from walferry.shipping.queued_wals import GroupWals

REGIONS, START, BATCH = 3, 85, 5


class Killed(Exception):
    """What ends a run of the model."""


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in (("TICK_SECONDS", 0.0005), ("COMMIT_SECONDS", 0.0), ("PUBLISH_SECONDS", 0.002)):
        monkeypatch.setattr(module, name, seconds)


class Faults:
    """Ends a run now and then, as long as there are `left`."""

    def __init__(self, seed: int, left: int) -> None:
        self._chance, self.left = random.Random(seed), left
        self._lock = threading.Lock()

    def maybe(self) -> None:
        with self._lock:
            if self.left and self._chance.random() < 0.2:
                self.left -= 1
                raise Killed


class Target:
    """A sink's far side: what it has got, in order."""

    def __init__(self, faults: Faults) -> None:
        self.got, self._faults = Sinks(), faults
        self.answers = SimpleNamespace(outage=None)
        self.failed_requests, self.kind, self.refused = 0, "replicate", None

    def sender(self) -> Any:
        def send(requests: Sequence[Any], deadline: float) -> None:
            self._faults.maybe()
            self.got.ship(requests)
            self._faults.maybe()

        return SimpleNamespace(send=send)

    def take(self, batch: WalBatch, kept: Any, rules: FilterRules, path: str) -> Any:
        return taken(batch)[3]

    def join(self, requests: Sequence[Any]) -> Any:
        return join(requests)

    def look_after_calls(self, deadline: float) -> None:
        """All end by themselves."""

    def interrupt(self) -> None:
        """All end by themselves."""


class Wals(Batches):
    """Those of a row that are left, each from its position on. One entry of five is `ready` only once all before it arrived."""

    def __init__(self, row: Sequence[WalBatch], positions: Sequence[int], wals: GroupWals, waits_for: Target | None) -> None:
        super().__init__(*([wal_batch] for wal_batch in row))
        self._row, self._positions, self._group, self._waits_for = row, positions, wals, waits_for

    def position(self, wal: int) -> int:
        return self._positions[wal]

    def batches(self, wal: int) -> Generator[tuple[WalBatch, str]]:
        wal_batch = self._row[wal]
        first = int(np.searchsorted(wal_batch.positions, self._positions[wal]))
        for start in range(first, len(wal_batch.index), BATCH):
            yield wal_batch.chosen(slice(start, start + BATCH)), f"wal {wal}"

    def ready(self, wal: int, batch: WalBatch) -> int:
        if self._waits_for is None:
            return len(batch.index)
        there = set(itertools.chain(*self._waits_for.got.sequence_ids().values()))
        for at, sequence_id in enumerate(batch.index.sequence_id.tolist()):
            if sequence_id % 5 == 3 and not there.issuperset(range(sequence_id)):
                return at
        return len(batch.index)

    def handed_out(self, wal: int, batch: WalBatch) -> None:
        self._group.ends[wal] = int(batch.next_positions[-1])


@dataclass
class Kept:
    """What is kept of a row of WALs over all runs. It checks that nothing is kept that the target has not got."""

    row: Sequence[WalBatch]
    target: Target
    faults: Faults
    position: dict[int, int] = field(default_factory=dict)
    done: int = 0  # WALs that are shipped, from the first one on
    summary: GroupSummary = field(default_factory=lambda: GroupSummary(group="g"))  # as it was written last

    def check(self, wal: int, offset: int | None) -> None:
        """Everything before the offset in this WAL is with the target and in the summary; all of the WAL for None."""
        wal_batch = self.row[wal]
        before = len(wal_batch.index) if offset is None else len(wal_batch.until(offset).index)
        there = set(itertools.chain(*self.target.got.sequence_ids().values()))
        assert there.issuperset(wal_batch.index.sequence_id[:before].tolist()), "it was kept as shipped and is not there"
        entries = sum(len(done.index) for done in self.row[:wal]) + before
        assert self.summary.shippedOps >= entries, "it was kept as shipped, and no later attempt would count it"

    def left(self) -> list[int]:
        return list(range(self.done, len(self.row)))

    def finish(self, wal: int) -> None:
        assert wal == self.done
        self.check(wal, None)
        self.done += 1


class Lease:
    """A lease on a queue in memory, for QueuePositions."""

    one_offset = False

    def __init__(self, kept: Kept, live: bool) -> None:
        self._kept, self._live = kept, live

    def register_position(self, wal: str, offset: int, pushed: dict[str, int]) -> None:
        assert not pushed
        self._kept.faults.maybe()
        self._kept.check(int(wal), offset)
        assert offset >= self._kept.position.get(int(wal), 0)
        self._kept.position[int(wal)] = offset
        self._kept.faults.maybe()

    def remove_wal(self, wal: str, pushed: dict[str, int]) -> None:
        assert not pushed
        self._kept.faults.maybe()
        if self._live and int(wal) == len(self._kept.row) - 1:
            raise LastWal(wal)
        self._kept.finish(int(wal))
        self._kept.faults.maybe()


def queue_positions(kept: Kept, row: list[int], counters: Counters, wals: GroupWals, *, live: bool) -> Any:
    def write(summary: GroupSummary) -> None:
        kept.faults.maybe()
        kept.summary = summary
        kept.faults.maybe()

    archiver = SimpleNamespace(pending=False, wanted=False, has=lambda number: True, stop=lambda: None)
    return QueuePositions(wals, Lease(kept, live), counters, archiver), write  # type: ignore[arg-type]


def summary_only(kept: Kept, row: list[int], counters: Counters, wals: GroupWals) -> Any:
    def write(summary: GroupSummary) -> None:
        kept.faults.maybe()
        kept.summary = summary
        while kept.done < summary.completedLogs:
            kept.finish(kept.done)
        kept.faults.maybe()

    return SummaryOnly(tuple(SimpleNamespace(name=SimpleNamespace(text=str(wal)), size=1) for wal in row), counters), write  # type: ignore[arg-type]


def one_run(
    kept: Kept, make: Any, senders: int, stops: Callable[[], WalferryError | None] = lambda: None, *, waits: bool = False
) -> Status:
    row = kept.left()
    positions = [kept.position.get(wal, START) for wal in row]
    queued = [
        SimpleNamespace(queued=SimpleNamespace(name=SimpleNamespace(text=str(wal)), position=position))
        for wal, position in zip(row, positions, strict=True)
    ]
    wals = GroupWals(tuple(queued), [1 << 20] * len(row))  # type: ignore[arg-type]
    counters, in_flight = Counters(kept.summary), InFlight()
    commit, write = make(kept, row, counters, wals)
    gauges = Gauges(counters, in_flight, "the target")
    feed: Feed = Wals([kept.row[wal] for wal in row], positions, wals, kept.target if waits else None)
    limit = SimpleNamespace(
        send=lambda send, requests, deadline: send(requests, deadline), settings=lambda settings: settings, look=lambda: None,
        leave=lambda: None,
    )  # fmt: skip

    def publish() -> None:
        gauges.update()
        write(counters.summary())

    run = Run(
        feed=feed, commit=commit, sink=kept.target, limit=limit, labels=LabelFilter(VisibilityLabels.REFUSE, dict),  # type: ignore[arg-type]
        counters=counters, in_flight=in_flight, outcome=RunOutcome(), settings=PeerSettings(shipment_bytes=400), senders=senders,
        deadline=float("inf"), stops=stops, publish=publish,
    )  # fmt: skip
    try:
        status = run.ship()
    except PausedPeer:
        write(counters.summary())  # as who runs it does
        raise
    assert in_flight.low_watermark() == WalOffset(len(row), 0)
    publish()
    return status


COMMITS = {
    "a dead server's queue": partial(queue_positions, live=False),
    "a live server's queue": partial(queue_positions, live=True),
    "a summary only": summary_only,
}


@pytest.mark.parametrize("make", COMMITS.values(), ids=COMMITS)
@given(
    sizes=st.lists(st.integers(0, 25), min_size=1, max_size=4), senders=st.integers(1, 3), faults=st.integers(0, 8),
    seed=st.integers(0, 1 << 16), waits=st.booleans(),
)  # fmt: skip
def test_every_entry_arrives_and_each_region_keeps_its_order(
    make: Any, sizes: list[int], senders: int, faults: int, seed: int, waits: bool
) -> None:
    ends = np.cumsum([0, *sizes]).tolist()
    row = [wal_batch(size, REGIONS, first=first) for size, first in zip(sizes, ends, strict=False)]
    chances = Faults(seed, faults)
    kept = Kept(row, Target(chances), chances)
    while True:
        try:
            status = one_run(kept, make, senders, waits=waits)
        except Killed:
            continue
        assert status is Status.DONE
        break
    got = kept.target.got.sequence_ids()
    assert {region: sorted(set(ids)) for region, ids in got.items()} == {
        f"region{number}".encode(): list(range(number, ends[-1], REGIONS)) for number in range(min(REGIONS, ends[-1]))
    }
    if not faults:
        assert all(ids == sorted(set(ids)) for ids in got.values()), "nothing is sent twice"
    sent = sum(map(len, got.values()))
    assert ends[-1] <= kept.summary.shippedOps <= sent
    assert kept.summary.logEditsRead >= kept.summary.shippedOps
    for ids in got.values():  # an older entry comes after a newer one only if all that follow it come again
        assert all(after in ids[at:] for at, entry in enumerate(ids) for after in ids[:at] if after > entry)
    for wal in kept.left():  # what a live server may still write to stays, at its end
        assert make is COMMITS["a live server's queue"]
        assert wal == len(row) - 1
        assert not sizes[wal] or kept.position[wal] == int(row[wal].next_positions[-1])


def test_a_run_that_may_not_go_on_ends_with_the_reason_and_keeps_what_was_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    row, chances = [wal_batch(400, REGIONS)], Faults(0, 0)
    kept = Kept(row, Target(chances), chances)
    got = kept.target.got
    ship = got.ship

    def ship_some(requests: Sequence[Any]) -> None:
        ship(requests)
        if len(got.shipments) >= 5 and not paused:
            got.gate.clear()

    def why() -> PausedPeer | None:
        if not kept.position:
            return None
        paused.append(True)
        got.gate.set()
        return PausedPeer("p")

    paused = list[bool]()
    monkeypatch.setattr(got, "ship", ship_some)
    with pytest.raises(PausedPeer):
        one_run(kept, COMMITS["a dead server's queue"], senders=1, stops=why)
    assert kept.left() == [0]
    assert START < kept.position[0] < int(row[0].next_positions[-1])
    got_before = len(got.shipments)
    assert one_run(kept, COMMITS["a dead server's queue"], senders=2) is Status.DONE
    assert not kept.left()
    assert len(got.shipments) > got_before


def test_no_wal_is_opened_after_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """WALs without entries, as of an idle server, may be very many."""
    chances, opened, made = Faults(0, 0), list[int](), list[Run]()
    kept = Kept([wal_batch(0, REGIONS) for _ in range(5)], Target(chances), chances)

    def batches(wals: Wals, wal: int) -> Generator[tuple[WalBatch, str]]:
        opened.append(wal)
        yield from ()

    def late(**fields: Any) -> Run:
        made.append(module.Run(**(fields | {"deadline": float("-inf")})))
        return made[0]

    monkeypatch.setattr(Wals, "batches", batches)
    monkeypatch.setitem(one_run.__globals__, "Run", late)
    with pytest.raises(AssertionError):  # it has not come to the end of the row
        one_run(kept, COMMITS["a dead server's queue"], senders=1)
    assert made[0].outcome.status() is Status.DEADLINE
    assert not opened
