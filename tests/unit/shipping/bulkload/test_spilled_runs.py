"""A partition's runs are kept on disk, and come back in the order of their WALs."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walferry.base.records import NotARecord
from walferry.shipping.bulkload.rows import NOTE, REPORT, Note, ShuffleRow, WalReport
from walferry.shipping.bulkload.spilled_runs import LOCAL_DIRS, FileRun, HeldRuns

RUNS = st.tuples(st.integers(0, 2), st.integers(0, 1), st.integers(0, 3), st.integers(0, 3))  # region, family, WAL, number


def row(region: int, family: int, wal: int, number: int, data: bytes) -> ShuffleRow:
    return ShuffleRow(0, region, family, wal, number, memoryview(data))


def whole(run: FileRun) -> bytes:
    return run.read_at(0, run.size)


@given(
    st.dictionaries(RUNS, st.binary(max_size=20)).flatmap(lambda runs: st.permutations(list(runs.items()))),
    st.sets(st.integers(0, 3)),
)
def test_runs_come_back_by_store_in_the_order_of_their_wals(
    rows: list[tuple[tuple[int, int, int, int], bytes]], wanted: set[int]
) -> None:
    expected: dict[int, dict[int, list[bytes]]] = defaultdict(lambda: defaultdict(list))
    for (region, family, wal, _), data in sorted(rows):
        if wal in wanted:
            expected[region][family].append(data)
    with HeldRuns({}) as held:
        held.take(row(*place, data) for place, data in rows)
        assert set(held.regions) == {place[0] for place, _ in rows}
        sizes = [held.size_of(region) for region in held.regions]
        assert sizes == sorted(sizes, reverse=True)
        assert sum(sizes) == sum(len(data) for _, data in rows)
        for region in held.regions:
            found = held.runs(region, wanted.__contains__)
            assert {family: [whole(run) for run in runs] for family, runs in found.items()} == expected[region]


@given(st.binary(max_size=50), st.integers(0, 60), st.integers(0, 60))
def test_a_run_is_read_no_further_than_to_its_end(data: bytes, offset: int, length: int) -> None:
    with HeldRuns({}) as held:
        held.take([row(0, 0, 0, 0, b"before"), row(0, 0, 1, 0, data), row(0, 0, 2, 0, b"behind" * 20)])
        run = held.runs(0, lambda wal: wal == 1)[0][0]
        assert run.read_at(offset, length) == data[offset : offset + length]


def test_notes_and_reports_are_told_apart_from_runs() -> None:
    note, report = Note(1, 2, "broken"), WalReport(0)
    with HeldRuns({}) as held:
        held.take([row(NOTE, 0, 0, 0, note.to_json().encode()), row(REPORT, 0, 0, 0, report.to_json().encode())])
        assert (held.notes, held.reports, held.regions) == ([note], [report.to_json().encode()], [])


def test_a_note_that_is_not_one_stops_the_task() -> None:
    for text in (b"", b"[]", json.dumps({"unfit": 1}).encode()):
        with HeldRuns({}) as held, pytest.raises(NotARecord):
            held.take([row(NOTE, 0, 0, 0, text)])


@pytest.mark.parametrize("folders", ["{}", "{},/other", "/nowhere/at/all", ""])
def test_the_file_lies_in_spark_s_folder_if_there_is_one_and_nothing_is_left_of_it(tmp_path: Path, folders: str) -> None:
    with HeldRuns({LOCAL_DIRS: folders.format(tmp_path)}) as held:
        held.take([row(0, 0, 0, 0, b"data")])
        run = held.runs(0, lambda wal: True)[0][0]
        same = os.fstat(run.fd).st_dev == tmp_path.stat().st_dev
        assert same or "{}" not in folders
        assert list(tmp_path.iterdir()) == []
    with pytest.raises(OSError, match="Bad file descriptor"):
        run.read_at(0, 1)
