"""Writes an HFile (version 3) of one store like HBase's StoreFileWriter.

    file = { data block | leaf of the index | chunk of a bloom filter }*
           { intermediate block of the index }*, root of the index, root of an index without entries, file information
           [ metadata of the bloom filter ], [ metadata of the filter of deleted families ], trailer

Full leaves and chunks follow the data block with which they became full. The rest of them follow the last data block.

Source: HBase's HFileWriterImpl, StoreFileWriter (branch-2.6).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from walferry.base.kernels.types import Bytes, Ints
from walferry.hbase.hfiles.blocks import HEADER_BYTES, BlockKind, BlockWriter, Placed, compressor
from walferry.hbase.hfiles.bloom import COLUMN_KEY_BYTES, Bloom, BloomWriter
from walferry.hbase.hfiles.encodings import MOST_ADDED, Encoding, block_head, block_tail
from walferry.hbase.hfiles.ends import EndWriter, FileEnd
from walferry.hbase.hfiles.errors import BadCells
from walferry.hbase.hfiles.filling import LAST, LATEST, NONE, Fill, FillStop, Layout, fill_block
from walferry.hbase.hfiles.index import BlockIndex, IndexEntry
from walferry.hbase.hfiles.keys import Key, key_between
from walferry.hbase.hfiles.metadata import Contents, Origin, file_information, filter_key, trailer
from walferry.hbase.hfiles.settings import FileSettings
from walferry.hbase.wal.scan import read_only

_PROBLEMS = {
    FillStop.NOT_A_CELL: "its lengths contradict each other",
    FillStop.NOT_SORTED: "it sorts before the one that precedes it",
    FillStop.OTHER_FAMILY: "it has another family than the one that precedes it",
}


@dataclass(frozen=True)
class WrittenFile:
    """A file that was written. `end` begins with the file information."""

    end: FileEnd
    cells: int


def write_file(
    write: Callable[[memoryview], object], cells: Iterable[Bytes], settings: FileSettings, origin: Origin
) -> WrittenFile | None:
    """Write a file of `cells`: buffers of whole cells, all in order. Without any cell, write nothing and return None.

    `write` takes the file's bytes one after the other, and must not keep the buffers that it gets. Raises BadCells, and the
    errors of `cells` and `write`; the written bytes are not a file then.
    """
    file = _File(write, settings, origin)
    for chunk in cells:
        file.append(chunk)
    return file.finished()


class _File:
    """A file that is being written."""

    def __init__(self, write: Callable[[memoryview], object], settings: FileSettings, origin: Origin) -> None:
        self._settings = settings
        self._origin = origin
        self._written = EndWriter(write)
        self._out = BlockWriter(self._written, compressor(settings.compression), settings.checksum)
        self._index = BlockIndex()
        self._bloom = BloomWriter(settings.bloom)
        self._deletes = BloomWriter(Bloom.ROW)
        self._layout = self._numbers()
        self._head = HEADER_BYTES + len(block_head(settings.encoding, 0))
        self._block: Bytes = np.zeros(self._head + 2 * settings.block_bytes + MOST_ADDED, np.uint8)
        self._state: Ints = np.zeros(len(Fill), np.int64)
        self._state[[Fill.OUT, Fill.BEFORE, Fill.LARGEST_AT]] = self._head, NONE, NONE
        self._state[[Fill.MIN_TIME, Fill.MAX_TIME, Fill.FIRST_PUT]] = LATEST, -1, LATEST
        self._last: Bytes = np.empty(0, np.uint8)  # the last cell of the previous chunk
        self._first_of_file: Key | None = None
        self._first_of_block: Key | None = None
        self._last_of_block: Key | None = None  # of the previous block
        self._largest = Key(b"")
        self._data: list[int] = []  # offsets of the first and the last data block
        self._raw_bytes = 0

    def _numbers(self) -> Layout:
        settings, bloom, deletes = self._settings, self._bloom, self._deletes
        # A filter of columns also contains the rows of deleted families.
        max_deletes = 0 if settings.bloom is Bloom.ROWCOL else deletes.max_keys
        return (
            settings.block_bytes, int(settings.encoding), int(settings.bloom), settings.prefix_len, bloom.hashes, bloom.max_keys,
            deletes.hashes, max_deletes,
        )  # fmt: skip

    def append(self, cells: Bytes) -> None:
        """Write more cells."""
        chunk, state = read_only(cells), self._state
        is_column = self._settings.bloom is Bloom.ROWCOL
        scratch: Bytes = np.empty(len(chunk) + COLUMN_KEY_BYTES if is_column else 0, np.uint8)
        state[Fill.POS] = 0
        stop = FillStop.BLOCK_FULL
        while stop is not FillStop.CHUNK_ENDS:
            if state[Fill.RAW] == 0 and state[Fill.POS] < len(chunk):
                self._first_of_block = Key.at(chunk, int(state[Fill.POS]))
            stop = FillStop(
                fill_block(
                    chunk, read_only(self._last), self._layout, self._bloom.bits, self._deletes.bits, scratch, self._block, state
                )
            )
            self._see_to(stop, chunk)
        self._keep(chunk)

    def _see_to(self, stop: FillStop, chunk: Bytes) -> None:
        """Make room for the cell at which the kernel has stopped."""
        state = self._state
        match stop:
            case FillStop.BLOCK_FULL:
                before = int(state[Fill.BEFORE])
                self._end_block(Key.at(self._last, 0) if before == LAST else Key.at(chunk, before))
                self._write_between(closing=False)
            case FillStop.NO_ROOM:
                wider: Bytes = np.zeros(2 * len(self._block), np.uint8)
                wider[: len(self._block)] = self._block
                self._block = wider
            case FillStop.FILTER_FULL:
                self._bloom.end_chunk(int(state[Fill.KEYS]))
                self._bloom.begin_chunk(filter_key(self._settings, Key.at(chunk, int(state[Fill.POS]))))
                state[Fill.KEYS] = 0
            case FillStop.DELETES_FULL:
                self._deletes.end_chunk(int(state[Fill.DELETED_KEYS]))
                self._deletes.begin_chunk(Key.at(chunk, int(state[Fill.POS])).row)
                state[Fill.DELETED_KEYS] = 0
            case FillStop.NOT_A_CELL | FillStop.NOT_SORTED | FillStop.OTHER_FAMILY:
                raise BadCells(int(state[Fill.CELLS]), _PROBLEMS[stop])

    def _keep(self, chunk: Bytes) -> None:
        """Keep the cells of an ended chunk that are still needed."""
        state = self._state
        if (largest := int(state[Fill.LARGEST_AT])) != NONE:
            self._largest, state[Fill.LARGEST_AT] = Key.at(chunk, largest), NONE
        if (before := int(state[Fill.BEFORE])) >= 0:
            self._last, state[Fill.BEFORE] = chunk[before:].copy(), LAST

    def _end_block(self, last: Key) -> None:
        """Write the current data block, whose last cell has the key `last`."""
        state, encoding = self._state, self._settings.encoding
        assert self._first_of_block is not None
        block = self._block[: state[Fill.OUT]]
        block[HEADER_BYTES : self._head] = np.frombuffer(block_head(encoding, int(state[Fill.RAW])), np.uint8)
        if tail := block_tail(encoding, block[self._head :]):
            block = np.concatenate([block, np.frombuffer(tail, np.uint8)])
        kind = BlockKind.DATA if encoding is Encoding.NONE else BlockKind.ENCODED_DATA
        placed = self._out.put_framed(kind, block)
        self._index.add(IndexEntry(key_between(self._last_of_block, self._first_of_block), placed))
        self._count(placed)
        self._data = [*self._data[:1], placed.offset]
        self._first_of_file = self._first_of_file or self._first_of_block
        self._last_of_block = last
        state[[Fill.OUT, Fill.RAW, Fill.ENCODED]] = self._head, 0, 0

    def _write_between(self, *, closing: bool) -> None:
        """Write the full leaf and the full chunks, or all of them if the file ends."""
        state = self._state
        if (placed := self._index.write_leaf(self._out, closing=closing)) is not None:
            self._count(placed)
        for bloom, keys in ((self._bloom, Fill.KEYS), (self._deletes, Fill.DELETED_KEYS)):
            if closing or state[keys] == bloom.max_keys:
                bloom.end_chunk(int(state[keys]))
            while (placed := bloom.write_chunk(self._out)) is not None:
                self._count(placed)

    def finished(self) -> WrittenFile | None:
        """Write the rest of the file."""
        if self._state[Fill.CELLS] == 0:
            return None
        last = Key.at(self._last, 0)
        self._end_block(last)
        self._write_between(closing=True)
        index = self._index.write_root(self._out)
        self._count(self._out.put(BlockKind.ROOT_INDEX, b""))
        assert self._first_of_file is not None
        contents = Contents(self._first_of_file, last, self._largest, self._state)
        self._written.begin()
        information = self._out.put(BlockKind.FILE_INFO, file_information(self._settings, self._origin, contents))
        self._count(information)
        for bloom, kind in ((self._bloom, BlockKind.GENERAL_BLOOM_META), (self._deletes, BlockKind.DELETE_FAMILY_BLOOM_META)):
            if bloom.keys:
                self._count(self._out.put(kind, bloom.meta()))
        end = trailer(self._settings, contents.cells, index, information.offset, self._data, self._raw_bytes)
        self._out.put_bytes(memoryview(end))
        return WrittenFile(self._written.end(), contents.cells)

    def _count(self, placed: Placed) -> None:
        self._raw_bytes += HEADER_BYTES + placed.raw_bytes
