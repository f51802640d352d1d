"""The peer cluster's regions and families are stores only if they can be."""

from __future__ import annotations

import pytest

from walferry.hbase.hfiles.errors import BadBorders
from walferry.hbase.hfiles.stores import Stores, TargetTable


@pytest.mark.parametrize(
    ("families", "starts", "problem"),
    [
        ((b"f",), (), "first region"),
        ((b"f",), (b"a",), "first region"),
        ((b"f",), (b"", b"b", b"b"), "stands before"),
        ((b"f",), (b"", b"c", b"b"), "row b'c' stands before the one that begins with b'b'"),
        ((b"f",), (b"", b"a" * 40_000), "too long"),
        ((), (b"",), "families"),
        ((b"f", b"f"), (b"",), "families"),
        ((b"",), (b"",), "families"),
    ],
)
def test_borders_that_contradict_themselves_are_an_error(families, starts, problem: str) -> None:
    with pytest.raises(BadBorders, match=f"table t of the peer cluster: .*{problem}"):
        Stores({b"t": TargetTable(families, starts)})
