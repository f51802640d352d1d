"""Finds out why an entry seems to end beyond its file's entries: it was cut off, or its lengths are damaged.

A file that was not closed contains everything that its writer had written up to some byte, so only its last entry can be
unfinished. If an entry claims more bytes than the file has, and another entry begins within it, the claim is wrong. The search
knows the other entry by its WALKey, which is never compressed or encrypted as a whole:

    varint keyLen, keyLen bytes of fields, the required ones (1 to 4) first, all well-formed
    region = 32 hexadecimal digits | decimal digits            table = letters, digits, "_", "-", ".", ":"
             or, compressed, 0xff, varint length, these | uint16 index that the dictionary has

The values in an entry that was cut off may contain clients' messages that look like keys. The search therefore checks the names
too, and requires a number of cells. In a file with plain cells, it also requires that a cell follows the key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from walferry.base.kernels.compiled import inlined, unmanaged
from walferry.base.kernels.read import INCOMPLETE, read_uint8, read_uint16, read_varint
from walferry.base.kernels.types import Bytes, OutIntTable
from walferry.hbase.wal.bounds import Bounds, WalBytes
from walferry.hbase.wal.check import check_cell
from walferry.hbase.wal.codecs.dictionaries import LITERAL, Dictionaries, Dictionary, ListRow, field_end
from walferry.hbase.wal.errors import WalCorruptError, WalError, WalOverrunError, WalTornError, WalTruncatedError
from walferry.hbase.wal.keys import KEY_ROWS, KeyField, KeyRow, parse_key
from walferry.hbase.wal.problems import Problem
from walferry.hbase.wal.scan import read_only
from walferry.hbase.wal.wal_batches import WAL_BATCH_BYTES, WalBatch

MAX_PLAUSIBLE_KEY: Final = 64 << 10  # bytes; a key has a few hundred, or thousands if a table has very many families
MAX_KEY_VARINT: Final = 3
OVERLAP: Final = MAX_PLAUSIBLE_KEY + MAX_KEY_VARINT  # two ranges of a file overlap, so that every key lies within one
MIN_ENTRY_BYTES: Final = 16  # fewer bytes cannot hold a WALKey, so the next entry cannot begin before
NONE: Final = -1
_REGION_TAG: Final[int] = KeyField.REGION << 3 | 2
_REGION_CHARS: Final = 32
_DECIMAL_CHARS: Final = 10  # the most digits of a region name before names became hashes; hbase:meta still has such a name


@dataclass(frozen=True)
class KeyHints:
    """The known facts about a file's WALKeys: whether they are compressed, and the number of names in their dictionaries."""

    compressed: bool = False
    regions: int = 0
    tables: int = 0
    plain_cells: bool = False  # neither compressed nor encrypted

    @classmethod
    def of(cls, dictionaries: Dictionaries) -> KeyHints:
        """Return the hints for a compressed file."""
        sizes = dictionaries.lists[ListRow.SIZE]
        return cls(compressed=True, regions=int(sizes[Dictionary.REGION]), tables=int(sizes[Dictionary.TABLE]))


def unfinished(wal: WalBytes, entry: int, need: int, bounds: Bounds, hints: KeyHints) -> WalError:
    """Return the error for an entry at `entry` that goes on, at least to `need`, beyond the end of the entries."""
    end = bounds.end
    if end < wal.size:
        return overrun(wal, entry, end)
    for offset in range(entry, end, WAL_BATCH_BYTES):
        buf = wal.read(offset, min(WAL_BATCH_BYTES + OVERLAP, end - offset))
        other = find_entry(buf, MIN_ENTRY_BYTES if offset == entry else 0, hints)
        if other != NONE:
            reason = f"the entry goes on beyond the end of the file, but another one begins at byte {offset + other}"
            return WalCorruptError(wal.path, entry, f"{reason}: the file was not cut off here, this entry is damaged")
    if bounds.trailer is not None:
        return WalTornError(wal.path, entry, _beyond(bounds.trailer), end - entry)
    return WalTruncatedError(wal.path, entry, need - entry, end - entry)


def overrun(wal: WalBytes, entry: int, trailer: int) -> WalOverrunError:
    """Return the error for an entry at `entry` that goes on beyond the trailer's start."""
    return WalOverrunError(wal.path, entry, _beyond(trailer))


def without_overrun(batches: Iterable[WalBatch], wal: WalBytes, bounds: Bounds) -> Iterator[WalBatch]:
    """Yield the batches. Raises WalOverrunError at an entry that ends within the trailer, because its length must be damaged.

    An entry may seem to end just before the trailer's last byte, a P: that byte can begin a next entry with a key of 80 bytes.
    """
    for batch in batches:
        trailer = bounds.trailer
        if trailer is None or not trailer < int(batch.next_positions[-1]) < bounds.end - 1:
            yield batch
            continue
        sound = batch.until(trailer)
        if len(sound.index):
            yield sound
        raise overrun(wal, batch.entry_offset(-1), trailer)


def _beyond(trailer: int) -> str:
    return f"the entry goes on beyond byte {trailer}, where the file's trailer begins"


def find_entry(buf: Bytes, start: int, hints: KeyHints) -> int:
    """Return the offset in `buf`, from `start` on, at which an entry with its whole WALKey begins, or NONE."""
    scratch = np.empty((KEY_ROWS, 1), np.int64)
    return int(_find_entry(read_only(buf), start, hints.compressed, hints.regions, hints.tables, hints.plain_cells, scratch))


@inlined
def _name(buf: Bytes, start: int, length: int, compressed: bool, known: int) -> tuple[int, int]:
    """Return (start, length) of the name in a field.

    The length is 0 for an index that the dictionary contains, and NONE if there is no name.
    """
    if not compressed:
        return start, length
    end = start + length
    if field_end(buf, start, end) != end:
        return start, NONE
    if read_uint8(buf, start) != LITERAL:
        return start, 0 if read_uint16(buf, start) < known else NONE
    name_len, name = read_varint(buf, start + 1, end)
    return name, name_len or NONE


@inlined
def _is_region(buf: Bytes, start: int, length: int) -> bool:
    """Return whether the bytes are an encoded region name."""
    if length != _REGION_CHARS and not 0 < length <= _DECIMAL_CHARS:
        return False
    for i in range(start, start + length):
        char = read_uint8(buf, i)
        digit = 48 <= char <= 57
        if not (digit or (length == _REGION_CHARS and 97 <= char <= 102)):
            return False
    return True


@inlined
def _is_table(buf: Bytes, start: int, length: int) -> bool:
    """Return whether the bytes can be a table's name."""
    if length <= 0:
        return False
    for i in range(start, start + length):
        char = read_uint8(buf, i)
        alphanumeric = 48 <= char <= 57 or 65 <= char <= 90 or 97 <= char <= 122 or char >= 128  # letters of other scripts too
        if not (alphanumeric or char == 45 or char == 46 or char == 58 or char == 95):
            return False
    return True


@unmanaged
def _find_entry(
    buf: Bytes, start: int, compressed: bool, regions: int, tables: int, plain_cells: bool, scratch: OutIntTable
) -> int:
    end = len(buf)
    for key in range(start + 1, end):
        if read_uint8(buf, key) != _REGION_TAG:
            continue
        for pos in range(max(start, key - MAX_KEY_VARINT), key):
            key_len, after = read_varint(buf, pos, key)
            if after != key or not 0 < key_len <= min(MAX_PLAUSIBLE_KEY, end - key):
                continue
            if parse_key(buf, key, key + key_len, scratch, 0) != Problem.NONE or scratch[KeyRow.CELL_COUNT, 0] == 0:
                continue
            region, region_len = _name(buf, scratch[KeyRow.REGION_START, 0], scratch[KeyRow.REGION_LEN, 0], compressed, regions)
            table, table_len = _name(buf, scratch[KeyRow.TABLE_START, 0], scratch[KeyRow.TABLE_LEN, 0], compressed, tables)
            named = (compressed and region_len == 0) or _is_region(buf, region, region_len)
            named = named and ((compressed and table_len == 0) or _is_table(buf, table, table_len))
            if named and plain_cells:
                _, status = check_cell(buf, key + key_len, end)
                named = status == Problem.NONE or status == INCOMPLETE
            if named:
                return pos
    return NONE
