"""What a target has is left out, and a position that cannot be right is not believed."""

from __future__ import annotations

import numpy as np
import pytest

from walferry.hbase.names import parse_wal_name
from walferry.replication.sinks.positions import is_ahead, is_behind, order_of

GROUP = "rs1%2C16020%2C1"
OFFSETS = np.array([100, 200, 300])


def wal(timestamp: int) -> str:
    return f"{GROUP}.{timestamp}"


@pytest.mark.parametrize(
    ("timestamp", "left"), [(4, [False] * 3), (5, [False, True, True]), (6, [True] * 3)]
)  # fmt: skip
def test_entries_before_a_position_are_there(timestamp: int, left: list[bool]) -> None:
    assert list(is_behind((wal(5), 200), parse_wal_name(wal(timestamp)), OFFSETS)) == left


@pytest.mark.parametrize(
    ("queued", "ahead"), [([], False), ([4], True), ([4, 6], True), ([4, 5], False), ([5], False), ([6], False)]
)  # fmt: skip
def test_a_position_in_a_wal_that_has_left_the_queue_before_older_ones_is_not_right(queued: list[int], ahead: bool) -> None:
    assert is_ahead((wal(5), 200), [parse_wal_name(wal(timestamp)) for timestamp in queued]) is ahead


def test_positions_are_ordered_by_wal_and_offset() -> None:
    first, second, third = (wal(5), 300), (wal(10), 0), (wal(10), 7)
    assert sorted([third, second, first], key=order_of) == [first, second, third]
