"""Cells are sorted by their keys, and of equal ones the latest comes first."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.hbase.hfiles.edits import edits_of, global_entry, runs_of
from tests.unit.hbase.hfiles.models import sort_key, split_run
from tests.unit.hbase.wal.encoder import PUT, Cell
from walferry.hbase.hfiles.stores import TargetTable
from walferry.shipping.bulkload.runs import SortedRun


def by_store(runs: Sequence[SortedRun]) -> dict[int, list[list[tuple[Cell, int, int]]]]:
    found: dict[int, list[list[tuple[Cell, int, int]]]] = {}
    for run in runs:
        cells = split_run(run.data.tobytes())
        assert len(cells) == run.cells
        found.setdefault(run.store, []).append(cells)
    return found


@given(st.lists(st.tuples(st.sampled_from([b"r", b"s"]), st.integers(1, 3)), max_size=60))
def test_of_equal_keys_the_largest_sequence_id_comes_first_and_within_one_the_later_cell(cells: list[tuple[bytes, int]]) -> None:
    entries = [
        global_entry([Cell(row, b"f", b"q", 1, PUT, struct.pack(">i", i))], number) for i, (row, number) in enumerate(cells)
    ]
    (found,) = by_store(runs_of([edits_of(*entries)], {b"t": TargetTable((b"f",), (b"",))})).values() or ([[]],)
    values = [(cell.row, number, struct.unpack(">i", cell.value)[0]) for cell, number, _ in found[0]]
    assert values == sorted(((row, n, i) for i, (row, n) in enumerate(cells)), key=lambda found: (found[0], -found[1], -found[2]))


@pytest.mark.parametrize("prefix", [b"", b"user-", b"a-prefix-that-is-longer-than-a-word-"])
def test_many_cells_are_sorted(prefix: bytes) -> None:
    rng = np.random.default_rng(1)
    numbers = rng.permutation(20_000)
    cells = [Cell(prefix + b"%d" % (i // 3), b"f", b"q%d" % (i % 3), int(i) % 7, PUT, b"v" * (int(i) % 50)) for i in numbers]
    edits = [edits_of(global_entry(cells[i : i + 500], i + 1)) for i in range(0, len(cells), 500)]
    runs = runs_of(edits, {b"t": TargetTable((b"f",), (b"",))})
    found = [cell for run in runs for cell, *_ in split_run(run.data.tobytes())]
    assert found == sorted(cells, key=sort_key)
