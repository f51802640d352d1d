"""A task's runs are kept on disk, and come back by store in the order in which they came."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from walferry.shipping.bulkload.runs import SortedRun
from walferry.shipping.bulkload.spilled_runs import LOCAL_DIRS, FileRun, HeldRuns


def run(store: int, data: bytes, cells: int = 1) -> SortedRun:
    return SortedRun(store, cells, np.frombuffer(data, np.uint8))


def whole(held: FileRun) -> bytes:
    return held.read_at(0, held.size)


@given(st.lists(st.lists(st.tuples(st.integers(0, 3), st.binary(max_size=20), st.integers(0, 5)), max_size=5), max_size=5))
def test_runs_come_back_by_store_in_their_order(taken: list[list[tuple[int, bytes, int]]]) -> None:
    expected, cells = defaultdict[int, list[bytes]](list), Counter[int]()
    for some in taken:
        for store, data, count in some:
            expected[store].append(data)
            cells[store] += count
    with HeldRuns({}) as held:
        held.take([run(*each) for each in some] for some in taken)
        assert held.cells == cells
        for store in range(5):
            assert [whole(each) for each in held.of(store)] == expected[store]


@given(st.binary(max_size=50), st.integers(0, 60), st.integers(0, 60))
def test_a_run_is_read_no_further_than_to_its_end(data: bytes, offset: int, length: int) -> None:
    with HeldRuns({}) as held:
        held.take([[run(0, b"before"), run(1, data), run(2, b"behind" * 20)]])
        (found,) = held.of(1)
        assert found.read_at(offset, length) == data[offset : offset + length]


def test_a_disk_that_is_full_is_told_by_the_run_that_it_does_not_take() -> None:
    held = HeldRuns({})
    held._file.close()
    held._file = open("/dev/full", "w+b", buffering=1 << 20)  # noqa: SIM115
    with pytest.raises(OSError, match="No space left"):
        held.take([[run(0, b"data")]])
    held.close()


@pytest.mark.parametrize("folders", ["{}", "{},/other", "/nowhere/at/all", ""])
def test_the_file_lies_in_spark_s_folder_if_there_is_one_and_nothing_is_left_of_it(tmp_path: Path, folders: str) -> None:
    with HeldRuns({LOCAL_DIRS: folders.format(tmp_path)}) as held:
        held.take([[run(0, b"data")]])
        (held_run,) = held.of(0)
        same = os.fstat(held_run.fd).st_dev == tmp_path.stat().st_dev
        assert same or "{}" not in folders
        assert list(tmp_path.iterdir()) == []
    with pytest.raises(OSError, match="Bad file descriptor"):
        held_run.read_at(0, 1)
