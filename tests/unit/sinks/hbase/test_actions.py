"""The row mutations in a shipment are those that a slave's own sink would make of it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from tests.unit.filters.test_window import SOURCE, entry, put
from tests.unit.sinks.hbase.edits import OTHERS, Mutation, ids_attribute, mutations_of, parts, shipment_of
from tests.unit.wal.encoder import Cell
from walferry.sinks.hbase.actions import ActionRow, Actions, find_actions
from walferry.wal.cells import split_cells


def found(actions: Actions) -> list[tuple[bytes, bytes, int, bytes, bytes, int]]:
    """Each action as (table, cluster ids, kind, row, cells, how many)."""
    rows = []
    for i in range(len(actions)):
        part, start, end, cells, kind, table, ids, *_ = actions.table[:, i].tolist()
        data = actions.cells[part][start:end].tobytes()
        rows.append((actions.tables[table], actions.cluster_ids[ids], kind, actions.key(i), data, cells))
    return rows


def expected(mutation: Mutation) -> tuple[bytes, bytes, int, bytes, bytes, int]:
    data = b"".join(cell.encode() for cell in mutation.cells)
    return mutation.table, ids_attribute(mutation.ids), mutation.kind, mutation.row, data, len(mutation.cells)


@settings(max_examples=300, deadline=None)
@given(parts)
def test_a_shipment_has_the_mutations_that_a_sink_would_make_of_it(edits):
    actions = find_actions(shipment_of(*edits))
    assert found(actions) == [expected(m) for entries in edits for m in mutations_of(entries)]
    assert len(set(actions.tables)) == len(actions.tables)
    assert len(set(actions.cluster_ids)) == len(actions.cluster_ids)


@settings(max_examples=100, deadline=None)
@given(parts)
def test_an_action_begins_a_row_if_none_of_the_same_row_and_entry_is_before_it(edits):
    actions = find_actions(shipment_of(*edits))
    begins = [
        i == 0 or made[i - 1].row != m.row for entries in edits for e in entries for made in [list(mutations_of([e]))]
        for i, m in enumerate(made)
    ]  # fmt: skip
    assert actions.of(ActionRow.BEGINS).astype(bool).tolist() == begins


@pytest.mark.parametrize(
    ("kinds", "grouped"),
    [((4, 4, 8), [2, 1]), ((8, 10, 12, 14), [1, 1, 1, 1]), ((14, 14, 4, 4), [2, 2]), ((0, 4, 255), [1, 1, 1])],
)
def test_a_change_of_type_within_a_row_begins_a_mutation(kinds, grouped):
    edits = [Cell(b"r", b"f", b"q%d" % i, 1, kind, b"") for i, kind in enumerate(kinds)]
    actions = find_actions(shipment_of([entry(*edits)]))
    assert actions.of(ActionRow.CELLS).tolist() == grouped


def test_entries_of_one_row_are_never_joined():
    actions = find_actions(shipment_of([entry(put()), entry(put())], [entry(put())]))
    assert len(actions) == 3


def test_the_source_comes_last_among_the_cluster_ids_and_the_old_single_one_counts_too():
    old = entry(put(), ids=(OTHERS[1],))
    old.key.cluster_id.least_sig_bits, old.key.cluster_id.most_sig_bits = 5, 6
    (ids,) = find_actions(shipment_of([old])).cluster_ids
    assert ids == b"\0\0\0\3" + (6).to_bytes(8) + (5).to_bytes(8) + OTHERS[1].bytes + SOURCE.bytes


def test_the_cells_keep_their_bytes_tags_among_them():
    tagged = Cell(b"r", b"f", b"q", 3, 4, b"value", b"\x00\x02\x64x")
    actions = find_actions(shipment_of([entry(tagged, put())]))
    assert next(split_cells(actions.cells[0].tobytes())).data == tagged.encode()


def test_entries_that_are_not_as_they_were_assembled_are_an_error():
    shipment = shipment_of([entry(put()), entry(put())])
    broken = shipment.entries[0].copy()
    broken[1] += 1
    with pytest.raises(AssertionError, match="entry 0 of a shipment's part 0"):
        find_actions(type(shipment)(**{**vars(shipment), "entries": (broken,)}))
