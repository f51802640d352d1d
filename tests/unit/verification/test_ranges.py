"""Comparisons that are made again: rows that were in flight, and rows that are repaired."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.unit.hbase.wal.encoder import PUT, Cell
from tests.unit.verification.test_digests import blocks, table
from walferry.hbase.tables.rows import Rows
from walferry.hbase.tables.scan import ScanSpec
from walferry.verification.job import Options, TableRange
from walferry.verification.outcome import DifferenceKind, VerificationOutcome
from walferry.verification.ranges import MAX_KEY_BYTES, RangeComparison

PART = TableRange("t", (b"f",), b"", b"")


@dataclass
class Side:
    """A cluster with one table."""

    rows: dict[bytes, tuple[Cell, ...]]

    def scan(self, name: str, spec: ScanSpec) -> Iterator[Rows]:
        stop = spec.stop_row or b"\xff"
        return blocks({key: cells for key, cells in self.rows.items() if spec.start_row <= key < stop}, 100)


@dataclass
class Waits:
    """Notes pauses, and does something at each of them."""

    meanwhile: Callable[[], Any] = lambda: None
    pauses: list[float] = field(default_factory=list)

    def __call__(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.meanwhile()


def compared(
    source: Side, peer_cluster: Side, waits: Waits, max_key_bytes: int = MAX_KEY_BYTES, **options: Any
) -> VerificationOutcome:
    chosen = Options(**options)
    comparison = RangeComparison(source, peer_cluster, PART, chosen, waits, max_key_bytes=max_key_bytes)  # type: ignore[arg-type]
    comparison.run()
    return comparison.outcome()


def other(key: bytes) -> tuple[Cell, ...]:
    return (Cell(key, b"f", b"a", 6, PUT, b"other"),)


def test_rows_that_arrive_meanwhile_count_as_good_and_others_do_not():
    source, peer_cluster = Side(table(3000)), Side(table(3000))
    late, lost = b"row001000", b"row001001"
    arriving = peer_cluster.rows.pop(late)
    del peer_cluster.rows[lost]
    waits = Waits(lambda: peer_cluster.rows.update({late: arriving}))
    found = compared(source, peer_cluster, waits, recompares=2, recompare_seconds=5)
    assert (found.good, found.bad[DifferenceKind.MISSING], found.bad_rows) == (2999, 1, 1)
    assert (found.in_flight, found.recompared) == (1, 3)
    assert [sample.row for sample in found.samples] == [lost.decode()]
    assert waits.pauses == [5, 10]


def test_a_row_that_changes_after_it_was_found_equal_stays_good():
    source, peer_cluster = Side(table(3000)), Side(table(3000))
    lost, busy = b"row001001", b"row001002"
    del peer_cluster.rows[lost]
    found = compared(source, peer_cluster, Waits(lambda: source.rows.update({busy: other(busy)})), recompares=1)
    assert (found.good, found.bad_rows) == (2999, 1)


def test_equal_tables_are_not_compared_again():
    waits = Waits()
    found = compared(Side(table(100)), Side(table(100)), waits, recompares=3)
    assert (found.good, found.pruned, found.bad_rows, waits.pauses) == (100, 100, 0, [])


def test_a_repair_ships_what_the_source_has_and_counts_what_is_equal_then():
    source, peer_cluster = Side(table(1000)), Side(table(1000))
    missing, different, stubborn, extra = b"row000001", b"row000500", b"row000502", b"row000503"
    del peer_cluster.rows[missing]
    del source.rows[extra]
    peer_cluster.rows |= {different: other(different), stubborn: other(stubborn)}
    shipped: list[bytes] = []

    def ship(tables: Side, part: TableRange, keys: list[bytes]) -> None:
        shipped.extend(keys)
        peer_cluster.rows.update({key: source.rows[key] for key in keys if key != stubborn})

    comparison = RangeComparison(source, peer_cluster, PART, Options())  # type: ignore[arg-type]
    comparison.run()
    assert comparison.shippable
    comparison.repair(ship)  # type: ignore[arg-type]
    found = comparison.outcome()
    assert sorted(shipped) == [missing, different, stubborn]
    assert (found.repaired, found.good) == (2, 998)
    assert (found.bad[DifferenceKind.MISSING], found.bad[DifferenceKind.DIFFERENT], found.bad[DifferenceKind.EXTRA]) == (0, 1, 1)


@pytest.mark.slow
@pytest.mark.parametrize("max_key_bytes", [MAX_KEY_BYTES, 200_000, 0])
def test_many_rows_that_differ_are_compared_again_whether_there_is_memory_for_their_keys_or_not(max_key_bytes: int):
    source, peer_cluster = Side(table(50_000)), Side({})
    arriving = dict(list(source.rows.items())[:-3])
    found = compared(
        source, peer_cluster, Waits(lambda: peer_cluster.rows.update(arriving)), max_key_bytes, recompares=1, samples=2
    )
    assert (found.good, found.bad[DifferenceKind.MISSING], found.bad_rows) == (49_997, 3, 3)
    assert (found.recompared, found.in_flight) == (50_000, 49_997)
    assert len(found.samples) == 2


def test_rows_are_repaired_without_memory_for_their_keys():
    source, peer_cluster = Side(table(2000)), Side(table(1000))
    comparison = RangeComparison(source, peer_cluster, PART, Options(), max_key_bytes=0)  # type: ignore[arg-type]
    comparison.run()
    comparison.repair(lambda tables, part, keys: peer_cluster.rows.update({key: source.rows[key] for key in keys}))
    found = comparison.outcome()
    assert (found.repaired, found.good, found.bad_rows) == (1000, 2000, 0)
