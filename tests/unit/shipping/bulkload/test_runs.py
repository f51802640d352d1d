"""Edits become sorted runs: the same as sorting them in plain Python, one store after the other."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.hbase.hfiles.edits import edits_of, global_entry, runs_of
from tests.unit.hbase.hfiles.models import TYPES, numbered, sort_key, split_run
from tests.unit.hbase.wal.encoder import PUT, Cell
from tests.unit.hbase.wal.strategies import tags
from tests.unit.replication.filters.test_entry_filter import GLOBAL
from walferry.hbase.hfiles.errors import NoSuchStore
from walferry.hbase.hfiles.stores import Store, Stores, TargetTable
from walferry.shipping.bulkload.runs import Edits

TABLES = {b"t": TargetTable((b"f", b"gg"), (b"", b"b", b"b\0", b"bb", b"\xff")), b"ns:u": TargetTable((b"f",), (b"",))}
ROWS = st.one_of(st.sampled_from([b"a", b"b", b"b\0", b"ba", b"bb", b"\xff", b"\xff\xff"]), st.binary(min_size=1, max_size=20))
CELLS = st.builds(
    Cell,
    row=ROWS,
    family=st.sampled_from([b"f", b"gg", b"local"]),
    qualifier=st.one_of(st.sampled_from([b"", b"q"]), st.binary(max_size=12)),
    timestamp=st.one_of(st.integers(0, 3), st.integers(0, (1 << 63) - 1)),
    type=st.sampled_from(TYPES),
    value=st.binary(max_size=60),
    tags=tags,
)


def store_of(table: bytes, cell: Cell) -> Store:
    starts = TABLES[table].starts
    return Store(table, starts[bisect_right(starts, cell.row) - 1], cell.family)


TIMES = st.one_of(st.integers(0, 3), st.integers(0, (1 << 63) - 1))
ENTRIES = st.lists(st.tuples(st.sampled_from(sorted(TABLES)), st.lists(CELLS, max_size=6), st.integers(1, 5), TIMES), max_size=8)


@given(st.lists(ENTRIES, max_size=4), st.sampled_from([1, 400, 64 << 20]), st.sets(st.integers(0, 10)))
def test_runs_have_all_edits_of_the_wanted_stores_in_order(batches, memory_bytes: int, left_out: set[int]) -> None:
    wanted = [
        [
            (table, [c for c in cells if table == b"t" or c.family != b"gg"], number, time)
            for table, cells, number, time in entries
        ]
        for entries in batches
    ]
    edits = [edits_of(*(global_entry(cells, number, table, time) for table, cells, number, time in each)) for each in wanted]
    stores = Stores(TABLES)
    chosen = np.array([number not in left_out for number in range(len(stores.list))])
    runs = runs_of(edits, TABLES, wanted=chosen, memory_bytes=memory_bytes)
    expected = Counter(
        (store_of(table, cell), cell, number, time)
        for entries in wanted
        for table, cells, number, time in entries
        for cell in cells
        if cell.family != b"local" and chosen[stores.list.index(store_of(table, cell))]
    )
    assert expected == Counter((stores.list[run.store], *each) for run in runs for each in split_run(run.data.tobytes()))
    for run in runs:
        cells = split_run(run.data.tobytes())
        assert len(cells) == run.cells
        keys = [(*sort_key(cell), -number) for cell, number, _ in cells]
        assert keys == sorted(keys)


def test_only_the_chosen_entries_are_taken() -> None:
    edits = edits_of(*(global_entry([Cell(b"r%d" % i, b"f", b"", 1, PUT, b"")], i + 1) for i in range(4)))
    chosen = Edits(edits.batch, edits.kept, np.array([1, 3]), edits.path)
    (run,) = runs_of([chosen], TABLES)
    assert [cell.row for cell, *_ in split_run(run.data.tobytes())] == [b"r1", b"r3"]


def test_a_cell_of_a_run_is_that_of_a_wal_with_the_length_of_its_tags() -> None:
    cell = Cell(b"row", b"f", b"q", 5, PUT, b"value")
    (run,) = runs_of([edits_of(global_entry([cell], 77, write_time=88))], TABLES)
    assert run.data.tobytes() == numbered(cell, 77, 88) == cell.encode()[4:] + bytes(2) + (77).to_bytes(8) + (88).to_bytes(8)


@pytest.mark.parametrize(
    ("table", "family", "what"),
    [(b"t", b"x", "family x of table t"), (b"other", b"f", "table other"), (b"ns:u", b"gg", "family gg of table ns:u")],
)
def test_an_edit_without_a_store_at_the_peer_cluster_is_an_error_that_names_both(table: bytes, family: bytes, what: str) -> None:
    sound = global_entry([Cell(b"r", b"f", b"q", 1, PUT, b"")], 1)
    lost = global_entry([Cell(b"r", b"f", b"q", 1, PUT, b""), Cell(b"r", family, b"q", 1, PUT, b"")], 2, table)
    if family == b"x":
        lost.key.scopes.add(family=b"x", scope_type=GLOBAL)
    edits = edits_of(sound, lost, path="hdfs://a/wal7")
    with pytest.raises(NoSuchStore, match=f"hdfs://a/wal7 at byte {edits.batch.entry_offset(1)}: .*{what}"):
        runs_of([edits], TABLES)


@settings(max_examples=20)
@given(st.integers(1, 40))
def test_no_more_is_held_than_was_asked_for(count: int) -> None:
    """Batches that do not fit together are sorted one by one."""
    edits = [edits_of(global_entry([Cell(b"r%d" % i, b"f", b"", 1, PUT, bytes(100))], 1)) for i in range(count)]
    table = {b"t": TargetTable((b"f",), (b"",))}
    assert len(runs_of(edits, table, memory_bytes=1)) == count
    assert len(runs_of(edits, table, memory_bytes=1 << 20)) == 1
