"""The problems that kernels find in the bytes of an entry."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

MAX_ENTRY_BYTES: Final = 256 << 20  # hbase.ipc.max.request.size: the most that a client can send at once
MAX_KEY_BYTES: Final = 16 << 20


class Problem(enum.IntEnum):
    """Kernels return NONE (0), or a positive number for a problem. A negative number says what they need to go on."""

    NONE = 0
    BAD_KEY_LENGTH = 1
    BAD_KEY_FIELD = 2
    MISSING_KEY_FIELD = 3
    BAD_CELL_COUNT = 4
    BAD_CELL_LENGTHS = 5
    BAD_CELL_KEY = 6
    BAD_CELL_TYPE = 7
    BAD_TAGS = 8
    ENTRY_TOO_LONG = 9
    BAD_TIMESTAMP = 10
    # Compressed entries
    BAD_INDEX = 32
    BAD_VALUE_LENGTH = 33
    BAD_MARKER = 34
    # Encrypted entries
    BAD_IV_LENGTH = 64
    BAD_SEALED_LENGTH = 65
    BAD_PLAINTEXT = 66
    # Entries with Phoenix's indexes
    BAD_PHOENIX_INDEX = 96

    @property
    def reason(self) -> str:
        """The problem in words, for an error."""
        return _REASONS[self]


_REASONS = {
    Problem.BAD_KEY_LENGTH: f"the length of a WALKey is not between 1 and {MAX_KEY_BYTES}",
    Problem.BAD_KEY_FIELD: "a field of the WALKey is malformed or leaves the WALKey",
    Problem.MISSING_KEY_FIELD: "the WALKey does not begin with its region, table, sequence number and write time",
    Problem.BAD_CELL_COUNT: f"the number of cells that the WALKey announces does not fit into {MAX_ENTRY_BYTES} bytes",
    Problem.BAD_CELL_LENGTHS: "the lengths of a cell, its key and its value contradict each other",
    Problem.BAD_CELL_KEY: "row and family are longer than the cell's key",
    Problem.BAD_CELL_TYPE: "the cell's type is none of HBase's",
    Problem.BAD_TAGS: "the lengths of the cell's tags contradict each other or the cell's length",
    Problem.ENTRY_TOO_LONG: f"the entry has more than {MAX_ENTRY_BYTES} bytes",
    Problem.BAD_TIMESTAMP: "the cell's timestamp is negative",
    Problem.BAD_INDEX: "an index names an entry that its dictionary does not have",
    Problem.BAD_VALUE_LENGTH: "a value cannot be decompressed to the length that its cell says: too little is stored of it",
    Problem.BAD_MARKER: "the byte before a cell of Phoenix's codec is neither 0x00 nor 0xff",
    Problem.BAD_IV_LENGTH: "the length of an encrypted cell's IV is not 16",
    Problem.BAD_SEALED_LENGTH: f"the length of an encrypted cell is not between 15 and {MAX_ENTRY_BYTES}",
    Problem.BAD_PLAINTEXT: "the decrypted bytes are not a cell, because their lengths contradict each other: "
    "the cell is damaged, or the key is not this file's, or the cluster uses another mode than AES/CTR/NoPadding",
    Problem.BAD_PHOENIX_INDEX: "the lengths of one of Phoenix's index entries contradict each other or are too small",
}


@dataclass(frozen=True)
class Fault:
    """A problem and its offset. The context says whether that is an offset in the buffer or in the file."""

    offset: int
    problem: Problem

    @property
    def reason(self) -> str:
        """The problem in words."""
        return self.problem.reason
