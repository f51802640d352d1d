"""Hashes a range's rows in buckets of rows.

A bucket ends with a row whose key has a hash of a certain form. So the two sides find the same borders by themselves, and a row
that only one side has moves no border but its own. A bucket's hash is the sum of its rows' hashes, so hashes of buckets add up.

A row's hash covers its key and its cells in their order, each with column, timestamp, type and value. Tags are left out:
VerifyReplication does not see them either, and a peer cluster may number visibility labels differently.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from walferry.base.kernels.compiled import inlined, unmanaged
from walferry.base.kernels.read import hash_bytes, mix, read_int32
from walferry.base.kernels.types import Bytes, Ints, OutInts
from walferry.hbase.tables.rows import Rows
from walferry.hbase.wal.cells import CELL_LENGTHS, row_of

ROWS_A_BUCKET: Final = 512  # on average
WHOLE_HASH: Final = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Bucket:
    """A bucket of one side. Its border is its last row; the last bucket's border is None, the range's end."""

    border: bytes | None
    hashed: int
    count: int
    inside: tuple[bytes, ...] = ()  # the borders within, if it is several buckets in one


@dataclass(frozen=True)
class Span:
    """The rows from `start` (None: the range's first) to before `stop` (None: to the range's end)."""

    start: bytes | None
    stop: bytes | None


class NeedsScan(Exception):
    """The range's files cannot be compared, for the reason in the message. A signal, not an error."""


@dataclass
class FilesCompared:
    """The number of rows that are equal in the files, and the spans of the others."""

    rows: int = 0
    spans: list[Span] = field(default_factory=list)

    def differ(self, start: bytes | None, stop: bytes | None) -> None:
        """Add a span, after all that were added before."""
        if self.spans and self.spans[-1].stop == start:
            start = self.spans.pop().start
        self.spans.append(Span(start, stop))


def digest(blocks: Iterable[Rows]) -> list[Bucket]:
    """Hash rows in buckets, in order."""
    found = list[Bucket]()
    state = np.zeros(2, dtype=np.int64)
    for block in blocks:
        row = 0
        while row < len(block):
            row, ended = add_rows(block.data, block.cells, block.rows, row, ROWS_A_BUCKET - 1, state)
            if ended:
                found.append(Bucket(block.key(row - 1), int(state[0]) & WHOLE_HASH, int(state[1])))
                state[:] = 0
    found.append(Bucket(None, int(state[0]) & WHOLE_HASH, int(state[1])))
    return found


def row_hashes(block: Rows) -> Ints:
    """Return the hash of each row."""
    out = np.empty(len(block), dtype=np.int64)
    hash_rows(block.data, block.cells, block.rows, out)
    return out


def differing(one: Sequence[Bucket], other: Sequence[Bucket], buckets_a_span: int, within: Span) -> tuple[int, list[Span]]:
    """Count the rows in equal buckets, and list spans of the others. A span has at most `buckets_a_span` buckets of a side.

    The buckets are those of the rows `within` a span.
    """
    equal, spans = 0, list[Span]()
    common = {bucket.border for bucket in one} & {bucket.border for bucket in other}
    start = within.start
    length = 0  # buckets of the last span
    for mine, theirs in zip(_merged(one, common), _merged(other, common), strict=True):
        if (mine.hashed, mine.count) == (theirs.hashed, theirs.count):
            equal += mine.count
            length = 0
        else:
            for border in (*sorted({*mine.inside, *theirs.inside}), mine.border):
                stop = within.stop if border is None else border + b"\0"
                if 0 < length < buckets_a_span:
                    spans[-1] = Span(spans[-1].start, stop)
                    length += 1
                else:
                    spans.append(Span(start, stop))
                    length = 1
                start = stop
        start = within.stop if mine.border is None else mine.border + b"\0"
    return equal, spans


def _merged(side: Sequence[Bucket], common: set[bytes | None]) -> list[Bucket]:
    """Return the buckets up to each border that both sides have as one bucket."""
    merged, hashed, count, inside = [], 0, 0, list[bytes]()
    for bucket in side:
        hashed, count = hashed + bucket.hashed & WHOLE_HASH, count + bucket.count
        if bucket.border is None or bucket.border in common:
            merged.append(Bucket(bucket.border, hashed, count, tuple(inside)))
            hashed, count, inside = 0, 0, []
        else:
            inside.append(bucket.border)
    return merged


@inlined
def _row_hash(data: Bytes, cells: Ints, first: int, end: int) -> int:
    value = np.uint64(end - first)
    for i in range(first, end):
        cell = cells[i]
        key, key_length, value_length = cell + CELL_LENGTHS, read_int32(data, cell + 4), read_int32(data, cell + 8)
        value = mix(value, np.uint64(hash_bytes(data, key, key_length)))
        value = mix(value, np.uint64(hash_bytes(data, key + key_length, value_length)))
    return int(np.int64(value))


@unmanaged
def hash_rows(data: Bytes, cells: Ints, rows: Ints, out: OutInts) -> None:
    """Write the hash of each row to `out`."""
    for i in range(len(rows) - 1):
        out[i] = _row_hash(data, cells, rows[i], rows[i + 1])


@unmanaged
def add_rows(data: Bytes, cells: Ints, rows: Ints, row: int, mask: int, state: OutInts) -> tuple[int, bool]:
    """Add rows to the bucket in `state` (hash, count) until it ends. Returns the next row, and whether the bucket has ended."""
    while row < len(rows) - 1:
        state[0] += _row_hash(data, cells, rows[row], rows[row + 1])
        state[1] += 1
        start, length = row_of(data, cells[rows[row]])
        row += 1
        if hash_bytes(data, start, length) & mask == 0:
            return row, True
    return row, False
