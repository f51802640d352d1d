"""HBase's sink applies the mutations of a request in heaps, in any order: of no row may two heaps of a request have mutations."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given

from tests.unit.hbase.wal.encoder import PUT as PUT_CELL
from tests.unit.hbase.wal.encoder import Cell, Entry
from tests.unit.replication.filters.test_entry_filter import entry
from tests.unit.replication.sinks.hbase.edits import OTHERS, mutations_of, parts, shipment_of
from walferry.replication.sinks.hbase import requests
from walferry.replication.sinks.hbase.requests import MAX_MUTATIONS, in_order


def put(row: bytes, value: bytes = b"v") -> Cell:
    return Cell(row, b"f", b"q", 5, PUT_CELL, value)


def cut(*entries: Sequence[Entry]) -> list[list[Entry]]:
    """The entries of each request that carries a shipment of these parts."""
    shipment = shipment_of(*entries)
    made = list(in_order(shipment))
    for what in ("entries", "cells"):
        whole = b"".join(piece.tobytes() for piece in getattr(shipment, what))
        assert b"".join(piece.tobytes() for request in made for piece in getattr(request, what)) == whole
    ends = np.cumsum([sum(piece.size for piece in request.cells) for request in made]).tolist()
    left, found, at = [each for part in entries for each in part], list[list[Entry]](), 0
    for end in ends:
        found.append([])
        while at < end:
            at += sum(len(cell.encode()) for cell in left[0].cells)
            found[-1].append(left.pop(0))
        assert at == end, "a request ends within an entry"
    return found


def is_ordered(entries: Sequence[Entry], most: int) -> bool:
    """Return whether the sink, which applies the heaps of a request in any order, keeps the order of each row's entries."""
    heaps: Counter[tuple[bytes, tuple[uuid.UUID, ...]]] = Counter()
    before: dict[tuple[bytes, bytes], set[object]] = {}
    for each in entries:
        now: dict[tuple[bytes, bytes], set[object]] = {}
        for mutation in mutations_of([each]):
            heap = mutation.table, mutation.ids
            now.setdefault((mutation.table, mutation.row), set()).add((heap, heaps[heap] // most))
            heaps[heap] += 1
        for row, its_heaps in now.items():
            if len(before.setdefault(row, its_heaps) | its_heaps) > 1 and before[row] is not its_heaps:
                return False
    return True


@given(parts)
def test_each_request_keeps_the_order_of_each_row(entries):
    for request in cut(*entries):
        assert is_ordered(request, MAX_MUTATIONS)


@given(parts)
def test_so_it_does_if_the_sink_cuts_heaps_that_are_not_small(entries):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(requests, "MAX_MUTATIONS", 3)
        for request in cut(*entries):
            assert is_ordered(request, 3)


def test_a_request_ends_only_where_a_row_comes_again_with_another_list_of_cluster_ids():
    a, b = [(each,) for each in OTHERS[:2]]
    edits = [entry(put(b"r1"), ids=a), entry(put(b"r2"), ids=b), entry(put(b"r2"), ids=b), entry(put(b"r1"), ids=a)]
    assert cut(edits) == [edits]
    edits.append(entry(put(b"r2"), ids=a))
    assert cut(edits[:2], edits[2:]) == [edits[:4], edits[4:]]


def test_rows_of_different_tables_are_different():
    edits = [entry(put(b"r"), ids=(OTHERS[0],)), entry(put(b"r"), table=b"u")]
    assert cut(edits) == [edits]


def test_an_ordinary_shipment_is_its_own_request_however_large():
    shipment = shipment_of([entry(put(b"%d" % i)) for i in range(3 * MAX_MUTATIONS)])
    (request,) = in_order(shipment)
    assert request is shipment


def test_a_row_that_comes_again_after_as_many_mutations_as_the_sink_sends_at_once_begins_a_request():
    others = [entry(put(b"%d" % i)) for i in range(MAX_MUTATIONS - 2)]
    first, again = entry(put(b"r", b"1")), entry(put(b"r", b"2"))
    near = [first, *others, again]
    assert cut(near) == [near]
    far = [first, entry(put(b"s")), *others, again]
    assert cut(far) == [far[:-1], [again]]
