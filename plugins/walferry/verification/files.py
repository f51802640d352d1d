"""Compares the store files of one range at the source and at the peer cluster, which no RegionServer has to read.

The files of both sides are read side by side, a piece of each at a time, up to a row that all pieces reach. The cells before
that row are equal if both sides have the same ones: the sums of their hashes are equal. That asks for more than a scan does: a
side that has compacted versions or deletions away differs here, though a scan may show the same rows. So rows that are not equal
here are left to scans, and only these.

Equal cells mean equal rows, unless two cells have one key: then the order of writing counts, which is not compared. So pieces
with two cells of one key are left to scans, too.

A hash covers what a digest of scanned rows covers (digests.py), so tags are left out. They may limit how long a cell lives, so
files with tags are not compared here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

import numpy as np

from walferry.base.errors import WalferryError
from walferry.base.kernels.compiled import inlined, unmanaged
from walferry.base.kernels.read import compare_bytes, hash_bytes, mix, same_bytes
from walferry.base.kernels.types import Bytes, Ints, OutInts
from walferry.hbase.files.systems import READ_PATIENCE_SECONDS
from walferry.hbase.hfiles.cells import LENGTHS, key_len_of, row_of, timestamp_of, type_of, value_len_of, value_start
from walferry.hbase.hfiles.decoding import Cells, Follows, cells_of, joined
from walferry.hbase.hfiles.errors import UnreadableHFile
from walferry.hbase.hfiles.opened import HFile, open_hfile
from walferry.hbase.tables.snapshots import SnapshotRegion, open_store_file
from walferry.hbase.wal.cells import CellType
from walferry.verification.digests import WHOLE_HASH, FilesCompared, NeedsScan
from walferry.verification.job import Options, RangeFiles, SideFiles

PIECE_BYTES: Final = 2 << 20  # of a file, at a time
MOST_BYTES: Final = 32 << 20  # of the pieces of all files; each is in memory about four times, while it is read and decoded
MOST_HELD: Final = 128 << 20  # of all pieces, if some files have large blocks or rows
MOST_OPEN: Final = 500  # files of one side of a range
MAX_ROW_BYTES: Final = 64 << 20
NOT_SORTED: Final = "its cells are not sorted"
READ_AT_ONCE: Final = 4  # files
_EARLIEST: Final = -(1 << 63)
_LATEST: Final = (1 << 63) - 1


class FileCells:
    """The cells of one file from the row `start` to before `stop` (empty: no limit), a piece at a time."""

    def __init__(self, file: HFile, start: bytes, stop: bytes, piece_bytes: int = PIECE_BYTES) -> None:
        self._file, self._start, self._stop, self._piece_bytes = file, start, stop, piece_bytes
        self._follows = Follows(file.has_tags, file.has_sequence_ids)
        self._blocks = file.data_blocks(start, piece_bytes)
        self.cells = joined([])
        self.at = 0  # the first cell that is not compared yet
        self.ended = False  # all of the file is in `cells`
        self._read = 0  # cells

    @property
    def last_row(self) -> bytes:
        """The row of the last cell that was read."""
        return self.cells.row(len(self.cells) - 1)

    def read_on(self) -> None:
        """Read another piece, so that there is a later row, or the end. Raises NeedsScan, UnreadableHFile, StoreError."""
        before = self.last_row if self.at < len(self.cells) else None
        while not self.ended:
            self._add_piece()
            if len(self.cells.data) > MAX_ROW_BYTES:
                raise NeedsScan(f"a row in {self._file.url} has more than {MAX_ROW_BYTES:,} bytes")
            if self.at < len(self.cells) and self.last_row != before:
                return

    def _add_piece(self) -> None:
        parts, size = list[Cells](), 0
        try:
            for block in self._blocks:
                parts.append(cells_of(block, self._follows))
                size += len(parts[-1].data)
                if size >= self._piece_bytes:
                    break
            else:
                self.ended = True
        except ValueError as error:
            raise self._unreadable(str(error)) from error
        self._read += sum(map(len, parts))
        if self.ended and not self._start and not self._stop and self._read != self._file.cells:
            raise self._unreadable(f"it has {self._read:,} cells, and not {self._file.cells:,}")
        self._append(parts)

    def _unreadable(self, why: str) -> UnreadableHFile:
        return UnreadableHFile(f"{self._file.url} cannot be read: {why}")

    def _append(self, parts: Sequence[Cells]) -> None:
        """Append cells to those that are left, without those outside of the rows. Raises UnreadableHFile."""
        first_row = next((part.row(0) for part in parts if len(part)), None)
        left = self.cells.since(self.at)
        if len(left) and first_row is not None and first_row < self.last_row:
            raise self._unreadable(NOT_SORTED)
        cells, self.at = joined([left, *parts]), 0
        if self._stop and (end := self.first_from(cells, len(left), self._stop)) < len(cells):
            cells, self.ended = Cells(cells.data, cells.starts[:end]), True
        if self._start and not len(left):
            cells = Cells(cells.data, cells.starts[self.first_from(cells, 0, self._start) :])
        self.cells = cells

    @staticmethod
    def first_from(cells: Cells, at: int, row: bytes) -> int:
        """Return the index of the first cell from `at` on whose row is not before `row`."""
        return first_from(cells.data, cells.starts, at, np.frombuffer(row, np.uint8))

    def add_until(self, border: bytes | None, times: tuple[int, int], state: Ints, keys: Ints, rows: Ints) -> None:
        """Add the cells before the row `border` (None: all) to a side's sums. Raises UnreadableHFile."""
        end = len(self.cells) if border is None else self.first_from(self.cells, self.at, border)
        if not add_cells(self.cells.data, self.cells.starts, self.at, end, times[0], times[1], keys, rows, state):
            raise self._unreadable(NOT_SORTED)
        self.at = end


def compare_files(files: RangeFiles, start: bytes, stop: bytes, options: Options) -> FilesCompared:
    """Compare the files of a range. Raises NeedsScan."""
    try:
        with ExitStack() as stack:
            piece_bytes = min(PIECE_BYTES, MOST_BYTES // max(1, sum(map(_count, files.sides))))
            source, peer_cluster = (_opened(stack, side, start, stop, piece_bytes) for side in files.sides)
            return compare_cells(source, peer_cluster, options)
    except (WalferryError, OSError, MemoryError) as error:
        raise NeedsScan(str(error) or "there is not enough memory for its files") from error


def compare_cells(source: Sequence[FileCells], peer_cluster: Sequence[FileCells], options: Options) -> FilesCompared:
    """Compare the cells of files. Raises NeedsScan, UnreadableHFile, StoreError."""
    with ThreadPoolExecutor(READ_AT_ONCE, "read-files") as pool:
        return _Comparison((source, peer_cluster), options, pool).run()


def _count(side: SideFiles) -> int:
    """Return the number of a side's files. Raises NeedsScan."""
    if (count := sum(len(region.files) for region in side.regions)) > MOST_OPEN:
        raise NeedsScan(f"it has {count} files in {side.root}, more than {MOST_OPEN}")
    return count


def _opened(stack: ExitStack, side: SideFiles, start: bytes, stop: bytes, piece_bytes: int) -> list[FileCells]:
    """Open a side's files. Raises NeedsScan, WalferryError."""
    return [
        FileCells(file, max(start, region.start), _earlier(stop, region.end), piece_bytes)
        for region in side.regions
        for file in _files_of(stack, side.root, region)
        if file.cells
    ]


def _earlier(one: bytes, other: bytes) -> bytes:
    return min(one, other) if one and other else one or other


def _files_of(stack: ExitStack, root: str, region: SnapshotRegion) -> Iterator[HFile]:
    for each in region.files:
        if each.reference:
            raise NeedsScan(f"{region}: {each} is half of a file, after a split or a merge")
        url, opened = open_store_file(root, region, each, patience=READ_PATIENCE_SECONDS)
        file = open_hfile(stack.enter_context(opened), url)
        if file.some_tags:
            raise NeedsScan(f"{url} has cells with tags")
        yield file


@dataclass
class _Comparison:
    """A comparison of open files: those of the source, and those of the peer cluster."""

    sides: Sequence[Sequence[FileCells]]
    options: Options
    pool: ThreadPoolExecutor

    def run(self) -> FilesCompared:
        found, after = FilesCompared(), None
        self._read_on(None)
        while True:
            border = min((file.last_row for file in self._files if not file.ended), default=None)
            rows = self._equal_rows(border)
            if rows is None:
                found.differ(after, border)
            else:
                found.rows += rows
            if border is None:
                return found
            after = border
            self._read_on(border)

    @property
    def _files(self) -> list[FileCells]:
        return [file for side in self.sides for file in side]

    def _read_on(self, row: bytes | None) -> None:
        """Read on where `row` is the last one that was read; None: everywhere."""
        reached = [file for file in self._files if row is None or (not file.ended and file.last_row == row)]
        list(self.pool.map(FileCells.read_on, reached))
        if (held := sum(len(file.cells.data) for file in self._files)) > MOST_HELD:
            raise NeedsScan(f"its files' blocks take {held:,} bytes at once, more than {MOST_HELD:,}")

    def _equal_rows(self, border: bytes | None) -> int | None:
        """Compare the cells before a row. Returns the number of rows; None if they are to be scanned."""
        ours, keys, rows = self._sum(self.sides[0], border, noted=True)
        theirs, _, _ = self._sum(self.sides[1], border, noted=False)
        if ours != theirs or _distinct(keys) < len(keys):
            return None
        return _distinct(rows)

    def _sum(self, side: Sequence[FileCells], border: bytes | None, *, noted: bool) -> tuple[tuple[int, int], Ints, Ints]:
        """Return the hash and the number of a side's cells, and, if they are to be `noted`, hashes of keys and of rows."""
        size = sum(len(file.cells) - file.at for file in side) if noted else 0
        keys, rows = np.empty(size, np.int64), np.empty(size, np.int64)
        state = np.zeros(4, np.int64)
        earliest, before = self.options.start_time, self.options.end_time
        if earliest is None:
            earliest = _EARLIEST if before is None else 0  # a scan of a range of times returns no time before 1970
        times = earliest, _LATEST if before is None else before
        for file in side:
            file.add_until(border, times, state, keys, rows)
        hashed, count, noted_keys, noted_rows = state.tolist()
        return (hashed & WHOLE_HASH, count), keys[:noted_keys], rows[:noted_rows]


def _distinct(values: OutInts) -> int:
    """Return how many different values there are. Sorts them, which takes a fifth of the time of `numpy.unique`."""
    values.sort()
    return int(np.count_nonzero(values[1:] != values[:-1])) + min(1, len(values))


@unmanaged
def first_from(data: Bytes, starts: Ints, at: int, row: Bytes) -> int:
    """Return the index of the first cell from `at` on whose row is not before `row`."""
    low, high = at, len(starts)
    while low < high:
        middle = (low + high) // 2
        start, length = row_of(data, starts[middle])
        if compare_bytes(data, start, length, row, 0, row.size) < 0:
            low = middle + 1
        else:
            high = middle
    return low


@unmanaged
def add_cells(
    data: Bytes, starts: Ints, first: int, end: int, earliest: int, before_time: int, keys: OutInts, rows: OutInts, state: OutInts
) -> bool:
    """Add the cells from `first` to before `end` to `state`: hash, number, noted keys, noted rows.

    Only cells with timestamps from `earliest` to before `before_time` count, and later deletes: these hide such cells from scans
    of those times (ScanQueryMatcher). If `keys` has room, the hashes of the cells' keys are noted there, and those of the rows
    with a put in `rows`. Returns False if the rows are not in order.
    """
    noted = -1  # the cell of the last noted row
    for i in range(first, end):
        pos = starts[i]
        row, row_len = row_of(data, pos)
        if i > 0:
            other, other_len = row_of(data, starts[i - 1])
            if compare_bytes(data, row, row_len, data, other, other_len) < 0:
                return False
        time, is_put = timestamp_of(data, pos), type_of(data, pos) == CellType.PUT
        if time < earliest or (time >= before_time and before_time != _LATEST and is_put):
            continue
        key, key_len = pos + LENGTHS, key_len_of(data, pos)
        hashed = np.uint64(hash_bytes(data, key, key_len))
        if keys.size:
            keys[state[2]] = np.int64(hashed)
            state[2] += 1
            if is_put and (noted < 0 or not _same_row(data, row, row_len, starts[noted])):
                rows[state[3]] = hash_bytes(data, row, row_len)
                state[3] += 1
                noted = i
        state[0] += np.int64(mix(hashed, np.uint64(hash_bytes(data, value_start(data, pos), value_len_of(data, pos)))))
        state[1] += 1
    return True


@inlined
def _same_row(data: Bytes, row: int, row_len: int, pos: int) -> bool:
    """Return whether the cell at `pos` has this row."""
    other, length = row_of(data, pos)
    return length == row_len and same_bytes(data, row, data, other, length)
