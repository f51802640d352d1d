"""Hashes of buckets of rows: two sides find the same borders, and every difference is found."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping

import pytest

from tests.unit.hbase.wal.encoder import PUT, Cell
from walferry.hbase.tables.rows import Rows, index_rows
from walferry.verification.digests import Span, differing, digest
from walferry.verification.outcome import DifferenceKind
from walferry.verification.rows import compare_rows

Table = Mapping[bytes, tuple[Cell, ...]]


def table(rows: int) -> dict[bytes, tuple[Cell, ...]]:
    keys = [f"row{i:06}".encode() for i in range(rows)]
    return {key: tuple(Cell(key, b"f", column, 5, PUT, b"v" * 10) for column in (b"a", b"b")) for key in keys}


def blocks(rows: Table, size: int) -> Iterator[Rows]:
    keys = sorted(rows)
    for at in range(0, len(keys), size):
        cells = [cell for key in keys[at : at + size] for cell in rows[key]]
        yield index_rows(b"".join(cell.encode() for cell in cells), len(cells))


WHOLE = Span(None, None)


def within(span: Span, key: bytes) -> bool:
    return (span.start is None or key >= span.start) and (span.stop is None or key < span.stop)


def test_equal_tables_have_equal_digests_however_their_rows_come():
    rows = table(5000)
    found = digest(blocks(rows, 5000))
    assert found == digest(blocks(rows, 7)) == digest(blocks(rows, 512))
    assert 4 < len(found) < 40
    assert sum(bucket.count for bucket in found) == 5000
    assert differing(found, found, 64, WHOLE) == (5000, [])


def test_no_rows_are_one_bucket_that_equals_itself():
    assert differing(digest([]), digest([]), 64, WHOLE) == (0, [])
    rows = table(10)
    equal, spans = differing(digest(blocks(rows, 10)), digest([]), 64, WHOLE)
    assert (equal, spans) == (0, [Span(None, None)])


@pytest.mark.slow
def test_every_difference_lies_in_a_span_and_rows_tell_its_kind():
    dice = random.Random(7)
    for _ in range(30):
        source, peer_cluster = table(3000), table(3000)
        expected = {}
        for key in dice.sample(sorted(source), 5):
            kind = dice.choice(list(DifferenceKind))
            expected[key] = kind
            if kind is DifferenceKind.MISSING:
                del peer_cluster[key]
            elif kind is DifferenceKind.EXTRA:
                del source[key]
            else:
                (a, b) = peer_cluster[key]
                changed = (Cell(key, b"f", b"b", 5, PUT, b"w" * 10), Cell(key, b"f", b"b", 6, PUT, b.value))
                peer_cluster[key] = dice.choice([(a,), *((a, other) for other in changed)])
        equal, spans = differing(digest(blocks(source, 100)), digest(blocks(peer_cluster, 90)), 3, WHOLE)
        assert all(any(within(span, key) for span in spans) for key in expected)
        found: dict[bytes, DifferenceKind] = {}
        good = equal
        for span in spans:
            ours, theirs = [{key: cells for key, cells in side.items() if within(span, key)} for side in (source, peer_cluster)]
            compared = compare_rows(blocks(ours, 50), blocks(theirs, 60), 10)
            good += compared.good
            found |= compared.bad
        assert found == expected
        assert good == len(source.keys() & peer_cluster.keys()) - sum(
            kind is DifferenceKind.DIFFERENT for kind in expected.values()
        )


def test_spans_of_a_part_lie_within_it():
    rows = table(3000)
    part = Span(b"row000100", b"row002000")
    equal, spans = differing(digest(blocks(rows, 100)), digest([]), 2, part)
    assert (equal, spans[0].start, spans[-1].stop) == (0, part.start, part.stop)
    assert differing(digest([]), digest(blocks(table(1), 1)), 2, part) == (0, [part])


def test_spans_of_rows_that_only_one_side_has_are_short_too():
    source = table(20_000)
    others = {key + b"x": (Cell(key + b"x", b"f", b"a", 5, PUT, b"v"),) for key in source}
    for ours, theirs in ((source, {}), ({}, source), (source, others)):
        equal, spans = differing(digest(blocks(ours, 1000)), digest(blocks(theirs, 1000)), 4, WHOLE)
        assert equal == 0
        assert spans[0].start is None
        assert spans[-1].stop is None
        assert [span.start for span in spans[1:]] == [span.stop for span in spans[:-1]]
        assert max(sum(within(span, key) for key in source) for span in spans) < 20_000 / 2
