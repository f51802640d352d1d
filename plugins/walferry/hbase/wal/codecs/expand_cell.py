"""Expands the cells of a compressed WAL.

    cell   = varint keyLen, varint valLen, varint tagsLen, row, family, qualifier: field each,
             int64 timestamp, int8 type, value [, tags]
    value  = valLen bytes | varint length, compressed bytes                with value compression
    tags   = tagsLen bytes | field{as many as make tagsLen bytes}          with tag compression
    field  = see dictionaries.py

keyLen, valLen and tagsLen are the lengths in the uncompressed cell. The pass leaves compressed values out, and records where they
lie and where they belong. Source: HBase's WALCellCodec.CompressedKvDecoder, TagCompressionContext (branch-2.6).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from walferry.base.kernels.compiled import inlined
from walferry.base.kernels.read import INCOMPLETE, read_varint
from walferry.base.kernels.types import Bytes, IntTable, OutBytes, OutInts, OutIntTable
from walferry.base.kernels.write import copy_bytes, put_int
from walferry.hbase.wal.cells import KEY_TAIL, MAX_FAMILY, MAX_ROW, MAX_TAGS, MIN_KEY, put_lengths
from walferry.hbase.wal.codecs.dictionaries import Dictionary, expand_field, field_end, field_length
from walferry.hbase.wal.codecs.passes import NEED_INPUT
from walferry.hbase.wal.problems import MAX_ENTRY_BYTES, Problem

MIN_COMPRESSED_CELL: Final = 18  # three lengths, three indices, timestamp, type


@inlined
def walk_cell(buf: Bytes, pos: int, end: int, at_end: bool, tags_compressed: bool, most_from_a_byte: int) -> tuple[
    int, int, int, int, int, int, int
]:  # fmt: skip
    """Find the parts of the cell at `pos`.

    Returns (0, keyLen, valLen, tagsLen, start of the row, start of the value's bytes, their number). If the cell is not whole,
    the first is NEED_INPUT and the second the buffer end that is needed. If the cell is broken, the first is the Problem.
    """
    key_len, p = read_varint(buf, pos, end)
    val_len, p = read_varint(buf, p, end) if p > 0 else (0, p)
    tags_len, p = read_varint(buf, p, end) if p > 0 else (0, p)
    if p < 0:
        return _incomplete_or(p, end, Problem.BAD_CELL_LENGTHS)
    if not MIN_KEY <= key_len <= MAX_ENTRY_BYTES or not 0 <= val_len <= MAX_ENTRY_BYTES or not 0 <= tags_len <= MAX_TAGS:
        return Problem.BAD_CELL_LENGTHS, 0, 0, 0, 0, 0, 0
    row = p
    for _ in range(3):
        if p > 0:
            p = field_end(buf, p, end)
    if p < 0:
        return _incomplete_or(p, end, Problem.BAD_CELL_KEY)
    value, stored = p + KEY_TAIL, val_len
    if most_from_a_byte:
        if value >= end:
            return NEED_INPUT, value + 1, 0, 0, 0, 0, 0
        stored, value = read_varint(buf, value, end)
        if value < 0:
            return _incomplete_or(value, end, Problem.BAD_CELL_LENGTHS)
        if not 0 <= stored <= MAX_ENTRY_BYTES:
            return Problem.BAD_CELL_LENGTHS, 0, 0, 0, 0, 0, 0
        if val_len > stored * most_from_a_byte:
            return Problem.BAD_VALUE_LENGTH, 0, 0, 0, 0, 0, 0
    tags = value + stored
    # The length of compressed tags is known only once they are read. It is at most twice the tags' length.
    need = tags + (0 if tags_compressed and at_end else 2 * tags_len if tags_compressed else tags_len)
    if need > end:
        return NEED_INPUT, need, 0, 0, 0, 0, 0
    return 0, key_len, val_len, tags_len, row, value, stored


@inlined
def _incomplete_or(position: int, end: int, problem: int) -> tuple[int, int, int, int, int, int, int]:
    """Return the result of `walk_cell` for a negative position."""
    if position == INCOMPLETE:
        return NEED_INPUT, end + 1, 0, 0, 0, 0, 0
    return problem, 0, 0, 0, 0, 0, 0


@inlined
def check_key(lists: IntTable, nodes: IntTable, buf: Bytes, row: int, end: int, key_len: int) -> int:
    """Check that row, family and qualifier, whose fields from `row` on are whole, have the length `key_len`.

    Returns a Problem, or 0. The caller makes room only for keys that pass this check, not for any length that a cell claims.
    """
    length, pos = MIN_KEY, row
    for d in (Dictionary.ROW, Dictionary.FAMILY, Dictionary.QUALIFIER):
        part = field_length(lists, nodes, d, buf, pos, end)
        if part < 0:
            return Problem.BAD_INDEX
        if part > (MAX_ROW if d == Dictionary.ROW else MAX_FAMILY if d == Dictionary.FAMILY else key_len):
            return Problem.BAD_CELL_KEY
        length += part
        pos = field_end(buf, pos, end)
    return Problem.NONE if length == key_len else Problem.BAD_CELL_KEY


@inlined
def _expand_cell_key(
    lists: OutIntTable, nodes: OutIntTable, arena: OutBytes, used: OutInts, buf: Bytes, pos: int, end: int, key_len: int,
    out: OutBytes, at: int,
) -> tuple[int, int, int]:  # fmt: skip
    """Write the cell's key to `out[at:]`. Returns (position after its fields, position after it in out, 0 or a Problem)."""
    left = key_len - MIN_KEY
    after, row_len = expand_field(lists, nodes, arena, used, Dictionary.ROW, buf, pos, end, out, at + 2, min(left, MAX_ROW))
    if after < 0 or row_len > min(left, MAX_ROW):
        return pos, 0, Problem.BAD_INDEX if after < 0 else Problem.BAD_CELL_KEY
    at = put_int(out, at, row_len, 2) + row_len
    left -= row_len
    pos = after
    after, length = expand_field(lists, nodes, arena, used, Dictionary.FAMILY, buf, pos, end, out, at + 1, min(left, MAX_FAMILY))
    if after < 0 or length > min(left, MAX_FAMILY):
        return pos, 0, Problem.BAD_INDEX if after < 0 else Problem.BAD_CELL_KEY
    out[np.uint64(at)] = length
    at += 1 + length
    left -= length
    pos = after
    after, length = expand_field(lists, nodes, arena, used, Dictionary.QUALIFIER, buf, pos, end, out, at, left)
    if after < 0 or length != left:
        return pos, 0, Problem.BAD_INDEX if after < 0 else Problem.BAD_CELL_KEY
    return after, copy_bytes(out, at + length, buf, after, KEY_TAIL), Problem.NONE


@inlined
def _expand_tags(
    lists: OutIntTable, nodes: OutIntTable, arena: OutBytes, used: OutInts, buf: Bytes, pos: int, end: int, out: OutBytes,
    at: int, stop: int,
) -> tuple[int, int]:  # fmt: skip
    """Write compressed tags to `out[at:stop]`. Returns (position after them, 0), or (position, Problem or NEED_INPUT)."""
    while at < stop:
        whole = field_end(buf, pos, end)
        if whole == INCOMPLETE:
            return end + 1, NEED_INPUT
        if whole < 0:
            return end + 1, Problem.BAD_TAGS
        after, length = expand_field(lists, nodes, arena, used, Dictionary.TAG, buf, pos, end, out, at + 2, stop - at - 2)
        if after < 0 or length > stop - at - 2:
            return pos, Problem.BAD_INDEX if after < 0 else Problem.BAD_TAGS
        at = put_int(out, at, length, 2) + length
        pos = after
    return pos, Problem.NONE


@inlined
def expand_cell(
    lists: OutIntTable, nodes: OutIntTable, arena: OutBytes, used: OutInts, buf: Bytes, pos: int, key_len: int, val_len: int,
    tags_len: int, value: int, stored: int, end: int, tags_compressed: bool, out: OutBytes, at: int,
) -> tuple[int, int, int]:  # fmt: skip
    """Write the cell without its value to `out[at:]`. Returns (position after the cell, where its value belongs in out, 0).

    If the last number is a Problem or NEED_INPUT, the first is its position.
    """
    at = put_lengths(out, at, key_len, val_len, tags_len)
    pos, target, status = _expand_cell_key(lists, nodes, arena, used, buf, pos, end, key_len, out, at)
    if status != Problem.NONE:
        return pos, 0, status
    pos = value + stored
    if tags_len == 0:
        return pos, target, Problem.NONE
    at = put_int(out, target + val_len, tags_len, 2)
    if not tags_compressed:
        copy_bytes(out, at, buf, pos, tags_len)
        return pos + tags_len, target, Problem.NONE
    pos, status = _expand_tags(lists, nodes, arena, used, buf, pos, end, out, at, at + tags_len)
    return pos, target, status
