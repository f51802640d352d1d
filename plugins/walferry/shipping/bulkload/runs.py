"""Sorts edits of WALs into runs: for each store of the peer cluster, a series of cells in the order of an HFile.

    run = { cell, int64 sequence id, int64 write time }*                                  see cells.py

A run is one row of Spark's shuffle: a few megabytes instead of thousands of rows of cells. Edits are gathered until their memory
is full. Then they are sorted store by store, and cut into runs of bounded size. A run may be cut after any cell.

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
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from walferry.base.kernels.compiled import inlined, unmanaged
from walferry.base.kernels.types import Bytes, Ints, OutBytes, OutInt32s, OutInts
from walferry.base.kernels.write import copy_bytes, put_int
from walferry.hbase.hfiles.cells import EDIT, SEQUENCE_ID, TAGS_LENGTH, WRITE_TIME
from walferry.hbase.hfiles.cells import cell_end as stored_end
from walferry.hbase.hfiles.errors import NoSuchStore
from walferry.hbase.hfiles.sorting import group_positions, sort_positions
from walferry.hbase.hfiles.stores import UNKNOWN, Store, Stores, TargetTable, find_family, find_region
from walferry.hbase.wal.cells import cell_end, family_of, row_of, tags_start
from walferry.hbase.wal.wal_batches import WalBatch
from walferry.replication.filters.entry_filter import KeptEdits, distinct_tables, table_name

MEMORY_BYTES = 64 << 20
RUN_BYTES = 4 << 20
_KV_LENGTH: Final = 4  # a cell of a WAL begins with its length, a cell of a run does not
_GROWTH: Final = TAGS_LENGTH + EDIT - _KV_LENGTH  # bytes that a cell grows by in a run, at most
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
    """Cells of one store, sorted."""

    store: Store
    cells: int
    data: Bytes


def sorted_runs(
    edits: Iterable[Edits], tables: Mapping[bytes, TargetTable], *, memory_bytes: int = MEMORY_BYTES, run_bytes: int = RUN_BYTES
) -> Iterator[SortedRun]:
    """Yield all of `edits` as runs of about `run_bytes` bytes, or of one cell.

    Holds at most about twice `memory_bytes`, or twice the size of a larger batch. Raises BadBorders, and NoSuchStore at the
    first edit that belongs into no store of `tables`.
    """
    stores = Stores(tables)
    pieces: list[_Piece] = []
    for some in edits:
        piece = _piece_of(some, stores)
        if pieces and sum(held.size for held in pieces) + piece.size > memory_bytes:
            yield from _sorted(pieces, stores, run_bytes)
        pieces.append(piece)
    yield from _sorted(pieces, stores, run_bytes)


@dataclass(frozen=True)
class _Piece:
    """Cells of a run in the order in which they came: their bytes, their positions in the bytes, and their stores."""

    data: Bytes
    positions: Ints
    stores: npt.NDArray[np.int32]

    @property
    def size(self) -> int:
        return len(self.data) + _INDEX_BYTES * len(self.positions)


class _State(enum.IntEnum):
    """The elements of the state in which `_take` stops."""

    CELLS = 0
    USED = 1
    ENTRY = 2  # of the cell that belongs into no store
    FAMILY = 3  # the cell's family; UNKNOWN if there is no such table
    FAMILY_LEN = 4


def _piece_of(edits: Edits, stores: Stores) -> _Piece:
    """Copy the cells of some edits. Raises NoSuchStore."""
    batch, kept, entries = edits.batch, edits.kept, edits.entries
    index, cells = batch.index, int(kept.cells[entries].sum())
    table_of, first_of = distinct_tables(batch)
    names = [table_name(batch, int(entry)) for entry in first_of]
    numbers = np.array([stores.number(name) for name in names], np.int64)
    data: Bytes = np.empty(int(kept.size[entries].sum()) + _GROWTH * cells, np.uint8)
    positions, store_of = np.empty(cells, np.int64), np.empty(cells, np.int32)
    state = np.zeros(len(_State), np.int64)
    if not _take(
        batch.buf, entries, index.sequence_id, index.write_time, numbers[table_of], kept.span_first, kept.span_start,
        kept.span_end, stores.arrays, data, positions, store_of, state,
    ):  # fmt: skip
        entry, family = int(state[_State.ENTRY]), int(state[_State.FAMILY])
        name = None if family == UNKNOWN else batch.buf[family : family + int(state[_State.FAMILY_LEN])].tobytes()
        raise NoSuchStore(edits.path, batch.entry_offset(entry), table_name(batch, entry), name)
    taken = int(state[_State.CELLS])
    return _Piece(data[: state[_State.USED]], positions[:taken], store_of[:taken])


def _sorted(pieces: list[_Piece], stores: Stores, run_bytes: int) -> Iterator[SortedRun]:
    """Yield the cells of all pieces as runs. Empties the list of pieces."""
    if not pieces:
        return
    begins = np.cumsum([0, *(len(piece.data) for piece in pieces)])
    positions = np.concatenate([piece.positions + begin for piece, begin in zip(pieces, begins, strict=False)])
    store_of = np.concatenate([piece.stores for piece in pieces])
    data = np.concatenate([piece.data for piece in pieces])
    pieces.clear()
    first, grouped = np.zeros(len(stores.list) + 1, np.int64), np.empty(len(positions), np.int64)
    group_positions(store_of, positions, len(positions), first, grouped)
    words, other_words = np.empty((2, len(positions)), np.uint64)
    for number in np.flatnonzero(np.diff(first)):
        start, end = int(first[number]), int(first[number + 1])
        sort_positions(data, grouped, start, end, words, positions, other_words)
        while start < end:
            cells, size = _measure(data, grouped, start, end, run_bytes)
            run: Bytes = np.empty(size, np.uint8)
            _gather(data, grouped, start, start + cells, run)
            yield SortedRun(stores.list[number], cells, run)
            start += cells


@inlined
def _end_in_run(data: Bytes, pos: int) -> int:
    """Return the position after the cell at `pos` of a run, including the edit's numbers behind it."""
    return stored_end(data, pos) + EDIT


@unmanaged
def _take(
    buf: Bytes, entries: Ints, sequence_id: Ints, write_time: Ints, table_of: Ints, span_first: Ints, span_start: Ints,
    span_end: Ints, stores: tuple[Ints, Ints, Ints, Ints, Bytes, Ints, Bytes], data: OutBytes, positions: OutInts,
    store_of: OutInt32s, state: OutInts,
) -> bool:  # fmt: skip
    """Copy the cells of `entries` to `data`. Returns False at a cell that belongs into no store."""
    first_region, first_family, first_store, starts, start_bytes, families, family_bytes = stores
    count, used = 0, 0
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
                region = find_region(buf, row, row_len, table, first_region, starts, start_bytes)
                store_of[count] = first_store[table] + region * (first_family[table + 1] - first_family[table]) + family
                positions[count] = used
                count += 1
                after = cell_end(buf, pos)
                used = copy_bytes(data, used, buf, pos + _KV_LENGTH, after - pos - _KV_LENGTH)
                if tags_start(buf, pos) == after:
                    used = put_int(data, used, 0, TAGS_LENGTH)
                used = put_int(data, used, sequence_id[entry], SEQUENCE_ID)
                used = put_int(data, used, write_time[entry], WRITE_TIME)
                pos = after
    state[_State.CELLS], state[_State.USED] = count, used
    return True


@unmanaged
def _measure(data: Bytes, positions: Ints, start: int, end: int, limit: int) -> tuple[int, int]:
    """Return how many of the cells at `positions[start:end]` make a run of `limit` bytes, at least one, and the run's size."""
    size = 0
    for i in range(start, end):
        length = _end_in_run(data, positions[i]) - positions[i]
        if size > 0 and size + length > limit:
            return i - start, size
        size += length
    return end - start, size


@unmanaged
def _gather(data: Bytes, positions: Ints, start: int, end: int, run: OutBytes) -> None:
    """Copy the cells at `positions[start:end]` to `run`."""
    at = 0
    for i in range(start, end):
        pos = positions[i]
        at = copy_bytes(run, at, data, pos, _end_in_run(data, pos) - pos)
