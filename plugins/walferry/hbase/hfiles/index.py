"""Writes the index of an HFile's blocks, from the leaves up as HBase does.

    root block    = { int64 offset, int32 diskBytes, vint keyLen, key }* [ middle ]
    middle        = int64 offset, int32 diskBytes, int32 entry            of the leaf with the middle entry, if there are leaves
    other blocks  = int32 count, { int32 start }{count + 1}, { int64 offset, int32 diskBytes, key }{count}

Starts count from the end of all starts; the last start is the entries' length. `vint` is Hadoop's. A key sorts after all cells of
the previous block, and not after the first cell of its own block.

Entries are collected until they fill a leaf, which is written between the data blocks. In a small file without a full leaf, they
become the root. The entries of a too large root are written as blocks of an intermediate level, and the root refers to these.

Source: HBase's HFileBlockIndex.BlockIndexWriter, NoOpIndexBlockEncoder, WritableUtils (branch-2.6).
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from walferry.hbase.hfiles.blocks import BlockKind, BlockWriter, Placed

MAX_BLOCK_BYTES: Final = 128 << 10  # hfile.index.block.max.size
MIN_ENTRIES: Final = 16  # hfile.index.block.min.entries: a smaller block is not split, however long its keys are
MAX_LEVELS: Final = 16
PLACE = struct.Struct(">qi")
_MIDDLE = struct.Struct(">qii")
_EMPTY_LEAF_BYTES: Final = 8


@dataclass(frozen=True)
class IndexEntry:
    """A block, and its key in the index."""

    key: bytes
    block: Placed

    @property
    def place(self) -> bytes:
        """The encoded place of the block."""
        return PLACE.pack(self.block.offset, self.block.disk_bytes)


@dataclass(frozen=True)
class RootIndex:
    """The facts about the index that go into the trailer."""

    offset: int
    entries: int
    levels: int
    raw_bytes: int  # of all blocks of the index


class BlockIndex:
    """The index of the data blocks while a file is written."""

    def __init__(self) -> None:
        self._leaf: list[IndexEntry] = []
        self._leaf_bytes = _EMPTY_LEAF_BYTES
        self._root: list[IndexEntry] = []
        self._counts: list[int] = []  # the number of data blocks up to each leaf
        self._blocks = 0
        self._raw_bytes = 0

    def add(self, entry: IndexEntry) -> None:
        """Add a data block."""
        self._leaf.append(entry)
        self._leaf_bytes += 4 + PLACE.size + len(entry.key)
        self._blocks += 1

    def write_leaf(self, out: BlockWriter, *, closing: bool) -> Placed | None:
        """Write the leaf if it is full, or if the file ends and has other leaves."""
        if not self._leaf or (not self._root if closing else self._leaf_bytes < MAX_BLOCK_BYTES):
            return None
        placed = out.put(BlockKind.LEAF_INDEX, _encoded(self._leaf))
        self._raw_bytes += placed.raw_bytes
        self._root.append(IndexEntry(self._leaf[0].key, placed))
        self._counts.append(self._blocks)
        self._leaf, self._leaf_bytes = [], _EMPTY_LEAF_BYTES
        return placed

    def write_root(self, out: BlockWriter) -> RootIndex:
        """Write the intermediate levels and the root. All leaves have been written."""
        levels = 2 if self._root else 1
        middle = self._middle() if self._root else b""
        root = self._root or self._leaf
        while self._root and len(encode_root(root)) > MAX_BLOCK_BYTES and len(root) > MIN_ENTRIES and levels < MAX_LEVELS:
            root = self._write_level(root, out)
            levels += 1
        placed = out.put(BlockKind.ROOT_INDEX, encode_root(root) + middle)
        return RootIndex(placed.offset, len(root), levels, self._raw_bytes + placed.raw_bytes)

    def _middle(self) -> bytes:
        """Return the encoded place of the entry in the middle of all leaves."""
        entry = (self._counts[-1] - 1) // 2
        leaf = bisect_right(self._counts, entry)
        before = self._counts[leaf - 1] if leaf else 0
        return _MIDDLE.pack(self._root[leaf].block.offset, self._root[leaf].block.disk_bytes, entry - before)

    def _write_level(self, entries: Sequence[IndexEntry], out: BlockWriter) -> list[IndexEntry]:
        """Write entries as blocks of an intermediate level. Returns the entries of these blocks."""
        parents: list[IndexEntry] = []
        block: list[IndexEntry] = []
        size = 0
        for number, entry in enumerate(entries):
            block.append(entry)
            size += len(encode_root([entry]))
            if (number >= MIN_ENTRIES and size >= MAX_BLOCK_BYTES) or number == len(entries) - 1:
                placed = out.put(BlockKind.INTERMEDIATE_INDEX, _encoded(block))
                self._raw_bytes += placed.raw_bytes
                parents.append(IndexEntry(block[0].key, placed))
                block, size = [], 0
        return parents


def encode_root(entries: Sequence[IndexEntry]) -> bytes:
    """Encode entries as in a root block."""
    return b"".join(e.place + encode_vint(len(e.key)) + e.key for e in entries)


def _encoded(entries: Sequence[IndexEntry]) -> bytes:
    """Encode entries as in leaves and intermediate blocks."""
    parts = [e.place + e.key for e in entries]
    starts = accumulate(map(len, parts), initial=0)
    return struct.pack(f">i{len(parts) + 1}i", len(parts), *starts) + b"".join(parts)


def encode_vint(number: int) -> bytes:
    """Encode a non-negative number as Hadoop's VInt: itself up to 127, else 0x90 minus its length, and its bytes."""
    if number <= 127:
        return bytes([number])
    length = (number.bit_length() + 7) // 8
    return bytes([0x90 - length]) + number.to_bytes(length)
