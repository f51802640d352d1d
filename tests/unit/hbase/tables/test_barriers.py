"""Rows of hbase:meta with a region's barriers are read as HBase reads them."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.hbase.wal.encoder import PUT, Cell
from walferry.hbase.layout import ZNodes
from walferry.hbase.rpc.client import ScanAnswer
from walferry.hbase.tables import tables as tables_module
from walferry.hbase.tables.barriers import Barriers, barriers_of, find_barriers, parse_parents, read_barriers
from walferry.hbase.tables.errors import RegionUnavailable
from walferry.hbase.tables.tables import Tables

ROW = b"t,,1.0123456789abcdef0123456789abcdef."
PARENTS = [b"t,\xff,1.%032x." % number for number in (1, 2)]


def written(parents: Sequence[bytes]) -> bytes:
    """MetaTableAccessor.getParentsBytes."""
    return b"\xff\x00".join(parent.replace(b"\xff", b"\xff\xff") for parent in parents)


def row(*cells: tuple[bytes, bytes, bytes]) -> bytes:
    return b"".join(Cell(ROW, family, qualifier, 1, PUT, value).encode() for family, qualifier, value in cells)


def barrier(value: int) -> tuple[bytes, bytes, bytes]:
    return b"rep_barrier", b"seqnumDuringOpen", value.to_bytes(8, signed=True)


@given(st.lists(st.binary(min_size=1).map(lambda name: name + b"."), min_size=1))
def test_names_of_parents_are_read_as_hbase_writes_them(parents: list[bytes]) -> None:
    assert parse_parents(written(parents)) == parents


@given(st.binary())
def test_any_value_is_a_list_of_names(value: bytes) -> None:
    assert all(parse_parents(value))


def test_a_region_s_barriers_ascend_and_its_newest_state_counts() -> None:
    state = [(b"info", b"state", b"OPENING"), (b"info", b"state", b"OPEN")]
    cells = [*state, (b"rep_barrier", b"parent", written(PARENTS)), barrier(9), barrier(2), barrier(9)]
    assert read_barriers(row(*cells)) == Barriers((2, 9), tuple(PARENTS), True)
    assert read_barriers(row((b"info", b"state", b"OPEN"))) == Barriers()


@pytest.mark.parametrize(
    ("cell", "why"),
    [
        ((b"rep_barrier", b"seqnumDuringOpen", b"9"), "a barrier of 1 bytes, which is not a number"),
        ((b"rep_barrier", b"parent", b"t,,1.../../x."), "was made of b't,,1.../../x.', which is not a region's name"),
    ],
)
def test_what_is_no_barrier_or_no_region_is_named(cell: tuple[bytes, bytes, bytes], why: str) -> None:
    with pytest.raises(RegionUnavailable, match=why):
        read_barriers(row(cell))


def answers_of(*parts: tuple[bytes, int, bool, bool]) -> list[ScanAnswer]:
    return [ScanAnswer(memoryview(cells), count, partial, more) for cells, count, partial, more in parts]


NEWEST, OLDER = row((b"info", b"state", b"OPEN"), barrier(500)), row(barrier(100), barrier(1))


@pytest.mark.parametrize(
    "answers",
    [
        answers_of((NEWEST + OLDER, 4, False, False)),
        answers_of((NEWEST, 2, True, True), (OLDER, 2, False, False)),
        answers_of((NEWEST, 2, True, True), (b"", 0, False, True), (OLDER, 2, False, False)),
    ],
    ids=["in one answer", "in two", "with a heartbeat in between"],
)
def test_a_row_that_comes_in_parts_is_read_whole(monkeypatch: pytest.MonkeyPatch, answers: list[ScanAnswer]) -> None:
    """With only its newest barriers, an edit from before them would have no order."""
    left = list(answers)
    scanner = SimpleNamespace(next=lambda: left.pop(0), close=lambda: None, rows_a_call=0)
    meta = SimpleNamespace(connection=lambda region: None, locate=lambda row: None)
    monkeypatch.setattr(tables_module, "RegionScanner", lambda *_, **__: scanner)
    monkeypatch.setattr(tables_module, "_MetaPlace", lambda _: meta)
    tables = Tables(None, ZNodes("/hbase"))  # type: ignore[arg-type]
    found = find_barriers(tables, "t", b"r", ROW[-33:-1])
    assert found == Barriers((1, 100, 500))


def test_a_look_up_that_has_to_end_says_so_and_asks_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables_module, "_MetaPlace", lambda _: None)
    tables = Tables(None, ZNodes("/hbase"))  # type: ignore[arg-type]
    assert find_barriers(tables, "t", b"r", b"a" * 32, lambda: True) is None
    assert barriers_of(tables, ROW, lambda: True) is None
