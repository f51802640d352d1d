"""Shipments of arbitrary edits, and what a peer cluster's sink would make of them: a plain model of
ReplicationSink.replicateEntries."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from tests.unit.hbase.wal.encoder import Cell, Entry
from tests.unit.replication.filters.test_entry_filter import MARK, RULES, SOURCE, batch_of, entry
from walferry.replication.filters.entry_filter import filter_batch
from walferry.replication.sinks.hbase.shipment import Shipment, assemble, join

PUT, DELETE = 2, 3
DELETES = (8, 10, 12, 14)
TYPES = (0, 4, *DELETES, 255)
OTHERS = [uuid.UUID(int=n) for n in (0, 7, 1 << 127, (1 << 128) - 3)]


@dataclass(frozen=True)
class Mutation:
    """What goes into one MutationProto."""

    table: bytes
    ids: tuple[uuid.UUID, ...]
    kind: int
    row: bytes
    cells: tuple[Cell, ...]


def mutations_of(entries: Sequence[Entry]) -> Iterator[Mutation]:
    """The mutations that a sink makes of entries of family f, whose keys the source has marked."""
    for each in entries:
        ids = [uuid.UUID(int=i.most_sig_bits << 64 | i.least_sig_bits) for i in each.key.cluster_ids]
        run: list[Cell] = []
        for cell in each.cells:
            if run and (run[-1].row, run[-1].type) != (cell.row, cell.type):
                yield _mutation(each, ids, run)
                run = []
            run.append(cell)
        if run:
            yield _mutation(each, ids, run)


def _mutation(each: Entry, ids: list[uuid.UUID], run: list[Cell]) -> Mutation:
    marked = ids if SOURCE in ids else [*ids, SOURCE]
    kind = DELETE if run[0].type in DELETES else PUT
    return Mutation(each.key.table_name, tuple(marked), kind, run[0].row, tuple(run))


def ids_attribute(ids: Sequence[uuid.UUID]) -> bytes:
    """The value of _cs.id, as Mutation.setClusterIds writes it."""
    return struct.pack(">i", len(ids)) + b"".join(i.bytes for i in ids)


def shipment_of(*parts: Sequence[Entry]) -> Shipment:
    """A shipment that consists of parts, as the senders join them."""
    made = []
    for entries in parts:
        batch = batch_of(*entries)
        made.append(assemble(batch, filter_batch(batch, RULES, "wal"), np.arange(len(entries)), MARK))
    return join(made)


rows = st.binary(min_size=1, max_size=3)
cells = st.builds(
    Cell,
    row=st.sampled_from([b"a", b"b", b"ab"]) | rows,
    family=st.just(b"f"),
    qualifier=st.binary(max_size=3),
    timestamp=st.integers(0, 5),
    type=st.sampled_from(TYPES),
    value=st.binary(max_size=5),
    tags=st.sampled_from([b"", b"\x00\x02\x64x"]),
)


@st.composite
def entries(draw: st.DrawFn, cell: st.SearchStrategy[Cell] = cells) -> Entry:
    """An entry of one of some tables, which may have been at other clusters before."""
    ids = tuple(draw(st.lists(st.sampled_from(OTHERS), unique=True, max_size=2)))
    table = draw(st.sampled_from([b"t", b"ns:t", b"u"]))
    return entry(*draw(st.lists(cell, min_size=1, max_size=8)), table=table, ids=ids)


parts = st.lists(st.lists(entries(), min_size=1, max_size=5), min_size=1, max_size=3)
