"""The row mutations in a shipment are the same as a peer cluster's own sink would make of it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.hbase.wal.encoder import Cell, encode_varint
from tests.unit.replication.filters.test_entry_filter import SOURCE, entry, put
from tests.unit.replication.sinks.hbase.edits import OTHERS, Mutation, ids_attribute, mutations_of, parts, shipment_of
from walferry.base.kernels.read import hash_bytes, mix
from walferry.hbase.wal.cells import split_cells
from walferry.replication.sinks.hbase.actions import (
    MAX_CLUSTER_IDS,
    MAX_ID_LISTS,
    MAX_TABLES,
    PIECE_CELLS,
    ActionRow,
    Actions,
    ShipmentUnfit,
    find_actions,
    in_row_order,
    pieces,
)
from walferry.replication.sinks.hbase.shipment import join


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


@pytest.mark.slow
@settings(max_examples=3 * settings().max_examples)
@given(parts)
def test_a_shipment_has_the_mutations_that_a_sink_would_make_of_it(edits):
    actions = find_actions(shipment_of(*edits))
    assert found(actions) == [expected(m) for entries in edits for m in mutations_of(entries)]
    assert len(set(actions.tables)) == len(actions.tables)
    assert len(set(actions.cluster_ids)) == len(actions.cluster_ids)


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


def clusters(count: int) -> tuple[UUID, ...]:
    return tuple(UUID(int=n << 3) for n in range(1, count + 1))


def test_an_entry_has_as_many_cluster_ids_as_a_request_can_carry_with_each_action():
    actions = find_actions(shipment_of([entry(put(), ids=clusters(MAX_CLUSTER_IDS - 1))]))
    assert actions.cluster_ids == (ids_attribute([*clusters(MAX_CLUSTER_IDS - 1), SOURCE]),)
    with pytest.raises(ShipmentUnfit, match="more than 32 cluster ids"):
        find_actions(shipment_of([entry(put(), ids=clusters(MAX_CLUSTER_IDS))]))


def test_a_shipment_has_as_many_lists_of_cluster_ids_as_a_request_can_carry_in_groups_of_their_own():
    edits = [entry(put(), ids=(each,)) for each in clusters(MAX_ID_LISTS + 1)]
    fits = [*edits[:MAX_ID_LISTS], *edits[:MAX_ID_LISTS]]
    assert find_actions(shipment_of(fits)).of(ActionRow.IDS).tolist() == [*range(MAX_ID_LISTS)] * 2
    with pytest.raises(ShipmentUnfit, match="more than 100 different lists of cluster ids"):
        find_actions(shipment_of(edits))


@pytest.mark.slow
def test_an_entry_with_very_many_cells_goes_in_pieces_of_whole_rows():
    cells = [Cell(b"r%d" % (i // 7), b"f", b"q%d" % i, 1, 4, b"", b"") for i in range(PIECE_CELLS * 5 // 2)]
    whole = shipment_of([entry(*cells, ids=tuple(OTHERS))])
    some = list(pieces(whole))
    assert [piece.cell_count for piece in some[:2]] == [PIECE_CELLS + 7 - PIECE_CELLS % 7] * 2
    assert sum(piece.cell_count for piece in some) == whole.cell_count
    assert sum(piece.row_count for piece in some) == whole.row_count == -(-len(cells) // 7)
    assert b"".join(piece.cells[0].tobytes() for piece in some) == whole.cells[0].tobytes()
    assert [action for piece in some for action in found(find_actions(piece))] == found(find_actions(whole))


def test_other_shipments_are_not_taken_apart():
    one = shipment_of([entry(put()), entry(put())])
    assert list(pieces(one)) == [one]


def test_tables_may_occur_in_any_order():
    names = [b"t%d" % (i * i % 499) for i in range(1000)]
    actions = find_actions(shipment_of([entry(put(), table=name) for name in names]))
    assert [actions.tables[number] for number in actions.of(ActionRow.TABLE)] == names
    assert len(actions.tables) == len(set(names))


def names_of_one_hash() -> Iterator[bytes]:
    """Names of tables that have the same hash: the second eight bytes undo what the first ones have done."""
    for number in itertools.count():
        first = b"t%07d" % number
        state = int(mix(np.uint64(16), np.uint64(int.from_bytes(first, "little"))))
        name = first + state.to_bytes(8, "little")
        if name.isascii():
            yield name


@pytest.mark.long
def test_a_shipment_has_a_thousand_tables_at_most_as_their_names_may_all_have_one_hash():
    names = list(itertools.islice(names_of_one_hash(), MAX_TABLES + 1))
    assert len({hash_bytes(np.frombuffer(name, np.uint8), 0, len(name)) for name in names}) == 1
    edits = [entry(put(), table=name) for name in names]
    fits = [*edits[:MAX_TABLES], *edits[:MAX_TABLES]]
    assert find_actions(shipment_of(fits)).of(ActionRow.TABLE).tolist() == [*range(MAX_TABLES)] * 2
    with pytest.raises(ShipmentUnfit, match="it has entries of more than 1000 tables"):
        find_actions(shipment_of(edits))


def test_a_table_that_the_peer_cluster_cannot_be_asked_for_is_named():
    with pytest.raises(ShipmentUnfit, match=r"the name of its table b'\\xff\\xfet' is not UTF-8"):
        find_actions(shipment_of([entry(put(), table=b"\xff\xfet")]))


@pytest.mark.parametrize(
    "field",
    [b"\x45\x08\x00\x10\x00", b"\x41\x08\x00\x10\x00\x08\x00\x08\x00", b"\x40\x00"],
    ids=["32 bits", "64 bits", "a number"],
)
def test_a_field_of_another_wire_type_is_not_a_cluster_id(field):
    shipment = shipment_of([entry(put())])
    key = entry(put()).key.SerializePartialToString() + field
    body = b"\x0a" + encode_varint(len(key)) + key + b"\x18\x01"
    data = np.frombuffer(b"\x0a" + encode_varint(len(body)) + body, np.uint8)
    with pytest.raises(AssertionError, match="entry 0 of a shipment's part 0"):
        find_actions(type(shipment)(**{**vars(shipment), "entries": (data,)}))


KEYS = st.binary(max_size=12).map(lambda end: b"the same beginning" + end) | st.binary(min_size=1, max_size=12)


@given(st.lists(st.lists(KEYS, min_size=1, max_size=5), min_size=1, max_size=8), st.integers(1, 3))
def test_actions_come_in_the_order_of_their_rows_and_those_of_a_row_in_theirs(keys: list[list[bytes]], parts: int) -> None:
    """As far as eight bytes tell, behind what all rows begin with."""
    entries = [entry(*(put(row=key) for key in some)) for some in keys]
    actions = find_actions(join([shipment_of(entries[i::parts]) for i in range(parts) if entries[i::parts]]))
    order = in_row_order(actions, np.arange(len(actions))).tolist()
    assert sorted(order) == list(range(len(actions)))
    rows = [actions.key(action) for action in order]
    skipped = next(
        count for count in range(30, -1, -1) if len({row[:count] for row in rows}) == 1 and count <= min(map(len, rows))
    )
    words = [row[skipped : skipped + 8].ljust(8, b"\0") for row in rows]
    assert words == sorted(words)
    of_row: dict[bytes, list[int]] = {}
    for action, row in zip(order, rows, strict=True):
        of_row.setdefault(row, []).append(action)
    assert all(some == sorted(some) for some in of_row.values())
