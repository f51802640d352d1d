"""Tells whether it is known which of the cells with one key came later: sequence ids and write times must agree about that.

Sequence ids of a source's region begin anew when its table is dropped and created again, truncated, or restored from a snapshot.
Then the cell with the larger one can be of the table's earlier life, and the earlier edit. The write time of an edit goes on
growing. So the order of two edits is known if the one with the larger sequence id was not written earlier, or if both numbers are
equal: then it is one edit. Otherwise either the sequence ids or the clocks are wrong. Cells with the same value and tags may have
any order.

Cells with one key come by falling sequence ids, and each is compared with all of them that have been **written**:

- Without a TTL, that is one cell, which hides all others. What order these have among themselves makes no difference. To compare
  neighbours only would not do: if the second cell has the content of the first, and was written later than both others, the
  contradiction between the first and the third would not be seen.
- A cell with a TTL has others behind it, and to compare with the last of them would not do, for the same reason. It is enough to
  know the lowest write time of all, and the lowest of those with another content than the last one. When a cell of other content
  is written behind them, the first becomes the second: if one of them has the new cell's content, it stands before a cell of
  other content, and so was not written earlier than that.
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
    """What is known of the cells that have been written with one key. Rows of a table: each has a NUMBER, and a write TIME."""

    LAST = 0  # the last of them
    EARLIEST = 1  # that with the lowest write time
    OTHERS = 2  # that with the lowest of those with another content than the last one; _NEVER if there are none


def new_table() -> Ints:
    """The table `written`, before any cell has been."""
    return np.zeros((len(Written), 2), np.int64)


@inlined
def rival_of(written: Ints, number: int, time: int, holder: Bytes, at: int, buf: Bytes, pos: int) -> int:
    """Return a row of `written` that may be later than the cell at `pos` or earlier; KNOWN if there is none.

    The cell is of an edit with this sequence id and write time. `holder[at:]` is the last cell written, with the same key.
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
    """Note that a cell is written with the last one's key. `is_same`: with its content too."""
    if not is_same:
        _put(written, Written.OTHERS, written[Written.EARLIEST, NUMBER], written[Written.EARLIEST, TIME])
    if time < written[Written.EARLIEST, TIME]:
        _put(written, Written.EARLIEST, number, time)
    _put(written, Written.LAST, number, time)
