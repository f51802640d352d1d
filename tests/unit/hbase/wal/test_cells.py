"""Cells are taken apart and changed as the writer of HBase's cells would write them."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.hbase.wal import encoder
from tests.unit.hbase.wal.encoder import encode_tags
from walferry.hbase.wal.cells import CellType, TagType, encode_tag, split_cells, split_tags

tags = st.lists(st.tuples(st.integers(0, 127), st.binary(max_size=9)), max_size=3)
cells = st.builds(
    encoder.Cell,
    row=st.binary(max_size=9),
    family=st.binary(max_size=9),
    qualifier=st.binary(max_size=9),
    timestamp=st.integers(0, 2**63 - 1),
    type=st.sampled_from(list(CellType)),
    value=st.binary(max_size=9),
    tags=tags.map(encode_tags),
)


@given(st.lists(cells, max_size=4))
def test_the_parts_of_cells_are_those_that_were_written(written: list[encoder.Cell]) -> None:
    found = list(split_cells(b"".join(cell.encode() for cell in written)))
    parts = [(cell.row, *cell.column, cell.timestamp, cell.type, cell.value, cell.tags) for cell in found]
    assert parts == [(c.row, c.family, c.qualifier, c.timestamp, c.type, c.value, c.tags) for c in written]


@given(cells, st.binary(max_size=20), tags.map(encode_tags))
def test_a_changed_cell_is_the_one_that_would_have_been_written(written: encoder.Cell, value: bytes, other: bytes) -> None:
    (cell,) = split_cells(written.encode())
    assert cell.with_value(value).data == replace(written, value=value).encode()
    assert cell.with_tags(other).data == replace(written, tags=other).encode()


@given(tags)
def test_tags_are_split_as_they_were_written(written: list[tuple[int, bytes]]) -> None:
    assert [(kind, data) for kind, data, _ in split_tags(encode_tags(written))] == written
    assert b"".join(whole for _, _, whole in split_tags(encode_tags(written))) == encode_tags(written)


def test_a_tag_is_encoded_as_hbase_does() -> None:
    assert encode_tag(TagType.VISIBILITY_EXPRESSION, b"a&b") == encode_tags([(7, b"a&b")])


def test_the_types_have_hbase_s_names() -> None:
    names = ["Minimum", "Put", "Delete", "DeleteFamilyVersion", "DeleteColumn", "DeleteFamily", "Maximum"]
    assert [kind.hbase_name for kind in CellType] == names
