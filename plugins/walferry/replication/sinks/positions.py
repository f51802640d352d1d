"""Positions that a target keeps with the edits: up to where it has all edits of a WAL group."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from walferry.hbase.names import WalName, parse_wal_name

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Position = tuple[str, int]
"""A WAL, by its name, and an offset in it before which the target has all edits of the WAL's group."""

_LAST_OFFSET = (1 << 63) - 1


def order_of(position: Position) -> tuple[int, int]:
    """Return a value by which a group's positions are ordered. Raises ValueError if the name is no WAL's."""
    return parse_wal_name(position[0]).timestamp, position[1]


def is_ahead(position: Position, queued: Collection[WalName]) -> bool:
    """Return whether a position cannot be right, though edits would be left out by it: its WAL is not queued, and older ones are.

    A queue's WALs leave it in their order. So the position was made by others, or the server's clock was set back: HBase 1 names
    WALs by it.
    """
    last = parse_wal_name(position[0])
    return any(wal.timestamp < last.timestamp for wal in queued) and last.text not in {wal.text for wal in queued}


def is_behind(position: Position, wal: WalName, offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Return for each entry of a WAL of the group, by its offset, whether the target does not have it yet."""
    last = parse_wal_name(position[0])
    if wal.timestamp > last.timestamp:
        return offsets >= 0
    return offsets >= (position[1] if wal.text == last.text else _LAST_OFFSET)
