"""Rebuilds the dictionaries of a compressed WAL, as HBase's reader does.

    field = 0xFF varint(length) bytes       becomes the dictionary's next entry, unless its length is 0
          | uint16 index                    of an entry; high byte first, at most 0x7FFF

A full dictionary reuses the index of the entry that was touched longest ago. Each use of an entry touches it, and so does adding
it. Source: HBase's LRUDictionary, Dictionary, WALCellCodec.CompressedKvDecoder, CompressionContext (branch-2.6).

All dictionaries of a file share arrays, each from its own first node on. The arena holds the entries' bytes. A new entry that
reuses an index also reuses the old entry's space if it fits, and otherwise goes to the arena's end. `make_room` closes the gaps
that this leaves. The format forces a reader to hold this much: 32,767 rows, tags, regions and tables each, of up to 32 KB.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

import numpy as np

from walferry.base.kernels.compiled import inlined, unmanaged
from walferry.base.kernels.read import INCOMPLETE, OVERLONG, read_uint16, read_varint
from walferry.base.kernels.types import Bytes, Ints, IntTable, OutBytes, OutInts, OutIntTable
from walferry.base.kernels.write import copy_bytes


class Dictionary(enum.IntEnum):
    """The dictionaries of a file: the columns of `lists`."""

    REGION = 0
    TABLE = 1
    FAMILY = 2
    QUALIFIER = 3
    ROW = 4
    TAG = 5


class ListRow(enum.IntEnum):
    """The rows of `lists`."""

    HEAD = 0
    TAIL = 1
    SIZE = 2
    CAPACITY = 3
    FIRST = 4


class NodeColumn(enum.IntEnum):
    """The columns of `nodes`, which has one row for each entry."""

    PREVIOUS = 0
    NEXT = 1
    START = 2
    LENGTH = 3
    SPACE = 4


CAPACITIES: Final = (0x7FFF, 0x7FFF, 0x7F, 0x7F, 0x7FFF, 0x7FFF)
LITERAL: Final = 0xFF
NO_NODE: Final = -1
NO_ENTRY: Final = -3  # `expand_field` returns this for an index without an entry

MIN_ARENA_BYTES: Final = 1 << 20  # free bytes after making room; a quarter of the used bytes if that is more


@dataclass
class Dictionaries:
    """All dictionaries of one file. `used[0]` bytes of the arena are in use."""

    lists: Ints
    nodes: Ints
    arena: Bytes
    used: Ints

    @classmethod
    def empty(cls) -> Dictionaries:
        """Return the empty dictionaries at the start of a file."""
        lists = np.full((len(ListRow), len(Dictionary)), NO_NODE, dtype=np.int64)
        lists[ListRow.SIZE] = 0
        lists[ListRow.CAPACITY] = CAPACITIES
        lists[ListRow.FIRST] = np.concatenate(([0], np.cumsum(CAPACITIES)[:-1]))
        nodes = np.zeros((sum(CAPACITIES), len(NodeColumn)), dtype=np.int64)
        return cls(lists, nodes, np.empty(MIN_ARENA_BYTES, np.uint8), np.zeros(1, np.int64))

    def make_room(self, length: int) -> None:
        """Free at least `length` bytes of the arena. A large arena is extended, not copied."""
        firsts, sizes = self.lists[ListRow.FIRST], self.lists[ListRow.SIZE]
        nodes = np.concatenate([np.arange(first, first + size) for first, size in zip(firsts, sizes, strict=True)])
        live = _compact(self.nodes, nodes[np.argsort(self.nodes[nodes, NodeColumn.START])], self.arena)
        self.used[0] = live
        self.arena.resize(live + max(live // 4, MIN_ARENA_BYTES) + length, refcheck=False)


@unmanaged
def _compact(nodes: OutIntTable, order: Ints, arena: OutBytes) -> int:
    """Move the entries of `order`, which is sorted by start, to the arena's beginning without gaps. Returns where they end."""
    used = 0
    for node in order:
        length = nodes[node, NodeColumn.LENGTH]
        if nodes[node, NodeColumn.START] != used:
            copy_bytes(arena, used, arena, nodes[node, NodeColumn.START], length)
        nodes[node, NodeColumn.START], nodes[node, NodeColumn.SPACE] = used, length
        used += length
    return used


@inlined
def _put_first(lists: OutIntTable, nodes: OutIntTable, d: int, node: int) -> None:
    """Put a node that is not in a list at the head of dictionary `d`'s list."""
    head = lists[ListRow.HEAD, d]
    nodes[node, NodeColumn.PREVIOUS] = NO_NODE
    nodes[node, NodeColumn.NEXT] = head
    if head != NO_NODE:
        nodes[head, NodeColumn.PREVIOUS] = node
    lists[ListRow.HEAD, d] = node
    if lists[ListRow.TAIL, d] == NO_NODE:
        lists[ListRow.TAIL, d] = node


@inlined
def _touch(lists: OutIntTable, nodes: OutIntTable, d: int, node: int) -> None:
    """Move a node of dictionary `d` to the head of its list."""
    if lists[ListRow.HEAD, d] == node:
        return
    previous, following = nodes[node, NodeColumn.PREVIOUS], nodes[node, NodeColumn.NEXT]
    nodes[previous, NodeColumn.NEXT] = following
    if following != NO_NODE:
        nodes[following, NodeColumn.PREVIOUS] = previous
    else:
        lists[ListRow.TAIL, d] = previous
    _put_first(lists, nodes, d, node)


@inlined
def add_entry(
    lists: OutIntTable, nodes: OutIntTable, arena: OutBytes, used: OutInts, d: int, buf: Bytes, start: int, length: int
) -> None:
    """Add an entry to dictionary `d`. The caller has made sure that the arena has room for it."""
    if length == 0:
        return
    if lists[ListRow.SIZE, d] < lists[ListRow.CAPACITY, d]:
        node = lists[ListRow.FIRST, d] + lists[ListRow.SIZE, d]
        lists[ListRow.SIZE, d] += 1
        _put_first(lists, nodes, d, node)
    else:
        node = lists[ListRow.TAIL, d]
        _touch(lists, nodes, d, node)
    if length > nodes[node, NodeColumn.SPACE]:
        nodes[node, NodeColumn.START], nodes[node, NodeColumn.SPACE] = used[0], length
        used[0] += length
    nodes[node, NodeColumn.LENGTH] = length
    copy_bytes(arena, nodes[node, NodeColumn.START], buf, start, length)


@inlined
def find_entry(lists: OutIntTable, nodes: OutIntTable, d: int, index: int) -> int:
    """Return the node of an entry and touch it, or return NO_NODE if there is none."""
    if index >= lists[ListRow.SIZE, d]:
        return NO_NODE
    node = int(lists[ListRow.FIRST, d] + index)
    _touch(lists, nodes, d, node)
    return node


@inlined
def field_end(buf: Bytes, pos: int, end: int) -> int:
    """Return the position after the field at `pos`, INCOMPLETE, or OVERLONG if its length is malformed."""
    if end - pos < 2:
        return INCOMPLETE
    if buf[np.uint64(pos)] != LITERAL:
        return pos + 2
    length, after = read_varint(buf, pos + 1, end)
    if after < 0:
        return after
    if length < 0 or length > 0x7FFFFFFF:
        return OVERLONG
    return after + length if length <= end - after else INCOMPLETE


@inlined
def expand_field(
    lists: OutIntTable, nodes: OutIntTable, arena: OutBytes, used: OutInts, d: int, buf: Bytes, pos: int, end: int,
    out: OutBytes, at: int, most: int,
) -> tuple[int, int]:  # fmt: skip
    """Copy the bytes that the field at `pos` stands for, at most `most`, to `out[at:]`. Returns (position after it, length).

    The caller has checked that the field is whole (`field_end`), and that `out` and `arena` have room. The position is NO_ENTRY
    for an index without an entry. If the length is more than `most`, nothing was copied.
    """
    if buf[np.uint64(pos)] == LITERAL:
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
    length = nodes[node, NodeColumn.LENGTH]
    if length <= most:
        copy_bytes(out, at, arena, nodes[node, NodeColumn.START], length)
    return pos + 2, length


@inlined
def field_length(lists: IntTable, nodes: IntTable, d: int, buf: Bytes, pos: int, end: int) -> int:
    """Return how many bytes the whole field `buf[pos:end]` stands for, or NO_ENTRY for an index without an entry."""
    if buf[np.uint64(pos)] == LITERAL:
        length, _ = read_varint(buf, pos + 1, end)
        return length
    index = read_uint16(buf, pos)
    return nodes[lists[ListRow.FIRST, d] + index, NodeColumn.LENGTH] if index < lists[ListRow.SIZE, d] else NO_ENTRY
