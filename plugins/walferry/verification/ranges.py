"""Compares one range of a table, in one task of the job: its files, if the task has them; where these differ, by hashes of
scanned rows; where the hashes differ, row by row, and later again.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from typing import Protocol

from walferry.base.errors import WalferryError
from walferry.base.texts import one_line
from walferry.hbase.files.logins import lend
from walferry.hbase.tables.rows import Rows
from walferry.hbase.tables.scan import ScanSpec
from walferry.hbase.tables.tables import Tables
from walferry.replication.peers.peer_tables import peer_tables
from walferry.replication.peers.reading import Peer
from walferry.replication.source.cluster import SourceCluster
from walferry.replication.source.session import Session, open_session
from walferry.verification.digests import FilesCompared, NeedsScan, Span, differing, digest
from walferry.verification.job import Options, TableRange
from walferry.verification.outcome import DifferenceKind, VerificationOutcome, sampled
from walferry.verification.rows import Compared, compare_rows

BUCKETS_A_SPAN = 64
MAX_WHY_CHARS = 500
MAX_KEY_BYTES = 64 << 20  # for the keys of rows that differ, in addition to one span's keys

log = logging.getLogger(__name__)


class Side(Protocol):
    """What can be scanned as a table of HBase."""

    def scan(self, table: str, scan: ScanSpec) -> Iterator[Rows]:
        """Yield the rows that a scan answers."""


ShipRows = Callable[[Tables, TableRange, Collection[bytes]], None]


class RangeComparison:
    """Compares one range over open connections to both sides. One thread per side scans the whole range.

    The keys of rows that differ are kept, so that a recompare looks at these rows alone. Once the keys need more than
    `max_key_bytes`, only the counts of further spans are kept, and a recompare counts their rows again.
    """

    def __init__(
        self, source: Tables, peer_cluster: Side, part: TableRange, options: Options,
        sleep: Callable[[float], None] = time.sleep, *, max_key_bytes: int = MAX_KEY_BYTES,
        in_files: Callable[[], FilesCompared] | None = None,
    ) -> None:  # fmt: skip
        self._source = source
        self._peer_cluster = peer_cluster
        self._part = part
        self._options = options
        self._sleep = sleep
        self._in_files = in_files
        self._began = time.monotonic()
        self._outcome = VerificationOutcome(part.table, scanned_because=part.why_scanned)
        self._spans: list[Span] = []
        self._compared: list[Compared] = []
        self._free = max_key_bytes

    def run(self) -> None:
        """Compare the range, and compare rows that differ again as often as the options say."""
        for span in self._not_equal_in_files():
            rows, spans = self._by_hashes(span)
            self._outcome.pruned += rows
            self._spans += spans
        for span in self._spans:
            self._compared.append(self._kept(self._compare(span)))
        pause = self._options.recompare_seconds
        for _ in range(self._options.recompares if self._part.state is None else 0):  # files of a state do not change
            again = [i for i, found in enumerate(self._compared) if found.bad_rows]
            if not again:
                break
            self._sleep(pause)
            pause *= 2
            for i in again:
                self._outcome.recompared += self._compared[i].bad_rows
                self._outcome.in_flight += self._settle(i)

    def _not_equal_in_files(self) -> list[Span]:
        """Compare the files. Returns the spans that are to be scanned: the whole range, if there are no files to compare."""
        if self._in_files is not None:
            try:
                found = self._in_files()
                self._outcome.pruned = self._outcome.in_files = found.rows
                return found.spans
            except NeedsScan as why:
                log.info("table %s from row %r is scanned: %s", self._part.table, self._part.start, why)
                self._outcome.scanned_because = one_line(str(why), MAX_WHY_CHARS)
        return [Span(None, None)]

    def _by_hashes(self, span: Span) -> tuple[int, list[Span]]:
        """Scan both sides. Returns the number of rows in equal buckets, and the spans of the others."""
        with ThreadPoolExecutor(1) as other:
            theirs = other.submit(lambda: digest(self._scan(self._peer_cluster, span)))
            mine = digest(self._scan(self._source, span))
            return differing(mine, theirs.result(), BUCKETS_A_SPAN, span)

    @property
    def shippable(self) -> bool:
        """Whether the source has rows that the peer cluster lacks or has differently."""
        return any(found.bad_rows > found.counts[DifferenceKind.EXTRA] for found in self._compared)

    def repair(self, ship: ShipRows) -> None:
        """Ship the rows that the peer cluster lacks or has differently, and compare once more."""
        for i, found in enumerate(self._compared):
            now = found if found.known else self._compare(self._spans[i])
            if keys := [key for key, kind in now.bad.items() if kind is not DifferenceKind.EXTRA]:
                ship(self._source, self._part, keys)
                self._outcome.repaired += self._settle(i)

    def outcome(self) -> VerificationOutcome:
        """Return the figures of the range."""
        outcome = self._outcome
        outcome.good = outcome.pruned + sum(found.good for found in self._compared)
        for found in self._compared:
            for kind, count in found.counts.items():
                outcome.bad[kind] += count
            outcome.samples += found.samples.values()
        outcome.samples = sampled(outcome.samples, self._options.samples)
        outcome.seconds = time.monotonic() - self._began
        return outcome

    def _settle(self, i: int) -> int:
        """Compare a span again, and count the rows that differed before and are equal now.

        A row that differs only now was equal a moment ago, so it counts as good: it is in flight.
        """
        before, now = self._compared[i], self._compare(self._spans[i])
        self._free += before.bytes
        if before.known:
            still = {key: kind for key, kind in now.bad.items() if key in before.bad}
            counts = dict.fromkeys(DifferenceKind, 0) | Counter(still.values())
            samples = {key: sample for key, sample in {**before.samples, **now.samples}.items() if key in still}
            now = Compared(before.good + before.bad_rows - len(still), counts, still, samples)
        self._compared[i] = self._kept(now)
        return max(0, before.bad_rows - now.bad_rows)

    def _kept(self, found: Compared) -> Compared:
        """Return the part of a span's comparison that is kept."""
        if found.bytes > self._free:
            return found.without_keys()
        self._free -= found.bytes
        return found

    def _compare(self, span: Span) -> Compared:
        return compare_rows(self._scan(self._source, span), self._scan(self._peer_cluster, span), self._options.samples)

    def _scan(self, side: Side, span: Span) -> Iterator[Rows]:
        start = self._part.start if span.start is None else span.start
        stop = self._part.stop if span.stop is None else span.stop
        return side.scan(self._part.table, self._options.scan(self._part.families, start, stop))


def compare_range(source: SourceCluster, peer: Peer, part: TableRange, options: Options) -> VerificationOutcome:
    """Compare one range. An error becomes the outcome's problem, so that other ranges are compared all the same."""
    try:
        with (
            open_session(source, look_only=True) as session,
            Tables(session.zk, session.nodes, login=source.login) as ours,
            nullcontext(part.state) if part.state is not None else peer_tables(peer, source.login_to(peer)) as theirs,
        ):
            comparison = RangeComparison(ours, theirs, part, options, in_files=_in_files(source, peer, part, options))
            comparison.run()
            problem = _repair(session, peer, part.table, comparison) if options.repair and comparison.shippable else ""
            outcome = comparison.outcome()
            outcome.problem = problem
            return outcome
    except WalferryError as error:
        log.warning("table %s from row %r: %s", part.table, part.start, error)
        return VerificationOutcome(part.table, problem=str(error))


def _in_files(source: SourceCluster, peer: Peer, part: TableRange, options: Options) -> Callable[[], FilesCompared] | None:
    """Return how to compare the range's files, if there are any."""
    if part.files is None:
        return None
    # Most runs compare no files, and these modules take a while to import.
    from walferry.verification.files import compare_files

    lend(part.files.peer_cluster.root, source.login_to(peer).kerberos)  # a folder that the peer cluster has named
    return partial(compare_files, part.files, part.start, part.stop, options)


def _repair(session: Session, peer: Peer, table: str, comparison: RangeComparison) -> str:
    """Ship the rows that differ. Returns the error, if any: the comparison is valid all the same."""
    # The modules that ship take a third of a worker's imports. Most runs repair nothing.
    from walferry.verification.repair import repairing, ship_rows

    try:
        with repairing(session, peer, table) as shipment:
            comparison.repair(partial(ship_rows, shipment))
    except WalferryError as error:
        log.warning("not repaired: %s", error)
        return f"not repaired: {error}"
    return ""
