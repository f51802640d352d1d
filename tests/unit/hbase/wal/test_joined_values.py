"""Many values of GZ and ZSTD are decompressed at once, in all their framings."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.hbase.wal.compressing import GZ, ZSTD
from tests.unit.hbase.wal.stored_values import compressed, decompress, values
from walferry.hbase.wal.codecs.values import BadValue


@given(values)
def test_gzip_members_give_the_values(some: list[bytes]) -> None:
    assert decompress(GZ, [compressed(value, "gzip") for value in some], list(map(len, some))) == some


@given(values, st.data())
def test_zstd_frames_and_blocks_of_any_kind_give_the_values(some: list[bytes], data: st.DataObject) -> None:
    kinds = st.sampled_from(["frame", "frame without its size", "blocks", "many blocks"])
    stored = [compressed(value, data.draw(kinds)) for value in some]
    assert decompress(ZSTD, stored, list(map(len, some))) == some


@pytest.mark.parametrize(("codec", "how"), [(GZ, "gzip"), (ZSTD, "frame without its size"), (ZSTD, "blocks")])
def test_two_wrong_lengths_do_not_cancel_each_other(codec: int, how: str) -> None:
    some = [b"one longer", b"short", b"and so on"]
    lengths = [len(some[0]) - 1, len(some[1]) + 1, len(some[2])]
    with pytest.raises(BadValue) as error:
        decompress(codec, [compressed(value, how) for value in some], lengths)
    assert error.value.value == 0
