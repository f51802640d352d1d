"""Each row of a table is asked of one task, and what tasks answer is believed only as far as it was asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.replication.sinks.iceberg.lake import catalog_in, changes, entry, files_of, put
from walferry.hbase.tables.snapshots import SnapshotRegion
from walferry.initial_snapshot import lake_pieces
from walferry.initial_snapshot.lake_pieces import LakeCopy, LakeTask, Piece, check_chain, pieces_of, rest_of, tasks_of, why_wrong
from walferry.load.errors import CopyRefused
from walferry.replication.sinks.iceberg.tables import table_of
from walferry.shipping.lake.copied import CopiedRows, gaps

KEYS = st.lists(st.binary(min_size=1, max_size=2), unique=True, max_size=6).map(sorted)


def regions(borders: Sequence[bytes]) -> list[SnapshotRegion]:
    keys = [b"", *borders, b""]
    return [SnapshotRegion("t", f"region{n}", keys[n], keys[n + 1], ()) for n in range(len(keys) - 1)]


def copied(piece: Piece, **other: Any) -> CopiedRows:
    return CopiedRows(piece.region.encoded_name, piece.start.hex(), piece.end.hex(), {"f": 1}, piece.whole, **other)


@given(KEYS, KEYS, st.data())
def test_what_was_copied_of_other_regions_is_left_out_and_all_the_rest_is_copied_once(
    before: list[bytes], now: list[bytes], data: st.DataObject
) -> None:
    """Regions may have been split and merged in between."""
    done = [copied(Piece(each, each.start, each.end)) for each in regions(before) if data.draw(st.booleans())]
    pieces = list(pieces_of(regions(now), gaps(done)))
    rows = [*before, *now, b"", *(key + b"\0" for key in (*before, *now))]
    for row in rows:
        there = sum(bytes.fromhex(each.start) <= row and (not each.end or row < bytes.fromhex(each.end)) for each in done)
        there += sum(piece.start <= row and (not piece.end or row < piece.end) for piece in pieces)
        assert there == 1
    assert gaps([*done, *map(copied, pieces)]) == []
    assert all(piece.region.start <= piece.start for piece in pieces)


@given(st.integers(1, 500), st.integers(1, 400))
def test_tasks_have_all_pieces_in_order_and_not_too_many_each(count: int, size: int) -> None:
    pieces = [Piece(each, each.start, each.end) for each in regions([b"%04d" % n for n in range(1, count)])]
    tasks = list(tasks_of("t", (b"f",), pieces))
    assert [piece for task in tasks for piece in task.pieces] == pieces
    assert max(len(task.pieces) for task in tasks) <= lake_pieces.MOST_PIECES


def test_a_task_has_some_bytes_of_files_or_one_region(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lake_pieces, "TASK_BYTES", 10)
    monkeypatch.setattr(
        SnapshotRegion, "size", property(lambda self: {"region0": 6, "region1": 4, "region2": 5}.get(self.encoded_name, 99))
    )
    pieces = [Piece(each, each.start, each.end) for each in regions([b"b", b"c", b"d", b"e"])]
    assert [len(task.pieces) for task in tasks_of("t", (b"f",), pieces)] == [2, 1, 1, 1]


@pytest.mark.parametrize(
    ("borders", "found"),
    [
        ([(b"", b"b"), (b"b", b"")], True),
        ([(b"", b"")], True),
        ([], True),
        ([(b"", b"b"), (b"c", b"")], False),
        ([(b"", b"c"), (b"b", b"")], False),
        ([(b"a", b"")], False),
        ([(b"", b"b")], False),
        ([(b"", b""), (b"b", b"")], False),
        ([(b"", b"b"), (b"", b"b"), (b"b", b"")], False),
    ],
)
def test_each_row_has_to_belong_to_one_region(borders: list[tuple[bytes, bytes]], found: bool) -> None:
    some = [SnapshotRegion("t", f"region{n}", start, end, ()) for n, (start, end) in enumerate(borders)]
    if found:
        check_chain("t", some)
    else:
        with pytest.raises(CopyRefused, match="table t: in its snapshot, regions overlap or rows have no region"):
            check_chain("t", some)


@pytest.fixture
def table(tmp_path: Path) -> Any:
    return table_of(catalog_in(tmp_path), ("default", "t_changes"))


PIECES = tuple(Piece(each, each.start, each.end) for each in regions([b"b", b"d"]))
TASK = LakeTask("t", (b"f",), PIECES)


def test_an_answer_may_have_some_of_the_pieces_and_the_beginning_of_one(table: Any) -> None:
    files = tuple(files_of(table, *changes([entry(put(b"a"))])))
    part = replace(copied(PIECES[1]), end=b"c".hex(), whole=False)
    answer = LakeCopy("t", (copied(PIECES[0], cells=1), part), files)
    assert why_wrong(TASK, answer, table) == ""
    (rest,) = rest_of(TASK, answer)
    assert rest == replace(TASK, pieces=(replace(PIECES[1], start=b"c"), PIECES[2]))
    assert not rest.pieces[0].whole
    assert list(rest_of(TASK, LakeCopy("t", tuple(map(copied, PIECES))))) == []
    assert list(rest_of(TASK, replace(answer, errors=("odd",)))) == []


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (LakeCopy("u", (copied(PIECES[0]),)), "it is one for table u"),
        (LakeCopy("t"), "neither rows nor errors"),
        (LakeCopy("t", (copied(PIECES[0]), copied(PIECES[0]))), "not asked for"),
        (LakeCopy("t", (replace(copied(PIECES[0]), region="other"),)), "not asked for"),
        (LakeCopy("t", (replace(copied(PIECES[0]), end="ff"),)), "not asked for"),
        (LakeCopy("t", (replace(copied(PIECES[0]), end="no digits"),)), "not asked for"),
        (LakeCopy("t", (replace(copied(PIECES[0]), whole=False),)), "not asked for"),
        (LakeCopy("t", (replace(copied(PIECES[1]), end=b"c".hex()),)), "not asked for"),
        (LakeCopy("t", (replace(copied(PIECES[0]), fences={"g": 1}),)), "not asked for"),
        (LakeCopy("t", (copied(PIECES[0], cells=1),)), "its files have not the cells"),
    ],
)
def test_an_answer_that_makes_no_sense_is_not_committed(table: Any, answer: LakeCopy, why: str) -> None:
    assert why in why_wrong(TASK, answer, table)


def test_files_of_other_tables_and_files_that_are_named_twice_are_not_committed(table: Any) -> None:
    (file,) = files_of(table, *changes([entry(put(b"a"))]))
    rows = copied(PIECES[0], cells=1)
    assert why_wrong(TASK, LakeCopy("t", (rows,), (replace(file, path="file:///etc/passwd"),)), table) == (
        "file:///etc/passwd is no file of the table"
    )
    assert "is no file" in why_wrong(TASK, LakeCopy("t", (rows,), (replace(file, table="u"),)), table)
    twice = LakeCopy("t", (replace(rows, cells=2),), (file, file))
    assert "its files have not the cells" in why_wrong(TASK, twice, table)
