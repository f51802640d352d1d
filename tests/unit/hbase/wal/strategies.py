"""Hypothesis strategies for WALs, and what decoding them must give."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from hypothesis import strategies as st

from tests.unit.hbase.wal.encoder import (
    DELETE,
    DELETE_COLUMN,
    DELETE_FAMILY,
    DELETE_FAMILY_VERSION,
    MAXIMUM,
    MINIMUM,
    PUT,
    Cell,
    Entry,
    encode_entry,
    encode_header,
    encode_tags,
)
from walferry.base.protos.hbase_pb2 import FamilyScope, ScopeType, WALKey

UINT64 = st.integers(0, (1 << 64) - 1)
TYPE_NAMES = {
    MINIMUM: "Minimum",
    PUT: "Put",
    DELETE: "Delete",
    DELETE_FAMILY_VERSION: "DeleteFamilyVersion",
    DELETE_COLUMN: "DeleteColumn",
    DELETE_FAMILY: "DeleteFamily",
    MAXIMUM: "Maximum",
}

tags = st.lists(st.tuples(st.integers(-128, 127), st.binary(max_size=20)), max_size=3).map(encode_tags)
cells = st.builds(
    Cell,
    row=st.binary(min_size=1, max_size=40),
    family=st.binary(max_size=127),
    qualifier=st.binary(max_size=40),
    timestamp=st.integers(0, (1 << 63) - 1),
    type=st.sampled_from(list(TYPE_NAMES)),
    value=st.binary(max_size=300),
    tags=tags,
)
table_names = st.sampled_from(["t", "ns:table", "hbase:meta", "表", "ns:tablé"])


@st.composite
def entries(draw: st.DrawFn) -> Entry:
    """An entry with any of the fields that HBase writes."""
    key = WALKey(
        encoded_region_name=draw(st.binary(max_size=16)).hex().encode(),
        table_name=draw(table_names).encode(),
        log_sequence_number=draw(UINT64),
        write_time=draw(UINT64),
    )
    body = tuple(draw(st.lists(cells, max_size=5)))
    if body or draw(st.booleans()):
        key.following_kv_count = len(body)
    for family in draw(st.sets(st.binary(max_size=8), max_size=3)):
        key.scopes.append(FamilyScope(family=family, scope_type=draw(st.sampled_from(ScopeType.values()))))
    for uuid in draw(st.lists(st.uuids(), max_size=3)):
        key.cluster_ids.add(least_sig_bits=uuid.int & (1 << 64) - 1, most_sig_bits=uuid.int >> 64)
    if draw(st.booleans()):
        key.nonceGroup, key.nonce, key.orig_sequence_number = draw(UINT64), draw(UINT64), draw(UINT64)
    for name in draw(st.sets(st.text(max_size=5), max_size=2)):
        key.extended_attributes.add(key=name, value=draw(st.binary(max_size=10)))
    return Entry(key, body)


def positions(written: Iterable[Entry]) -> list[int]:
    """The file offsets of each entry and of the last one's end."""
    offsets = [len(encode_header())]
    for entry in written:
        offsets.append(offsets[-1] + len(encode_entry(entry)))
    return offsets


def rows(written: Iterable[Entry]) -> list[dict[str, Any]]:
    """The rows to which a file with these entries is decoded."""
    written = list(written)
    offsets = positions(written)
    return [
        _row(entry.key, cell, offsets[i], offsets[i + 1], number)
        for i, entry in enumerate(written)
        for number, cell in enumerate(entry.cells)
    ]


def _row(key: WALKey, cell: Cell, key_offset: int, next_offset: int, number: int) -> dict[str, Any]:
    return {
        "region": key.encoded_region_name.decode(),
        "table": key.table_name.decode(),
        "sequence_id": _signed(key.log_sequence_number),
        "write_time": _signed(key.write_time),
        "cluster_ids": [str(UUID(int=u.most_sig_bits << 64 | u.least_sig_bits)) for u in key.cluster_ids],
        "row": cell.row,
        "family": cell.family,
        "qualifier": cell.qualifier,
        "timestamp": cell.timestamp,
        "type": TYPE_NAMES[cell.type],
        "value": cell.value,
        "tags": cell.tags,
        "key_offset": key_offset,
        "next_offset": next_offset,
        "cell": number,
    }


def _signed(value: int) -> int:
    """The value of the same 64 bits as Java's long."""
    return value - (1 << 64) if value >> 63 else value
