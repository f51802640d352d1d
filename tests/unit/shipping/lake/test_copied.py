"""What a first copy contains is left out of the feed, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.hbase.wal.encoder import Cell
from tests.unit.replication.sinks.iceberg.lake import changes, entry
from walferry.load.records import Load
from walferry.replication.sinks.changes import Changes
from walferry.shipping.lake.copied import CopiedRows, Fence, Fences, gaps, newest

KEYS = [b"", b"b", b"d", b"f", b"h", b""]  # borders of regions that are copied, from first to last
REGIONS = ["0", "1", "2", "3", "4"]
ROWS = st.sampled_from([b"a", b"b", b"b\0", b"c", b"d", b"e", b"f", b"g", b"h", b"zz"])
FAMILIES = st.sampled_from([b"f", b"g", b"h"])


def rows(number: int, fences: dict[str, int], *, whole: bool = True) -> CopiedRows:
    return CopiedRows(REGIONS[number], KEYS[number].hex(), KEYS[number + 1].hex(), fences, whole)


def of(row: bytes) -> int:
    """The region of a row."""
    return max(number for number in range(5) if KEYS[number] <= row)


@st.composite
def feeds(draw: st.DrawFn) -> tuple[Fence, Changes]:
    """What is copied of the regions, and changes of rows, in these regions, or in others that were split off or merged."""
    fences = st.dictionaries(st.sampled_from(["f", "g"]), st.integers(-1, 6))
    copied = [rows(number, draw(fences), whole=draw(st.booleans())) for number in range(5) if draw(st.booleans())]
    written = draw(st.lists(st.tuples(ROWS, FAMILIES, st.integers(0, 8), st.booleans()), min_size=1, max_size=12))
    entries = [
        entry(Cell(row, family, b"q", 1, 4, b"v", b""), sequence_id=number, families=[family])
        for row, family, number, _ in written
    ]
    (found,) = changes(entries)
    regions = [REGIONS[of(row)] if known else "a daughter" for row, _, _, known in written]
    at = found.rows.schema.get_field_index("region")
    in_regions = found.rows.set_column(at, found.rows.schema.field(at), pa.array(regions))
    return Fence(tuple(copied)), replace(found, rows=in_regions)


@given(feeds())
def test_edits_up_to_the_fence_of_their_row_and_family_are_left_out(feed: tuple[Fence, Changes]) -> None:
    fence, found = feed
    known = {each.region: each.fences for each in fence.rows}
    expected = [
        row
        for row in found.rows.to_pylist()
        if row["sequence_id"] > known.get(REGIONS[of(row["row"])], {}).get(row["family"].decode(), -1)
    ]
    rest = fence.rest(found)
    assert rest.rows.to_pylist() == expected
    assert len(rest.days) == len(expected)


@given(st.lists(st.booleans(), min_size=5, max_size=5), st.randoms())
def test_gaps_are_the_rows_that_are_not_copied(copied: list[bool], chance: object) -> None:
    some = [rows(number, {}) for number in range(5) if copied[number]]
    chance.shuffle(some)  # type: ignore[attr-defined]
    found = gaps(some)
    for row in (b"", b"a", b"b", b"c", b"d", b"e", b"f", b"g", b"h", b"zz"):
        missing = [1 for start, end in found if start <= row and (not end or row < end)]
        assert len(missing) == (not copied[of(row)])
    assert found == sorted(found)


def test_nothing_is_copied_of_rows_outside_of_what_was_copied() -> None:
    fences = Fence((rows(1, {"f": 100}),))
    (found,) = changes([entry(Cell(row, b"f", b"q", 1, 4, b"v", b""), sequence_id=5) for row in (b"a", b"b", b"c", b"d")])
    assert [row["row"] for row in fences.rest(found).rows.to_pylist()] == [b"a", b"d"]
    assert np.array_equal(fences.rest(found).days, found.days[[0, 3]])


def test_a_wal_behind_the_end_of_the_snapshots_has_only_later_edits_whatever_their_numbers() -> None:
    """A table that was truncated counts from 1 again."""
    (found,) = changes([entry(Cell(b"b", b"f", b"q", 1, 4, b"v", b""), sequence_id=5)])
    end = Load("run", {"rs1%2C16020%2C1": "rs1%2C16020%2C1.1700000000000"}, done=True, tables={})
    fences = Fences(((end, Fence((rows(1, {"f": 100}),))),))
    assert fences.rest(found, "rs1%2C16020%2C1.1700000000000").rows.num_rows == 0
    assert fences.rest(found, "rs1%2C16020%2C1.1700000000001").rows.num_rows == 1
    assert fences.rest(found, "rs2%2C16020%2C1.1600000000000").rows.num_rows == 1
    assert newest(end) == 1_700_000_000_000


def test_what_a_copy_has_of_two_snapshots_counts_up_to_the_end_of_each() -> None:
    written = changes([entry(Cell(row, b"f", b"q", 1, 4, b"v", b""), sequence_id=5) for row in (b"b", b"d")])
    (found,) = written
    group = "rs1%2C16020%2C1"
    ends = [Load("run", {group: f"{group}.{until}"}, done=True, tables={}) for until in (10, 20)]
    fences = Fences(((ends[0], Fence((rows(1, {"f": 9}),))), (ends[1], Fence((rows(2, {"f": 9}),)))))
    left = [[row["row"] for row in fences.rest(found, f"{group}.{at}").rows.to_pylist()] for at in (10, 11, 20, 21)]
    assert left == [[], [b"b"], [b"b"], [b"b", b"d"]]
