"""Decides whether the order of cells with one key is known: their sequence ids and write times must agree on it.

The sequence ids of a source's region start again when its table is dropped and created again, truncated, or restored from a
snapshot. Then the cell with the larger sequence id may belong to the table's earlier life, and be the earlier edit. Write times
go on growing. So the order of two edits is known if the edit with the larger sequence id was not written earlier. It is also
known if both numbers are equal: then it is one edit. Otherwise either the sequence ids or the clocks are wrong. Cells with the
same value and tags may have any order.

Cells with one key come by falling sequence ids. Each is compared with all cells of its key that have been **written**:

- Without a TTL, this is one cell, which hides all others. The order among the others makes no difference. A comparison of
  neighbours alone would not do: if the second cell has the first cell's content and was written later than both others, it would
  hide the contradiction between the first and the third.
- A cell with a TTL has others behind it. For the same reason, a comparison with the last of them alone would not do. It is enough
  to know two times: the lowest write time of all, and the lowest of the cells whose content differs from the last cell's. When a
  cell of other content is written behind them, the first time becomes the second: a cell among them with the new cell's content
  stands before a cell of other content, and so was not written earlier than that cell.
"""

from __future__ import annotations

import enum
from typing import Final

import numpy as np

from walferry.base.kernels.compiled import inlined
from walferry.base.kernels.read import Bytes, Ints
from walferry.hbase.hfiles.cells import has_same_content

KNOWN: Final = -1
NUMBER: Final = 0
TIME: Final = 1
_NEVER: Final = (1 << 63) - 1


class Written(enum.IntEnum):
    """The rows of the table of cells that have been written with one key. Each row has a NUMBER, and a write TIME."""

    LAST = 0  # the last cell
    EARLIEST = 1  # the cell with the lowest write time
    OTHERS = 2  # the one with the lowest among cells whose content differs from the last cell's; _NEVER without such a cell


def new_table() -> Ints:
    """Return the table `written` before any cell is written."""
    return np.zeros((len(Written), 2), np.int64)


@inlined
def rival_of(written: Ints, number: int, time: int, holder: Bytes, at: int, buf: Bytes, pos: int) -> int:
    """Return a row of `written` whose order with the cell at `pos` is unknown, or KNOWN if there is no such row.

    The cell's edit has the sequence id `number` and write time `time`. `holder[at:]` is the last cell written with its key.
    """
    is_other_edit = number == written[Written.LAST, NUMBER] and time != written[Written.LAST, TIME]
    if time <= written[Written.EARLIEST, TIME] and not is_other_edit:
        return KNOWN
    if has_same_content(holder, at, buf, pos):
        return int(Written.OTHERS.value) if time > written[Written.OTHERS, TIME] else KNOWN
    return int(Written.LAST.value) if is_other_edit else int(Written.EARLIEST.value)


@inlined
def _put(written: Ints, row: int, number: int, time: int) -> None:
    written[row, NUMBER], written[row, TIME] = number, time


@inlined
def note_first(written: Ints, number: int, time: int) -> None:
    """Note that a cell is written with a new key."""
    _put(written, Written.LAST, number, time)
    _put(written, Written.EARLIEST, number, time)
    written[Written.OTHERS, TIME] = _NEVER


@inlined
def note_next(written: Ints, number: int, time: int, is_same: bool) -> None:
    """Note that a cell with the last cell's key is written. `is_same`: it also has the last cell's content."""
    if not is_same:
        _put(written, Written.OTHERS, written[Written.EARLIEST, NUMBER], written[Written.EARLIEST, TIME])
    if time < written[Written.EARLIEST, TIME]:
        _put(written, Written.EARLIEST, number, time)
    _put(written, Written.LAST, number, time)
