"""A task of a first copy into a lake: reads regions' files of a snapshot, and writes their cells as files that nobody sees yet.

All cells of the files go into the lake, as a raw scan of all versions would show them: also delete markers, and what these hide.

A task of a very large region stops once it has written many files, and says up to which row it has come.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace

from walferry.base.errors import WalferryError, text_of
from walferry.hbase.files.systems import READ_PATIENCE_SECONDS
from walferry.hbase.hfiles.arrow import columns_of
from walferry.hbase.hfiles.errors import UnreadableHFile
from walferry.hbase.hfiles.file_cells import PIECE_BYTES, FileCells, borders
from walferry.hbase.hfiles.opened import HFile, open_hfile
from walferry.hbase.names import family_text
from walferry.hbase.tables.snapshots import SnapshotRegion, StoreFile, open_store_file
from walferry.initial_snapshot.lake_pieces import LakeCopy, LakeTask, Piece
from walferry.initial_snapshot.region_copy import check_labels
from walferry.load.errors import CopyRefused
from walferry.replication.sinks.changes import Changes, copied_changes
from walferry.replication.sinks.iceberg.data_files import DataFiles, Target
from walferry.replication.source.cluster import SourceCluster
from walferry.replication.source.session import Session, open_session
from walferry.shipping.lake.copied import CopiedRows

MOST_BYTES = 32 << 20  # of the pieces of all files that are read side by side
MOST_HELD = 256 << 20  # of these pieces, if some files have large blocks or rows
MAX_ROW_BYTES = 256 << 20  # of a row's cells in one file
READ_AT_ONCE = 4  # files
MOST_FILES = 500  # of one answer: their figures are some 800 bytes each, and an answer through Spark Connect has 1 MiB at most
MOST_ERRORS = 3  # pieces of one task that cannot be copied; after each one, the others are begun again

LEAVE_OUT = "Or leave the table out: drop its table of changes, and name the other tables"

log = logging.getLogger(__name__)


class _Failed(Exception):
    """A piece cannot be copied; another try may succeed (`passing`). A signal, not an error."""

    def __init__(self, piece: Piece, error: Exception) -> None:
        super().__init__(f"{piece.region}: {text_of(error).removeprefix(f'{piece.region}: ')}")
        self.piece = piece
        # HBase may have moved a file to its archive meanwhile.
        self.passing = isinstance(error, FileNotFoundError) or (isinstance(error, WalferryError) and error.retry_helps)


def copy_to_lake(source: SourceCluster, targets: Mapping[str, Target], task: LakeTask) -> LakeCopy:
    """Copy pieces. If one cannot be copied, also when it is tried again, the others are copied without it. Raises no error."""
    left, errors, again = list(task.pieces), list[str](), set[tuple[str, bytes]]()
    try:
        with open_session(source, look_only=True) as session:
            while left and len(errors) < MOST_ERRORS:
                try:
                    return replace(_Copying(session, targets, task).run(left), errors=tuple(errors))
                except _Failed as error:
                    log.warning("%s", error)
                    key = error.piece.region.encoded_name, error.piece.start
                    if error.passing and key not in again:
                        again.add(key)
                    else:
                        errors.append(str(error))
                        left.remove(error.piece)
    except Exception as error:  # files could not be written, or the source's ZooKeeper is away
        log.exception("pieces of table %s", task.table)
        errors.append(f"table {task.table}: {text_of(error)}")
    if left:
        errors.append(f"table {task.table}: {len(left):,} regions, of which {left[0].region.encoded_name} is the first, are left")
    return LakeCopy(task.table, errors=tuple(errors))


@dataclass(frozen=True)
class _OpenFile:
    cells: FileCells
    sequence_id: int
    has_tags: bool


class _Copying:
    """One try to copy some pieces."""

    def __init__(self, session: Session, targets: Mapping[str, Target], task: LakeTask) -> None:
        self._session, self._task = session, task
        self._files = DataFiles(targets)

    def run(self, pieces: Sequence[Piece]) -> LakeCopy:
        """Copy the pieces, or the first ones if there are many files. Raises _Failed, and OSError if files cannot be written."""
        rows = list[CopiedRows]()
        for piece in pieces:
            if rows and self._files.count > MOST_FILES:
                break
            rows.append(self._copy(piece))
        return LakeCopy(self._task.table, tuple(rows), tuple(self._files.finish()))

    def _copy(self, piece: Piece) -> CopiedRows:
        """Copy a piece, up to a row at which there are many files."""
        region, fences, cells, end = piece.region, dict.fromkeys(map(family_text, self._task.families), -1), 0, piece.end
        with ExitStack() as stack:
            for border, found in self._each_step(piece, fences, stack):
                for each in found:
                    cells += each.rows.num_rows
                    self._files.add(each)
                if border is not None and border > piece.start and self._files.count > MOST_FILES:
                    end = border
                    break
        whole = replace(piece, end=end).whole
        return CopiedRows(region.encoded_name, piece.start.hex(), end.hex(), fences, whole, len(region.files), region.size, cells)

    def _each_step(self, piece: Piece, fences: dict[str, int], stack: ExitStack) -> Iterator[tuple[bytes | None, list[Changes]]]:
        """Yield the steps of a piece. Raises _Failed, whatever is wrong with the files."""
        steps = self._steps(piece, fences, stack)
        while True:
            try:
                step = next(steps, None)
            except Exception as error:
                raise _Failed(piece, error) from error
            if step is None:
                return
            yield step

    def _steps(self, piece: Piece, fences: dict[str, int], stack: ExitStack) -> Iterator[tuple[bytes | None, list[Changes]]]:
        """Yield rows (None: the end) with the cells before them that were not yielded yet. First note the fence of each family.

        Raises WalferryError, OSError.
        """
        pool = stack.enter_context(ThreadPoolExecutor(READ_AT_ONCE, "read-files"))
        found = list(pool.map(lambda file: self._open(piece.region, file, stack), piece.region.files))
        piece_bytes, opened = min(PIECE_BYTES, MOST_BYTES // max(1, len(found))), list[_OpenFile]()
        for stored, file in zip(piece.region.files, found, strict=True):
            name, family = stored.places[0].rpartition("/")[2], family_text(stored.family)
            number = file.sequence_id(name)
            if not file.was_loaded or file.is_numbered(name):
                fences[family] = max(fences[family], number)
            if file.cells:
                cells = FileCells(file, piece.start, piece.end, piece_bytes, MAX_ROW_BYTES)
                opened.append(_OpenFile(cells, max(0, number), file.has_tags))

        def read_on(file: FileCells) -> None:
            file.read_on()
            if (held := sum(len(each.cells.cells.data) for each in opened)) > MOST_HELD:
                raise UnreadableHFile(
                    f"{piece.region}: its files' rows take {held:,} bytes at once, more than {MOST_HELD:,}. {LEAVE_OUT}"
                )

        for border in borders([each.cells for each in opened], lambda files: list(pool.map(read_on, files))):
            yield border, [changes for each in opened for changes in self._taken(piece, each, border)]

    def _taken(self, piece: Piece, file: _OpenFile, border: bytes | None) -> Iterator[Changes]:
        first, end = file.cells.take_until(border)
        if first < end:
            cells = file.cells.cells
            columns = columns_of(cells.data, cells.starts[first:end], tags=file.has_tags)
            yield copied_changes(self._task.table, piece.region.encoded_name, columns, file.sequence_id)

    def _open(self, region: SnapshotRegion, stored: StoreFile, stack: ExitStack) -> HFile:
        url, opened = open_store_file(self._session.source.hbase_root, region, stored, patience=READ_PATIENCE_SECONDS)
        file = open_hfile(stack.enter_context(opened), url)
        if file.has_mob_values:
            raise CopyRefused(f"{url} has values in MOB files", f"Let a major compaction bring them into the HFiles. {LEAVE_OUT}")
        if file.some_tags:
            if file.tags_compressed:
                raise CopyRefused(
                    f"{url} has compressed tags, which are not read",
                    f"Set COMPRESS_TAGS => false for the family, and run major_compact for the table. {LEAVE_OUT}",
                )
            check_labels(self._session, region, known=True)
        return file
