"""Defines the state in which a pass over a compressed WAL stops and goes on, its tables, and its reasons to stop."""

from __future__ import annotations

import enum
from typing import Final

# A pass returns these if it needs something to go on. Positive numbers are Problems; a numba kernel cannot return two enums.
NEED_INPUT: Final = -1  # input up to State.NEED
NEED_OUT: Final = -2  # State.NEED bytes of it
NEED_ARENA: Final = -3  # State.NEED bytes of it
NEED_TABLES: Final = -4  # a wider table for entries or values


class PassState(enum.IntEnum):
    """The elements of a pass's state. Positions count from the buffer's start, but ENTRY_START is an offset in the file."""

    POS = 0
    OUT = 1
    CELLS_LEFT = 2
    ENTRY_START = 3
    ENTRY_OUT = 4
    ENTRIES = 5
    VALUES = 6
    AT = 7
    NEED = 8


AT_ENTRY: Final = -1  # State.CELLS_LEFT before a key


class EntryRow(enum.IntEnum):
    """The rows of the table of whole entries."""

    FILE_START = 0
    FILE_END = 1
    OUT_START = 2


class ValueRow(enum.IntEnum):
    """The rows of the table of compressed values: where each lies in the buffer, and where it belongs in the output."""

    SOURCE = 0
    SOURCE_LEN = 1
    TARGET = 2
    TARGET_LEN = 3
