"""Turns the entries of a compressed WAL into plain entries in one compiled pass.

    entry  = varint(key length) WALKey cell{following_kv_count}            see expand_key.py, expand_cell.py and phoenix.py

Reading changes the dictionaries, so the pass never reads anything twice. It stops before a key or a cell that is not whole, or
for which `out`, `arena` or the tables have no room. The next call goes on there.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from walferry.base.kernels.compiled import inlined, unmanaged
from walferry.base.kernels.read import INCOMPLETE, read_uint8
from walferry.base.kernels.types import Bytes, Ints, OutBytes, OutInts, OutIntTable
from walferry.base.kernels.write import copy_bytes
from walferry.hbase.wal.cells import CELL_LENGTHS
from walferry.hbase.wal.codecs.dictionaries import NO_ENTRY
from walferry.hbase.wal.codecs.expand_cell import MIN_COMPRESSED_CELL, check_key, expand_cell, walk_cell
from walferry.hbase.wal.codecs.expand_key import FIELD_FRAME, expand_key, key_room
from walferry.hbase.wal.codecs.passes import (
    AT_ENTRY,
    NEED_ARENA,
    NEED_INPUT,
    NEED_OUT,
    NEED_TABLES,
    EntryRow,
    PassState,
    ValueRow,
)
from walferry.hbase.wal.codecs.phoenix import CELL_FOLLOWS, INDEX_FOLLOWS, PLACEHOLDER_BYTES, index_end, put_placeholder
from walferry.hbase.wal.keys import read_key_length
from walferry.hbase.wal.problems import MAX_ENTRY_BYTES, MAX_KEY_BYTES, Problem

KEY_FRAME: Final = 5  # bytes of a key's length


@inlined
def _stopped(state: OutInts, at: int, need: int, status: int) -> int:
    """Note where a pass stopped and what it needs. Returns `status`."""
    state[PassState.AT] = at
    state[PassState.NEED] = need
    return status


@inlined
def _begin_entry(
    buf: Bytes, end: int, base: int, lists: OutIntTable, nodes: OutIntTable, arena: OutBytes, used: OutInts, out: OutBytes,
    entries: Ints, state: OutInts,
) -> int:  # fmt: skip
    """Expand an entry's WALKey. Returns 0, a NEED_… or a Problem."""
    pos, at = state[PassState.POS], state[PassState.OUT]
    if pos >= end:
        return NEED_INPUT
    if state[PassState.ENTRIES] == entries.shape[1]:
        return NEED_TABLES
    state[PassState.ENTRY_START], state[PassState.ENTRY_OUT] = base + pos, at
    key, key_end, status = read_key_length(buf, pos, end)
    if status == INCOMPLETE:
        return _stopped(state, pos, key_end, NEED_INPUT)
    if status != Problem.NONE:
        return status
    room = key_room(lists, nodes, buf, key, key_end)
    if room < 0:
        return _stopped(state, key, pos, -room)
    bounded = KEY_FRAME + room > MAX_KEY_BYTES
    room = min(KEY_FRAME + room, KEY_FRAME + MAX_KEY_BYTES + FIELD_FRAME)
    if used[0] + key_end - key > arena.size:
        return _stopped(state, pos, key_end - key, NEED_ARENA)
    if at + room > out.size:
        return _stopped(state, pos, room, NEED_OUT)
    # The length is written first but known last. So it takes a varint of five bytes, whatever its value.
    stop, cells = expand_key(lists, nodes, arena, used, buf, key, key_end, out, at + KEY_FRAME, bounded)
    if stop < 0:
        return _stopped(state, key, pos, Problem.BAD_INDEX if stop == NO_ENTRY else Problem.BAD_KEY_LENGTH)
    length = stop - at - KEY_FRAME
    for i in range(KEY_FRAME):
        out[np.uint64(at + i)] = (length >> (7 * i) & 127) | (128 if i < KEY_FRAME - 1 else 0)
    if cells * MIN_COMPRESSED_CELL > MAX_ENTRY_BYTES:
        return Problem.BAD_CELL_COUNT
    state[PassState.POS], state[PassState.OUT], state[PassState.CELLS_LEFT] = key_end, stop, cells
    return Problem.NONE


@inlined
def _end_entry(base: int, entries: OutIntTable, state: OutInts) -> None:
    """Enter a whole entry into the table."""
    entry = state[PassState.ENTRIES]
    entries[EntryRow.FILE_START, entry] = state[PassState.ENTRY_START]
    entries[EntryRow.FILE_END, entry] = base + state[PassState.POS]
    entries[EntryRow.OUT_START, entry] = state[PassState.ENTRY_OUT]
    state[PassState.ENTRIES] = entry + 1
    state[PassState.CELLS_LEFT] = AT_ENTRY


@inlined
def _next_index(buf: Bytes, end: int, out: OutBytes, state: OutInts) -> int:
    """Write the cell that stands for one of Phoenix's indexes. Returns 0, a NEED_… or a Problem."""
    pos, at = state[PassState.POS], state[PassState.OUT]
    after, status = index_end(buf, pos + 1, end)
    if status == INCOMPLETE:
        return _stopped(state, pos, after, NEED_INPUT)
    if status != Problem.NONE:
        return _stopped(state, after, after, status)
    if at + PLACEHOLDER_BYTES - state[PassState.ENTRY_OUT] > MAX_ENTRY_BYTES + MAX_KEY_BYTES:
        return Problem.ENTRY_TOO_LONG
    if at + PLACEHOLDER_BYTES > out.size:
        return _stopped(state, pos, PLACEHOLDER_BYTES, NEED_OUT)
    state[PassState.POS], state[PassState.OUT] = after, put_placeholder(out, at)
    state[PassState.CELLS_LEFT] -= 1
    return Problem.NONE


@inlined
def _next_cell(
    buf: Bytes, end: int, at_end: bool, tags_compressed: bool, phoenix: bool, most_from_a_byte: int,
    lists: OutIntTable, nodes: OutIntTable, arena: OutBytes, used: OutInts, out: OutBytes, values: OutIntTable, state: OutInts,
) -> int:  # fmt: skip
    """Expand one cell. Returns 0, a NEED_… or a Problem."""
    pos, at = state[PassState.POS], state[PassState.OUT]
    if phoenix:
        if pos >= end:
            return _stopped(state, pos, pos + 1, NEED_INPUT)
        if read_uint8(buf, pos) == INDEX_FOLLOWS:
            return _next_index(buf, end, out, state)
        if read_uint8(buf, pos) != CELL_FOLLOWS:
            return _stopped(state, pos, pos, Problem.BAD_MARKER)
        pos += 1
    status, key_len, val_len, tags_len, row, value, stored = walk_cell(buf, pos, end, at_end, tags_compressed, most_from_a_byte)
    if status != 0:
        return _stopped(state, pos, key_len, status)  # `key_len` is the end that is needed if it is NEED_INPUT
    room = CELL_LENGTHS + key_len + val_len + 2 + tags_len
    if at + room - state[PassState.ENTRY_OUT] > MAX_ENTRY_BYTES + MAX_KEY_BYTES:
        return Problem.ENTRY_TOO_LONG
    need_arena = used[0] + key_len + 2 * tags_len > arena.size
    if need_arena or at + room > out.size:
        status = check_key(lists, nodes, buf, row, end, key_len)
        if status != Problem.NONE:
            return _stopped(state, row, row, status)
        if need_arena:
            return _stopped(state, pos, key_len + 2 * tags_len, NEED_ARENA)
        return _stopped(state, pos, room, NEED_OUT)
    if state[PassState.VALUES] == values.shape[1]:
        return NEED_TABLES
    after, target, status = expand_cell(
        lists, nodes, arena, used, buf, row, key_len, val_len, tags_len, value, stored, end, tags_compressed, out, at
    )
    if status != 0:
        return _stopped(state, after, after, status)
    if most_from_a_byte == 0:
        copy_bytes(out, target, buf, value, val_len)
    elif stored > 0 or val_len > 0:
        v = state[PassState.VALUES]
        values[ValueRow.SOURCE, v], values[ValueRow.SOURCE_LEN, v] = value, stored
        values[ValueRow.TARGET, v], values[ValueRow.TARGET_LEN, v] = target, val_len
        state[PassState.VALUES] = v + 1
    state[PassState.POS], state[PassState.OUT] = after, at + room - (0 if tags_len else 2)
    state[PassState.CELLS_LEFT] -= 1
    return Problem.NONE


@unmanaged
def expand_into(
    buf: Bytes, end: int, at_end: bool, base: int, tags_compressed: bool, phoenix: bool, most_from_a_byte: int,
    lists: OutIntTable, nodes: OutIntTable, arena: OutBytes, used: OutInts, out: OutBytes, entries: OutIntTable,
    values: OutIntTable, state: OutInts,
) -> int:  # fmt: skip
    """Expand from `state[State.POS]` on. The buffer lies at file offset `base`; if `at_end`, the file ends with the buffer.
    If `phoenix`, a marker precedes each cell.

    One stored byte of a value can become up to `most_from_a_byte` bytes (0 if values are not compressed). Returns why the pass
    stopped: a NEED_…, or the Problem at `state[State.AT]`.
    """
    status = 0
    while status == 0:
        state[PassState.AT] = state[PassState.NEED] = state[PassState.POS]
        if state[PassState.CELLS_LEFT] == AT_ENTRY:
            status = _begin_entry(buf, end, base, lists, nodes, arena, used, out, entries, state)
        elif state[PassState.CELLS_LEFT] == 0:
            _end_entry(base, entries, state)
        else:
            status = _next_cell(
                buf, end, at_end, tags_compressed, phoenix, most_from_a_byte, lists, nodes, arena, used, out, values, state
            )
    return status
