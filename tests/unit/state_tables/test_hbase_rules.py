"""A scan shows what HBase's own reader would: the rules are compared with its steps, cell by cell."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from walferry.hbase.wal.cells import CellType
from walferry.state_tables.hbase_rules import MARKERS, NEVER, FamilyRules, shown

NOW = 1_000
FAMILIES = (
    FamilyRules(b"f", versions=1),
    FamilyRules(b"g", versions=3, ttl=990, min_versions=1),
    FamilyRules(b"h", versions=2, ttl=995),
)
OF_FAMILY = {each.family: each for each in FAMILIES}


@dataclass(frozen=True)
class Cell:
    row: bytes
    family: bytes
    qualifier: bytes
    timestamp: int
    kind: CellType
    number: int
    ttl: int | None = None

    @property
    def tags(self) -> bytes:
        other = struct.pack(">HB", 4, 7) + b"abc"
        return other + struct.pack(">HBq", 9, 8, self.ttl) if self.ttl is not None else b""


def table_of(cells: Sequence[Cell]) -> pa.Table:
    return pa.table(
        {
            "row": pa.array([each.row for each in cells], pa.binary()),
            "family": pa.array([each.family for each in cells], pa.binary()),
            "qualifier": pa.array([each.qualifier for each in cells], pa.binary()),
            "timestamp": pa.array([each.timestamp for each in cells], pa.int64()),
            "type": pa.array([each.kind.hbase_name for each in cells], pa.string()),
            "tags": pa.array([each.tags for each in cells], pa.binary()),
            "sequence_id": pa.array([each.number for each in cells], pa.int64()),
            "cell": pa.array([0] * len(cells), pa.int64()),
        }
    )


def found(cells: Sequence[Cell], now: int = NOW) -> list[int]:
    places, _ = shown(table_of(cells), FAMILIES, now)
    return [cells[place].number for place in places]


def as_hbase_reads(cells: Sequence[Cell], now: int) -> Iterator[int]:
    """What NormalUserScanQueryMatcher includes, with ScanDeleteTracker and ScanWildcardColumnTracker, cell by cell."""
    in_order = sorted(cells, key=lambda c: (c.row, c.family, c.qualifier, -c.timestamp, -c.kind, -c.number))
    store, column = None, None
    for cell in in_order:
        rules = OF_FAMILY[cell.family]
        if store != (cell.row, cell.family):
            store, column, family_stamp, family_versions, delete = (cell.row, cell.family), None, None, set[int](), None
        if column != cell.qualifier:
            column, count, last, delete = cell.qualifier, 0, None, None
        if cell.ttl is not None and cell.timestamp + cell.ttl < now:
            continue
        expired = rules.ttl < NEVER and cell.timestamp < now - rules.ttl
        if expired and rules.min_versions == 0:
            continue
        if cell.kind == CellType.DELETE_FAMILY:
            family_stamp = max(cell.timestamp, family_stamp if family_stamp is not None else cell.timestamp)
        elif cell.kind == CellType.DELETE_FAMILY_VERSION:
            family_versions.add(cell.timestamp)
        elif cell.kind in MARKERS:
            if delete is None or delete.kind <= cell.kind:
                delete = cell
        else:
            if (family_stamp is not None and cell.timestamp <= family_stamp) or cell.timestamp in family_versions:
                continue
            if delete is not None and (delete.kind == CellType.DELETE_COLUMN or delete.timestamp == cell.timestamp):
                continue
            if delete is not None:
                delete = None
            if last == cell.timestamp:
                continue
            last, count = cell.timestamp, count + 1
            if count <= rules.versions and (not expired or count <= rules.min_versions):
                yield cell.number


kinds = st.sampled_from([CellType.PUT] * 4 + [*MARKERS])


@st.composite
def some_cells(draw: st.DrawFn) -> list[Cell]:
    drawn = draw(
        st.lists(
            st.tuples(
                st.sampled_from([b"a", b"b"]), st.sampled_from(sorted(OF_FAMILY)), st.sampled_from([b"", b"p", b"q"]),
                st.integers(1, 12), kinds, st.sampled_from([None, None, None, 990, 5000]),
            ), max_size=40,
        )
    )  # fmt: skip
    of_family = (CellType.DELETE_FAMILY, CellType.DELETE_FAMILY_VERSION)
    return [
        Cell(row, family, b"" if kind in of_family else qualifier, timestamp, kind, number, ttl if kind == CellType.PUT else None)
        for number, (row, family, qualifier, timestamp, kind, ttl) in enumerate(drawn)
    ]


@given(some_cells())
def test_any_cells_are_shown_as_hbase_reads_them(cells: list[Cell]) -> None:
    assert found(cells) == list(as_hbase_reads(cells, NOW))


@given(some_cells(), st.integers(0, 40))
def test_cells_may_be_merged_step_by_step_as_long_as_versions_suffice(cells: list[Cell], cut: int) -> None:
    plenty = tuple(FamilyRules(each.family, versions=1000) for each in FAMILIES)
    table = table_of(cells)
    at_once = [cells[place].number for place in shown(table, plenty, NOW)[0]]
    first = table.slice(0, cut)
    before = first.take(pa.array(shown(first, plenty, NOW)[0]))
    markers = first.filter(pa.array([kind != "Put" for kind in first["type"].to_pylist()], pa.bool_()))
    all_of_it = pa.concat_tables([before, markers, table.slice(cut)])
    assert [all_of_it["sequence_id"][place].as_py() for place in shown(all_of_it, plenty, NOW)[0]] == at_once


def test_the_end_of_a_cell_is_the_earlier_one_of_its_own_and_its_family_s() -> None:
    cells = [
        Cell(b"a", b"g", b"q", 900, CellType.PUT, 1),  # protected by MIN_VERSIONS
        Cell(b"a", b"g", b"q", 800, CellType.PUT, 2),
        Cell(b"a", b"g", b"q", 700, CellType.PUT, 3, ttl=400),
        Cell(b"a", b"f", b"q", NEVER, CellType.PUT, 4),
    ]
    places, ends = shown(table_of(cells), FAMILIES, NOW)
    assert dict(zip([cells[place].number for place in places], ends.tolist(), strict=True)) == {
        4: NEVER, 1: NEVER, 2: 800 + 990, 3: 700 + 400,
    }  # fmt: skip


def test_a_family_that_the_table_has_no_more_is_not_shown() -> None:
    assert found([Cell(b"a", b"f", b"q", 1, CellType.PUT, 1), Cell(b"a", b"x", b"q", 1, CellType.PUT, 2)]) == [1]


def test_no_cells_are_no_cells() -> None:
    assert found([]) == []


def test_tags_that_make_no_sense_limit_no_life() -> None:
    cells = table_of([Cell(b"a", b"f", b"q", 1, CellType.PUT, 1)])
    for tags in (b"\xff" * 40, b"\0\0" * 20, struct.pack(">HB", 9, 8) + b"1234567"):
        odd = cells.set_column(cells.column_names.index("tags"), "tags", pa.array([tags], pa.binary()))
        assert shown(odd, FAMILIES, NOW)[1].tolist() == [NEVER]
