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
from walferry.hbase.hfiles.file_cells import NOT_SORTED, PIECE_BYTES, FileCells, borders
from walferry.hbase.hfiles.opened import HFile, open_hfile
from walferry.hbase.tables.snapshots import SnapshotRegion, earlier_end, open_store_file
from walferry.hbase.wal.cells import CellType
from walferry.verification.digests import WHOLE_HASH, FilesCompared, NeedsScan
from walferry.verification.job import Options, RangeFiles, SideFiles

MOST_BYTES: Final = 32 << 20  # of the pieces of all files; each is in memory about four times, while it is read and decoded
MOST_HELD: Final = 128 << 20  # of all pieces, if some files have large blocks or rows
MOST_OPEN: Final = 500  # files of one side of a range
READ_AT_ONCE: Final = 4  # files
_EARLIEST: Final = -(1 << 63)
_LATEST: Final = (1 << 63) - 1


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
        FileCells(file, max(start, region.start), earlier_end(stop, region.end), piece_bytes)
        for region in side.regions
        for file in _files_of(stack, side.root, region)
        if file.cells
    ]


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
        for border in borders(self._files, self._read_on):
            rows = self._equal_rows(border)
            if rows is None:
                found.differ(after, border)
            else:
                found.rows += rows
            after = border
        return found

    @property
    def _files(self) -> list[FileCells]:
        return [file for side in self.sides for file in side]

    def _read_on(self, files: Sequence[FileCells]) -> None:
        list(self.pool.map(FileCells.read_on, files))
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
            first, end = file.take_until(border)
            if not add_cells(file.cells.data, file.cells.starts, first, end, *times, keys, rows, state):
                raise file.unreadable(NOT_SORTED)
        hashed, count, noted_keys, noted_rows = state.tolist()
        return (hashed & WHOLE_HASH, count), keys[:noted_keys], rows[:noted_rows]


def _distinct(values: OutInts) -> int:
    """Return how many different values there are. Sorts them, which takes a fifth of the time of `numpy.unique`."""
    values.sort()
    return int(np.count_nonzero(values[1:] != values[:-1])) + min(1, len(values))


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
