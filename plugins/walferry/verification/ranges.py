"""Compares one range of a table: by hashes, then row by row where the hashes differ, and later again."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor

from walferry.tables.rows import Rows
from walferry.tables.tables import Tables
from walferry.verification.digests import Span, differing, digest
from walferry.verification.job import Options, TableRange
from walferry.verification.outcome import Kind, Outcome
from walferry.verification.rows import Compared, compare_rows

BUCKETS_A_SPAN = 64
MAX_RECOMPARED_ROWS = 10_000  # of a span; where more differ, the cause is not that they are in flight

ShipRows = Callable[[Tables, TableRange, Collection[bytes]], None]


class RangeComparison:
    """One range on both sides, whose connections are open. The whole range is scanned by a thread a side."""

    def __init__(
        self, source: Tables, slave: Tables, part: TableRange, options: Options, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._source = source
        self._slave = slave
        self._part = part
        self._options = options
        self._sleep = sleep
        self._began = time.monotonic()
        self._outcome = Outcome(part.table)
        self._spans: list[Span] = []
        self._compared: list[Compared] = []

    def run(self) -> None:
        """Compare, and compare rows that differ again as often as the options say."""
        whole = Span(None, None)
        with ThreadPoolExecutor(1) as other:
            theirs = other.submit(lambda: digest(self._scan(self._slave, whole)))
            mine = digest(self._scan(self._source, whole))
            self._outcome.pruned, self._spans = differing(mine, theirs.result(), BUCKETS_A_SPAN)
        self._compared = [self._compare(span) for span in self._spans]
        pause = self._options.recompare_seconds
        for _ in range(self._options.recompares):
            again = [i for i, found in enumerate(self._compared) if 0 < len(found.bad) <= MAX_RECOMPARED_ROWS]
            if not again:
                break
            self._sleep(pause)
            pause *= 2
            for i in again:
                self._outcome.recompared += len(self._compared[i].bad)
                self._outcome.in_flight += self._settle(i)

    @property
    def shippable(self) -> bool:
        """Whether there are rows that the source has and the slave lacks or has differently."""
        return any(map(_to_ship, self._compared))

    def repair(self, ship: ShipRows) -> None:
        """Ship these rows again, and compare once more."""
        for i, found in enumerate(self._compared):
            if keys := _to_ship(found):
                ship(self._source, self._part, keys)
                self._outcome.repaired += self._settle(i)

    def outcome(self) -> Outcome:
        """The figures of the range."""
        outcome = self._outcome
        outcome.good = outcome.pruned + sum(found.good for found in self._compared)
        for found in self._compared:
            for kind in found.bad.values():
                outcome.bad[kind] += 1
            outcome.samples += found.samples.values()
        outcome.seconds = time.monotonic() - self._began
        return outcome

    def _settle(self, i: int) -> int:
        """Compare a span again, and count the rows that differed before and are equal now.

        A row that differs only now was equal a moment ago, so it counts as good: it is in flight.
        """
        before, now = self._compared[i], self._compare(self._spans[i])
        still = {key: kind for key, kind in now.bad.items() if key in before.bad}
        settled = len(before.bad) - len(still)
        samples = {key: sample for key, sample in {**before.samples, **now.samples}.items() if key in still}
        self._compared[i] = Compared(before.good + settled, still, samples)
        return settled

    def _compare(self, span: Span) -> Compared:
        return compare_rows(self._scan(self._source, span), self._scan(self._slave, span), self._options.samples)

    def _scan(self, side: Tables, span: Span) -> Iterator[Rows]:
        start = self._part.start if span.after is None else span.after + b"\0"
        stop = self._part.stop if span.last is None else span.last + b"\0"
        return side.scan(self._part.table, self._options.scan(self._part.families, start, stop))


def _to_ship(found: Compared) -> list[bytes]:
    return [key for key, kind in found.bad.items() if kind is not Kind.EXTRA]
