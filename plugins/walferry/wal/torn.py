"""Whether the last entry of a file was cut off, or only seems to be because its lengths are damaged.

A file that was not closed is what its writer had written at some moment, up to some byte: at most one entry of it is unfinished,
the last. So where an entry claims more than there is of the file, and another entry begins within, the claim is wrong. The other
one is known by its WALKey, which is not compressed or encrypted as a whole:

    varint keyLen, keyLen bytes of fields, the first of them 1 (0x0a): all well-formed, those that are required among them
"""

from __future__ import annotations

from typing import Final

import numpy as np

from walferry.wal._compiled import unmanaged
from walferry.wal.scan import FIELDS, Bytes, Ints, parse_key, read_uint8, read_varint

MAX_PLAUSIBLE_KEY: Final = 1024  # bytes; a key has some hundred. Bounds the time that a search takes
OVERLAP: Final = MAX_PLAUSIBLE_KEY + 2  # bytes by which two ranges of a file must overlap so that every key lies in one
NONE: Final = -1
_REGION_FIELD: Final = 0x0A


def find_entry(buf: Bytes, start: int) -> int:
    """Offset in `buf`, `start` or behind it, at which an entry with its whole WALKey begins; NONE if there is none."""
    view = buf.view()
    view.flags.writeable = False  # as scan_entries does
    return int(_find_entry(view, start, np.empty((FIELDS, 1), np.int64)))


@unmanaged
def _find_entry(buf: Bytes, start: int, scratch: Ints) -> int:
    end = len(buf)
    for key in range(start + 1, end):
        if read_uint8(buf, key) != _REGION_FIELD:
            continue
        for pos in range(max(start, key - 2), key):
            key_len, after = read_varint(buf, pos, key)
            plausible = after == key and 0 < key_len <= min(MAX_PLAUSIBLE_KEY, end - key)
            if plausible and parse_key(buf, key, key + key_len, scratch, 0) == 0:
                return pos
    return NONE
