"""Sorts edits of WALs into runs: for each store of the peer cluster, a series of cells in the order of an HFile.

    run = { cell, int64 sequence id, int64 write time }*                                  see cells.py

Edits are gathered until their memory is full. Then they are sorted store by store.

**Which of two cells with one key counts.** A memstore gives each edit a growing number (mvcc), and shows the cell with the larger
one. In a bulk-loaded file all cells have the load's one number instead, and of cells with one key the first one in the file is
shown (KeyValueHeap asks each file for its first cell, ScanQueryMatcher skips cells with the same timestamp and type). So the
writer of the file has to order equal keys, by a number that grows too: the sequence id that the source's region gave to the edit.
It grows over all WALs, servers and queues that a region's edits went through, also when regions move, split and merge. The order
of the WALs says nothing across queues. Within an entry the later cell counts. The sequence id starts over when a table is
dropped, truncated or restored: the edit's write time shows that, see merge.py. Of two loads of one store the later one counts,
because its number is larger; two files of one load share their number.

Delete markers need no order: without NEW_VERSION_BEHAVIOR they hide the cells that they name, however late these were written.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from walferry.base.kernels.compiled import unmanaged
from walferry.base.kernels.types import Bytes, Flags, Ints, OutBytes, OutInt32s, OutInts
from walferry.base.kernels.write import copy_bytes, put_int
from walferry.hbase.hfiles.cells import EDIT, SEQUENCE_ID, TAGS_LENGTH, WRITE_TIME
from walferry.hbase.hfiles.cells import cell_end as stored_end
from walferry.hbase.hfiles.errors import NoSuchStore
from walferry.hbase.hfiles.sorting import group_positions, sort_positions
from walferry.hbase.hfiles.stores import UNKNOWN, Stores, find_family, find_region
from walferry.hbase.wal.cells import cell_end, family_of, row_of, tags_start
from walferry.hbase.wal.wal_batches import WalBatch
from walferry.replication.filters.entry_filter import KeptEdits, table_name

MEMORY_BYTES = 16 << 20  # more of them would be sorted beyond the processor's caches
_KV_LENGTH: Final = 4  # a cell of a WAL begins with its length, a cell of a run does not
_INDEX_BYTES: Final = 48  # memory that sorting takes per cell


@dataclass(frozen=True)
class Edits:
    """The cells of a WAL batch's `entries` (indices, ascending) that the filters kept. `path` is the file's, for errors."""

    batch: WalBatch
    kept: KeptEdits
    entries: Ints
    path: str


@dataclass(frozen=True)
class SortedRun:
    """Cells of the store with this number, sorted."""

    store: int
    cells: int
    data: Bytes


@dataclass(frozen=True)
class PlacedCells:
    """Cells of a WAL batch, by their starts in its buffer, their entries, and the numbers of their stores.

    `size` is their size in a run, in bytes.
    """

    starts: Ints
    entries: Ints
    stores: npt.NDArray[np.int32]
    size: int


class _State(enum.IntEnum):
    """The elements of the state in which `_place` stops."""

    CELLS = 0
    SIZE = 1
    ENTRY = 2  # of the cell that belongs into no store
    FAMILY = 3  # the cell's family; UNKNOWN if there is no such table
    FAMILY_LEN = 4


def placed(edits: Edits, stores: Stores, wanted: Flags) -> PlacedCells:
    """Find the store of each cell, and return the cells of `wanted` stores (a flag for each number).

    Raises NoSuchStore at the first cell that belongs into none of `stores`.
    """
    batch, kept, entries = edits.batch, edits.kept, edits.entries
    cells = int(kept.cells[entries].sum())
    names = [table_name(batch, int(entry)) for entry in kept.first_of]
    numbers = np.array([stores.number(name) for name in names], np.int64)
    starts, entry_of, store_of = np.empty(cells, np.int64), np.empty(cells, np.int64), np.empty(cells, np.int32)
    state = np.zeros(len(_State), np.int64)
    if not _place(
        batch.buf, entries, numbers[kept.table_of], kept.span_first, kept.span_start, kept.span_end, stores.arrays, wanted,
        starts, entry_of, store_of, state,
    ):  # fmt: skip
        entry, family = int(state[_State.ENTRY]), int(state[_State.FAMILY])
        name = None if family == UNKNOWN else batch.buf[family : family + int(state[_State.FAMILY_LEN])].tobytes()
        raise NoSuchStore(edits.path, batch.entry_offset(entry), table_name(batch, entry), name)
    taken = int(state[_State.CELLS])
    return PlacedCells(starts[:taken], entry_of[:taken], store_of[:taken], int(state[_State.SIZE]))


def sorted_runs(
    edits: Iterable[Edits], stores: Stores, wanted: Flags, *, memory_bytes: int = MEMORY_BYTES
) -> Iterator[list[SortedRun]]:
    """Yield the edits of `wanted` stores (a flag for each number) as runs: one for each store, whenever the memory is full.

    Holds at most about twice `memory_bytes`, or twice the size of a larger batch. Raises NoSuchStore.
    """
    pieces: list[_Piece] = []
    for some in edits:
        piece = _piece_of(some, placed(some, stores, wanted))
        if pieces and sum(held.size for held in pieces) + piece.size > memory_bytes:
            yield _sorted(pieces, len(stores.list))
        if len(piece.positions):
            pieces.append(piece)
    if pieces:
        yield _sorted(pieces, len(stores.list))


@dataclass(frozen=True)
class _Piece:
    """Cells of a run in the order in which they came: their bytes, their positions in the bytes, and their stores."""

    data: Bytes
    positions: Ints
    stores: npt.NDArray[np.int32]

    @property
    def size(self) -> int:
        return len(self.data) + _INDEX_BYTES * len(self.positions)


def _piece_of(edits: Edits, cells: PlacedCells) -> _Piece:
    """Copy cells of some edits."""
    data: Bytes = np.empty(cells.size, np.uint8)
    positions = np.empty(len(cells.starts), np.int64)
    index = edits.batch.index
    _copy(edits.batch.buf, cells.starts, cells.entries, index.sequence_id, index.write_time, data, positions)
    return _Piece(data, positions, cells.stores)


def _sorted(pieces: list[_Piece], stores: int) -> list[SortedRun]:
    """Return the cells of all pieces as runs, one for each store. Empties the list of pieces."""
    begins = np.cumsum([0, *(len(piece.data) for piece in pieces)])
    positions = np.concatenate([piece.positions + begin for piece, begin in zip(pieces, begins, strict=False)])
    store_of = np.concatenate([piece.stores for piece in pieces])
    data = np.concatenate([piece.data for piece in pieces])
    pieces.clear()
    first, grouped = np.zeros(stores + 1, np.int64), np.empty(len(positions), np.int64)
    group_positions(store_of, positions, len(positions), first, grouped)
    words, other_words = np.empty((2, len(positions)), np.uint64)
    gathered, used, runs = np.empty_like(data), 0, []
    for number in np.flatnonzero(np.diff(first)):
        start, end = int(first[number]), int(first[number + 1])
        sort_positions(data, grouped, start, end, words, positions, other_words)
        after = _gather(data, grouped, start, end, gathered, used)
        runs.append(SortedRun(int(number), end - start, gathered[used:after]))
        used = after
    return runs


@unmanaged
def _place(
    buf: Bytes, entries: Ints, table_of: Ints, span_first: Ints, span_start: Ints, span_end: Ints,
    stores: tuple[Ints, Ints, Ints, Ints, Bytes, Ints, Bytes], wanted: Flags, starts: OutInts, entry_of: OutInts,
    store_of: OutInt32s, state: OutInts,
) -> bool:  # fmt: skip
    """Find the stores of the cells of `entries`, and note the wanted ones. Returns False at a cell that belongs into no store."""
    first_region, first_family, first_store, region_starts, start_bytes, families, family_bytes = stores
    count, size = 0, 0
    for entry in entries:
        table = table_of[entry]
        state[_State.ENTRY] = entry
        for span in range(span_first[entry], span_first[entry + 1]):
            pos = span_start[span]
            while pos < span_end[span]:
                name, name_len = family_of(buf, pos)
                state[_State.FAMILY], state[_State.FAMILY_LEN] = UNKNOWN if table == UNKNOWN else name, name_len
                if table == UNKNOWN:
                    return False
                family = find_family(buf, name, name_len, table, first_family, families, family_bytes)
                if family == UNKNOWN:
                    return False
                row, row_len = row_of(buf, pos)
                region = find_region(buf, row, row_len, table, first_region, region_starts, start_bytes)
                store = first_store[table] + region * (first_family[table + 1] - first_family[table]) + family
                after = cell_end(buf, pos)
                if wanted[store]:
                    starts[count], entry_of[count], store_of[count] = pos, entry, store
                    count += 1
                    size += after - pos - _KV_LENGTH + EDIT + (TAGS_LENGTH if tags_start(buf, pos) == after else 0)
                pos = after
    state[_State.CELLS], state[_State.SIZE] = count, size
    return True


@unmanaged
def _copy(
    buf: Bytes, starts: Ints, entry_of: Ints, sequence_id: Ints, write_time: Ints, data: OutBytes, positions: OutInts
) -> None:
    """Copy cells to `data`, each with the numbers of its edit, and note their positions."""
    used = 0
    for i in range(starts.size):
        pos, entry = starts[i], entry_of[i]
        positions[i] = used
        after = cell_end(buf, pos)
        used = copy_bytes(data, used, buf, pos + _KV_LENGTH, after - pos - _KV_LENGTH)
        if tags_start(buf, pos) == after:
            used = put_int(data, used, 0, TAGS_LENGTH)
        used = put_int(data, used, sequence_id[entry], SEQUENCE_ID)
        used = put_int(data, used, write_time[entry], WRITE_TIME)


@unmanaged
def _gather(data: Bytes, positions: Ints, start: int, end: int, gathered: OutBytes, at: int) -> int:
    """Copy the cells at `positions[start:end]`, with the numbers of their edits, to `gathered[at:]`. Returns the end."""
    for i in range(start, end):
        pos = positions[i]
        at = copy_bytes(gathered, at, data, pos, stored_end(data, pos) + EDIT - pos)
    return at
