"""Reads WALKeys, and the cluster ids in them and in other messages. Nothing else parses them.

    WALKey      = 1 bytes encoded_region_name, 2 bytes table_name, 3 uint64 log_sequence_number, 4 uint64 write_time,
                  5 UUID cluster_id (old), 6 FamilyScope scopes*, 7 uint32 following_kv_count, 8 UUID cluster_ids*,
                  12 Attribute extended_attributes*, …          begins with fields 1 to 4, in this order
    FamilyScope = 1 bytes family, 2 enum scope_type             Attribute = 1 string key, 2 bytes value
    UUID        = 1 uint64 least_sig_bits, 2 uint64 most_sig_bits, both required

Every release of HBase writes the required fields first, in the order of their numbers. Other bytes that happen to be a message
seldom begin this way.

Source: HBase's WAL.proto, HBase.proto, WALKeyImpl.getBuilder (branch-2.6).
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final
from uuid import UUID

import numpy as np

from walferry.base.kernels.compiled import inlined
from walferry.base.kernels.read import INCOMPLETE, OVERLONG, WireType, read_field, read_varint
from walferry.base.kernels.types import Bytes, Ints, OutIntTable
from walferry.hbase.wal.problems import MAX_KEY_BYTES, Problem

if TYPE_CHECKING:
    from walferry.base.protos import hbase_pb2 as pb

FAMILY_IN_SCOPE: Final = 1
VALUE_IN_ATTRIBUTE: Final = 2
_SCOPE_TYPE_IN_SCOPE: Final = 2
GLOBAL: Final = 1  # ScopeType.REPLICATION_SCOPE_GLOBAL
_ALL_REQUIRED: Final = 15  # one bit for each of the first four fields
_LEAST_TAG, _MOST_TAG = 0x08, 0x10  # fields 1 and 2 of a UUID, varints


class KeyField(enum.IntEnum):
    """The fields of a WALKey that Walferry looks at."""

    REGION = 1
    TABLE = 2
    SEQUENCE_ID = 3
    WRITE_TIME = 4
    CLUSTER_ID = 5
    SCOPES = 6
    CELL_COUNT = 7
    CLUSTER_IDS = 8
    ATTRIBUTES = 12


class KeyRow(enum.IntEnum):
    """The rows of the table that `parse_key` and the scan fill. Each entry has a column."""

    ENTRY_START = 0
    KEY_START = 1
    CELLS_START = 2
    CELL_COUNT = 3
    SEQUENCE_ID = 4
    WRITE_TIME = 5
    REGION_START = 6
    REGION_LEN = 7
    TABLE_START = 8
    TABLE_LEN = 9
    REGION_HASH = 10
    CLUSTER_ID_COUNT = 11


KEY_ROWS: Final = len(KeyRow)


@inlined
def parse_key(buf: Bytes, start: int, end: int, table: OutIntTable, entry: int) -> int:
    """Write the fields of the WALKey `buf[start:end]` to column `entry` of `table`. Returns a Problem, or 0."""
    seen = 0
    expected = 1
    pos = start
    table[KeyRow.CELL_COUNT, entry] = 0
    table[KeyRow.CLUSTER_ID_COUNT, entry] = 0
    while pos < end:
        tag, value, first, after = read_field(buf, pos, end)
        if tag == 0:
            return Problem.BAD_KEY_FIELD
        field, wire_type = tag >> 3, tag & 7
        if expected <= KeyField.WRITE_TIME:
            if field != expected:
                return Problem.MISSING_KEY_FIELD
            expected += 1
        if after < 0:
            return Problem.BAD_KEY_FIELD
        if field <= KeyField.TABLE and wire_type == WireType.BYTES:
            row = KeyRow.REGION_START if field == KeyField.REGION else KeyRow.TABLE_START
            table[row, entry] = first
            table[row + 1, entry] = after - first
            seen |= 1 << (field - 1)
        elif field in (KeyField.SEQUENCE_ID, KeyField.WRITE_TIME) and wire_type == WireType.VARINT:
            table[KeyRow.SEQUENCE_ID if field == KeyField.SEQUENCE_ID else KeyRow.WRITE_TIME, entry] = value
            seen |= 1 << (field - 1)
        elif field == KeyField.CELL_COUNT and wire_type == WireType.VARINT:
            table[KeyRow.CELL_COUNT, entry] = value & 0xFFFFFFFF
        else:
            if field <= KeyField.WRITE_TIME and seen != _ALL_REQUIRED:
                return Problem.BAD_KEY_FIELD
            table[KeyRow.CLUSTER_ID_COUNT, entry] += field in (KeyField.CLUSTER_ID, KeyField.CLUSTER_IDS)
        pos = after
    return Problem.NONE if seen == _ALL_REQUIRED else Problem.MISSING_KEY_FIELD


@inlined
def read_key_length(buf: Bytes, pos: int, end: int) -> tuple[int, int, int]:
    """Return (start of the WALKey, its end, status) for the entry at `pos`.

    The status is Problem.NONE, another Problem, or INCOMPLETE. If it is INCOMPLETE, the second number is the smallest end of the
    range with which reading can go on.
    """
    key_len, key = read_varint(buf, pos, end)
    if key == INCOMPLETE:
        return pos, end + 1, INCOMPLETE
    if key == OVERLONG or key_len <= 0 or key_len > MAX_KEY_BYTES:
        return pos, pos, Problem.BAD_KEY_LENGTH
    return key, key + key_len, Problem.NONE if key + key_len <= end else INCOMPLETE


@inlined
def read_entry_key(buf: Bytes, pos: int, end: int, table: OutIntTable, row: int) -> tuple[int, int, int]:
    """Parse the WALKey of the entry at `pos` to `table[:, row]`. Returns (start of the key, start of the cells, status).

    If the status is a Problem, the first number is its offset. If it is INCOMPLETE, the first is the smallest end of the range
    with which reading can go on.
    """
    key, cells, status = read_key_length(buf, pos, end)
    if status == INCOMPLETE:
        return cells, 0, status
    if status != Problem.NONE:
        return key, 0, status
    return key, cells, parse_key(buf, key, cells, table, row)


@inlined
def read_scope(buf: Bytes, pos: int, end: int) -> tuple[int, int, bool]:
    """Return (start of the family, its length, whether it is GLOBAL) of the FamilyScope `buf[pos:end]`.

    The start is -1 if the message is malformed, the length is -1 if it has no family.
    """
    start, length, scope = pos, -1, 0
    while pos < end:
        tag, value, first, pos = read_field(buf, pos, end)
        if pos < 0:
            return -1, 0, False
        if tag == FAMILY_IN_SCOPE << 3 | WireType.BYTES:
            start, length = first, pos - first
        elif tag == _SCOPE_TYPE_IN_SCOPE << 3 | WireType.VARINT:
            scope = value
    return start, length, scope == GLOBAL


@inlined
def read_uuid(buf: Bytes, pos: int, end: int) -> tuple[int, int, bool]:
    """Return (least significant half, most significant half, whether it is sound) of the UUID message `buf[pos:end]`."""
    least, most, seen = 0, 0, 0
    while pos < end:
        tag, value, _, pos = read_field(buf, pos, end)
        if pos < 0:
            return least, most, False
        if tag == _LEAST_TAG:
            least = value
            seen |= 1
        elif tag == _MOST_TAG:
            most = value
            seen |= 2
    return least, most, seen == 3


def from_halves(least: int, most: int) -> UUID:
    """Return the UUID of two unsigned halves."""
    return UUID(int=most << 64 | least)


def from_message(message: pb.UUID) -> UUID:
    """Return the UUID in a parsed message."""
    return from_halves(message.least_sig_bits, message.most_sig_bits)


def halves(uuid: UUID) -> tuple[int, int]:
    """Return the least and the most significant half, unsigned."""
    return uuid.int & (2**64 - 1), uuid.int >> 64


def halves_array(uuid: UUID) -> Ints:
    """Return the two halves as `read_uuid` does: the same bits as int64."""
    return np.array(halves(uuid), np.uint64).view(np.int64)
