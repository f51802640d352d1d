"""Blocks of SNAPPY and LZ4 are decompressed by kernels."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.hbase.wal.compressing import LZ4, NONE, SNAPPY
from tests.unit.hbase.wal.stored_values import decompress, hadoop_blocks, values


@given(values, st.sampled_from([NONE, SNAPPY, LZ4]), st.sampled_from([50, 1 << 18]))
def test_the_kernels_decompress_values(some: list[bytes], codec: int, chunk: int) -> None:
    stored = [value if codec == NONE else hadoop_blocks(value, codec, chunk) for value in some]
    assert decompress(codec, stored, list(map(len, some))) == some
