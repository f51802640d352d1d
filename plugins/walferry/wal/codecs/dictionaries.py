"""The dictionaries of a compressed WAL, as its reader rebuilds them.

    field = 0xFF varint(length) bytes       becomes the dictionary's next entry, unless it is empty
          | uint16 index                    of an entry; high byte first, at most 0x7FFF

A dictionary that is full reuses the index of the entry that was touched longest ago; each use of an entry, and each new one,
touches it. Source: HBase's LRUDictionary, Dictionary, WALCellCodec.CompressedKvDecoder, CompressionContext (branch-2.6).

All dictionaries of a file share arrays, each from its own first node on. An entry's bytes are in the arena: a new one takes the
space of the one whose index it gets, if it fits there, or else the arena's end; `make_room` closes the gaps that this leaves. It
is the format that has a reader hold so much: 32,767 rows and as many tags, regions and tables, each of up to 32 KB.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from walferry.kernels.compiled import inlined, unmanaged
from walferry.kernels.read import INCOMPLETE, OVERLONG, Bytes, Ints, read_uint16, read_varint
from walferry.kernels.write import copy_bytes

REGION, TABLE, FAMILY, QUALIFIER, ROW, TAG = range(6)
CAPACITIES: Final = (0x7FFF, 0x7FFF, 0x7F, 0x7F, 0x7FFF, 0x7FFF)

# Rows of `lists`, one column a dictionary.
HEAD, TAIL, SIZE, CAPACITY, FIRST = range(5)
# Columns of `nodes`, one row an entry.
PREVIOUS, NEXT, START, LENGTH, SPACE = range(5)
NO_NODE: Final = -1

MIN_ARENA_BYTES: Final = 1 << 20  # that are free after making room; a quarter of what is in use, if that is more

NO_ENTRY: Final = -3  # what `read_field` returns for an index that no entry has


@dataclass
class Dictionaries:
    """All dictionaries of one file. `used[0]` is how much of the arena is in use."""

    lists: Ints
    nodes: Ints
    arena: Bytes
    used: Ints

    @classmethod
    def empty(cls) -> Dictionaries:
        """As a file begins."""
        lists = np.full((5, len(CAPACITIES)), NO_NODE, dtype=np.int64)
        lists[SIZE] = 0
        lists[CAPACITY] = CAPACITIES
        lists[FIRST] = np.concatenate(([0], np.cumsum(CAPACITIES)[:-1]))
        nodes = np.zeros((sum(CAPACITIES), 5), dtype=np.int64)
        return cls(lists, nodes, np.empty(MIN_ARENA_BYTES, np.uint8), np.zeros(1, np.int64))

    def make_room(self, length: int) -> None:
        """Let at least `length` bytes of the arena be free. Its memory is extended, not copied, if it is large."""
        firsts, sizes = self.lists[FIRST], self.lists[SIZE]
        nodes = np.concatenate([np.arange(first, first + size) for first, size in zip(firsts, sizes, strict=True)])
        live = _compact(self.nodes, nodes[np.argsort(self.nodes[nodes, START])], self.arena)
        self.used[0] = live
        self.arena.resize(live + max(live // 4, MIN_ARENA_BYTES) + length, refcheck=False)


@unmanaged
def _compact(nodes: Ints, order: Ints, arena: Bytes) -> int:
    """Move the entries of `order`, by their start, together at the arena's beginning; returns where they end."""
    used = 0
    for node in order:
        length = nodes[node, LENGTH]
        if nodes[node, START] != used:
            copy_bytes(arena, used, arena, nodes[node, START], length)
        nodes[node, START], nodes[node, SPACE] = used, length
        used += length
    return used


@inlined
def _put_first(lists: Ints, nodes: Ints, d: int, node: int) -> None:
    """Put a node that is in no list at the head of dictionary d's."""
    head = lists[HEAD, d]
    nodes[node, PREVIOUS] = NO_NODE
    nodes[node, NEXT] = head
    if head != NO_NODE:
        nodes[head, PREVIOUS] = node
    lists[HEAD, d] = node
    if lists[TAIL, d] == NO_NODE:
        lists[TAIL, d] = node


@inlined
def _touch(lists: Ints, nodes: Ints, d: int, node: int) -> None:
    if lists[HEAD, d] == node:
        return
    previous, following = nodes[node, PREVIOUS], nodes[node, NEXT]
    nodes[previous, NEXT] = following
    if following != NO_NODE:
        nodes[following, PREVIOUS] = previous
    else:
        lists[TAIL, d] = previous
    _put_first(lists, nodes, d, node)


@inlined
def add_entry(lists: Ints, nodes: Ints, arena: Bytes, used: Ints, d: int, buf: Bytes, start: int, length: int) -> None:
    """A new entry; the caller has made sure that the arena has room for it."""
    if length == 0:
        return
    if lists[SIZE, d] < lists[CAPACITY, d]:
        node = lists[FIRST, d] + lists[SIZE, d]
        lists[SIZE, d] += 1
        _put_first(lists, nodes, d, node)
    else:
        node = lists[TAIL, d]
        _touch(lists, nodes, d, node)
    if length > nodes[node, SPACE]:
        nodes[node, START], nodes[node, SPACE] = used[0], length
        used[0] += length
    nodes[node, LENGTH] = length
    copy_bytes(arena, nodes[node, START], buf, start, length)


@inlined
def find_entry(lists: Ints, nodes: Ints, d: int, index: int) -> int:
    """The node of an entry, which is touched; NO_NODE if there is none."""
    if index >= lists[SIZE, d]:
        return NO_NODE
    node = int(lists[FIRST, d] + index)
    _touch(lists, nodes, d, node)
    return node


@inlined
def field_end(buf: Bytes, pos: int, end: int) -> int:
    """Position after the field at `pos`, or INCOMPLETE, or OVERLONG for a length that is none."""
    if end - pos < 2:
        return INCOMPLETE
    if buf[np.uint64(pos)] != 0xFF:
        return pos + 2
    length, after = read_varint(buf, pos + 1, end)
    if after < 0:
        return after
    if length < 0 or length > 0x7FFFFFFF:
        return OVERLONG
    return after + length if length <= end - after else INCOMPLETE


@inlined
def read_field(
    lists: Ints, nodes: Ints, arena: Bytes, used: Ints, d: int, buf: Bytes, pos: int, end: int, out: Bytes, at: int, most: int
) -> tuple[int, int]:
    """(position after the field at `pos`, its length): its bytes, `most` of them at most, are put to `out[at:]`.

    The caller has checked that the field is whole (`field_end`), and that out and arena have room. The position is NO_ENTRY for
    an index without an entry, and the length is more than `most` if it is too long; then nothing was copied.
    """
    if buf[np.uint64(pos)] == 0xFF:
        length, start = read_varint(buf, pos + 1, end)
        if length > most:
            return start, length
        copy_bytes(out, at, buf, start, length)
        add_entry(lists, nodes, arena, used, d, buf, start, length)
        return start + length, length
    index = read_uint16(buf, pos)
    node = find_entry(lists, nodes, d, index)
    if node == NO_NODE:
        return NO_ENTRY, 0
    length = nodes[node, LENGTH]
    if length <= most:
        copy_bytes(out, at, arena, nodes[node, START], length)
    return pos + 2, length
