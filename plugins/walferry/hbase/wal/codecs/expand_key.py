"""Expands the WALKeys of a compressed WAL.

    WALKey = as in an uncompressed WAL, but a dictionary's `field` in place of region, table, each scope's family and each
             attribute's value (see dictionaries.py)

Source: HBase's WALKeyImpl.readFieldsFromPb (branch-2.6).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from walferry.base.kernels.compiled import inlined
from walferry.base.kernels.read import WireType, read_field
from walferry.base.kernels.types import Bytes, IntTable, OutBytes, OutInts, OutIntTable
from walferry.base.kernels.write import copy_bytes, put_varint, varint_len
from walferry.hbase.wal.codecs.dictionaries import LITERAL, NO_ENTRY, Dictionary, expand_field, field_end, field_length
from walferry.hbase.wal.keys import FAMILY_IN_SCOPE, VALUE_IN_ATTRIBUTE, KeyField
from walferry.hbase.wal.problems import MAX_KEY_BYTES, Problem

TOO_LONG: Final = -4  # distinct from NO_ENTRY
FIELD_FRAME: Final = 8  # bytes that the lengths of a field, and of the message around it, may additionally take once expanded


@inlined
def _dictionary_of(field: int) -> int:
    """Return the dictionary that a WALKey's field uses."""
    return int(
        Dictionary.REGION.value if field == KeyField.REGION
        else Dictionary.FAMILY.value if field == KeyField.SCOPES
        else Dictionary.TABLE.value
    )  # fmt: skip


@inlined
def _is_compressed(field: int) -> bool:
    """Return whether a WALKey's field is, or contains, a dictionary's field."""
    return field in (KeyField.REGION, KeyField.TABLE, KeyField.SCOPES, KeyField.ATTRIBUTES)


@inlined
def _find_bytes(buf: Bytes, pos: int, end: int, number: int) -> tuple[int, int, int]:
    """Return (start, start of its bytes, end) of the one bytes field `number` in the message `buf[pos:end]`.

    All three are `end` if the message has no such field. The first is negative if the message is malformed or has several.
    """
    found, first, last = end, end, end
    while pos < end:
        tag, _, start, after = read_field(buf, pos, end)
        if after < 0:
            return -1, 0, 0
        if tag >> 3 == number and tag & 7 == WireType.BYTES:
            if found < end:
                return -1, 0, 0
            found, first, last = pos, start, after
        pos = after
    return found, first, last


@inlined
def _find_compressed(buf: Bytes, field: int, pos: int, start: int, after: int) -> tuple[int, int, int]:
    """Return the range of the dictionary's field in a scope or an attribute as `_find_bytes` does, or else of the whole field."""
    if field == KeyField.SCOPES or field == KeyField.ATTRIBUTES:
        return _find_bytes(buf, start, after, FAMILY_IN_SCOPE if field == KeyField.SCOPES else VALUE_IN_ATTRIBUTE)
    return pos, start, after


@inlined
def key_room(lists: IntTable, nodes: IntTable, buf: Bytes, pos: int, end: int) -> int:
    """Return the most bytes that the WALKey `buf[pos:end]` can expand to, or the negated Problem with it.

    An index stands for the entry that its dictionary has now or, since fields also change the dictionaries, for an entry that an
    earlier field of the same key adds. A key holds at most 4 M indices of 16 MB each, which is far from an int64's limit.
    """
    room, longest, seen = end - pos, 0, 0
    while pos < end:
        tag, _, start, after = read_field(buf, pos, end)
        if after < 0:
            return -Problem.BAD_KEY_FIELD.value
        field = tag >> 3
        if _is_compressed(field):
            if tag & 7 != WireType.BYTES:
                return -Problem.BAD_KEY_FIELD.value
            if field <= KeyField.TABLE:
                if seen & field:
                    return -Problem.BAD_KEY_FIELD.value
                seen |= field
            found, first, last = _find_compressed(buf, field, pos, start, after)
            if found < 0 or (found < after and field_end(buf, first, last) != last):
                return -Problem.BAD_KEY_FIELD.value
            if found < after:
                length = field_length(lists, nodes, _dictionary_of(field), buf, first, last)
                if buf[np.uint64(first)] == LITERAL:
                    longest = max(longest, length)
                else:
                    room += FIELD_FRAME + max(longest, length)
        pos = after
    return room


@inlined
def _put_bytes(
    lists: OutIntTable, nodes: OutIntTable, arena: OutBytes, used: OutInts, d: int, buf: Bytes, pos: int, end: int,
    out: OutBytes, at: int,
) -> int:  # fmt: skip
    """Write the bytes that the field `buf[pos:end]` stands for, after their length.

    Returns the position after them, or NO_ENTRY.
    """
    length = field_length(lists, nodes, d, buf, pos, end)
    if length < 0:
        return NO_ENTRY
    at = put_varint(out, at, length)
    expand_field(lists, nodes, arena, used, d, buf, pos, end, out, at, length)
    return at + length


@inlined
def _put_message(
    lists: OutIntTable, nodes: OutIntTable, arena: OutBytes, used: OutInts, field: int, buf: Bytes, pos: int, end: int,
    out: OutBytes, at: int,
) -> int:  # fmt: skip
    """Write the length and the bytes of the scope or attribute `buf[pos:end]`, expanded.

    Returns the position after, or NO_ENTRY.
    """
    d = _dictionary_of(field)
    found, first, last = _find_compressed(buf, field, pos, pos, end)
    if found == end:
        return copy_bytes(out, put_varint(out, at, end - pos), buf, pos, end - pos)
    full = field_length(lists, nodes, d, buf, first, last)
    if full < 0:
        return NO_ENTRY
    at = put_varint(out, at, end - pos - (last - found) + 1 + varint_len(full) + full)
    number = FAMILY_IN_SCOPE if field == KeyField.SCOPES else VALUE_IN_ATTRIBUTE
    at = put_varint(out, copy_bytes(out, at, buf, pos, found - pos), number << 3 | WireType.BYTES)
    at = _put_bytes(lists, nodes, arena, used, d, buf, first, last, out, at)
    return copy_bytes(out, at, buf, last, end - last)


@inlined
def _field_room(lists: IntTable, nodes: IntTable, buf: Bytes, field: int, pos: int, start: int, after: int) -> int:
    """Return the most bytes that the field `buf[pos:after]` of a WALKey can expand to with the dictionaries as they are now."""
    if not _is_compressed(field):
        return after - pos
    found, first, last = _find_compressed(buf, field, pos, start, after)
    if found == after:
        return after - pos
    return after - pos + max(field_length(lists, nodes, _dictionary_of(field), buf, first, last), 0)


@inlined
def expand_key(
    lists: OutIntTable, nodes: OutIntTable, arena: OutBytes, used: OutInts, buf: Bytes, pos: int, end: int, out: OutBytes,
    at: int, bounded: bool,
) -> tuple[int, int]:  # fmt: skip
    """Write the expanded WALKey to `out[at:]`. Returns (position after it, its number of cells), or (NO_ENTRY, 0).

    `key_room` has found the key well-formed. If `bounded`, `out` may have room only for MAX_KEY_BYTES and a frame, and a longer
    key gives (TOO_LONG, 0).
    """
    cells, limit = 0, at + MAX_KEY_BYTES
    while pos < end:
        tag, value, start, after = read_field(buf, pos, end)
        field = tag >> 3
        if bounded and at + _field_room(lists, nodes, buf, field, pos, start, after) > limit:
            return TOO_LONG, 0
        if _is_compressed(field):
            at = put_varint(out, at, tag)
            if field == KeyField.SCOPES or field == KeyField.ATTRIBUTES:
                at = _put_message(lists, nodes, arena, used, field, buf, start, after, out, at)
            else:
                at = _put_bytes(lists, nodes, arena, used, _dictionary_of(field), buf, start, after, out, at)
            if at < 0:
                return NO_ENTRY, 0
        else:
            if tag == KeyField.CELL_COUNT << 3 | WireType.VARINT:
                cells = value & 0xFFFFFFFF
            at = copy_bytes(out, at, buf, pos, after - pos)
        pos = after
    return at, cells
