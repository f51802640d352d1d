"""Divides a table's rows among the tasks of a first copy into a lake, and checks what the tasks answer."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from pyiceberg.table import Table

from walferry.base.records import Record
from walferry.hbase.binary_text import to_binary_text
from walferry.hbase.names import family_text
from walferry.hbase.tables.snapshots import SnapshotRegion, earlier_end
from walferry.load.errors import CopyRefused
from walferry.replication.sinks.iceberg.data_files import ChangeFile
from walferry.shipping.lake.catalog import is_file_of
from walferry.shipping.lake.copied import CopiedRows

TASK_BYTES = 512 << 20  # of the snapshot's files for a task, unless one region has more
MOST_PIECES, MOST_KEY_BYTES = 200, 200_000  # of a task, whose answer names its pieces
MAX_CHARS = 300


@dataclass(frozen=True)
class Piece:
    """Rows of a region, from `start` to before `end` (empty: no limit)."""

    region: SnapshotRegion
    start: bytes
    end: bytes

    @property
    def whole(self) -> bool:
        """Whether these are all rows of the region."""
        return (self.start, self.end) == (self.region.start, self.region.end)


@dataclass(frozen=True)
class LakeTask:
    """Pieces of one table for a task."""

    table: str
    families: tuple[bytes, ...]
    pieces: tuple[Piece, ...]


@dataclass(frozen=True)
class LakeCopy(Record):
    """What a task has copied: its files have the cells of these rows, and of no others."""

    table: str
    rows: tuple[CopiedRows, ...] = ()
    files: tuple[ChangeFile, ...] = ()
    errors: tuple[str, ...] = ()


def check_chain(table: str, regions: Sequence[SnapshotRegion]) -> None:
    """Check that each row belongs to one region. Raises CopyRefused. The regions are in the order of their rows."""
    for before, region in pairwise([None, *regions, None]):
        end, start = (before.end if before is not None else b""), (region.start if region is not None else b"")
        if end != start or (not end and before is not None and region is not None):
            at = to_binary_text(min(end, start) if end and start else end or start)[:MAX_CHARS]
            raise CopyRefused(
                f"table {table}: in its snapshot, regions overlap or rows have no region, from row {at} on",
                "Repair the table with HBCK2 and run again, or leave it out: name the other tables",
            )


def pieces_of(regions: Iterable[SnapshotRegion], missing: Sequence[tuple[bytes, bytes]]) -> Iterator[Piece]:
    """Yield the rows of the regions that lie in ranges that are `missing` (copied.gaps)."""
    starts = [start for start, _ in missing]
    for region in regions:
        for at in range(max(0, bisect_right(starts, region.start) - 1), len(missing)):
            start, end = missing[at]
            if region.end and start >= region.end:
                break
            begin, stop = max(start, region.start), earlier_end(end, region.end)
            if not stop or begin < stop:
                yield Piece(region, begin, stop)


def tasks_of(table: str, families: tuple[bytes, ...], pieces: Collection[Piece]) -> Iterator[LakeTask]:
    """Yield tasks of about TASK_BYTES, with some pieces at most. Pieces that follow each other stay together."""
    some, size, keys = list[Piece](), 0, 0
    for piece in pieces:
        full = size + piece.region.size > TASK_BYTES or len(some) == MOST_PIECES or keys > MOST_KEY_BYTES
        if some and full:
            yield LakeTask(table, families, tuple(some))
            some, size, keys = [], 0, 0
        some.append(piece)
        size += piece.region.size
        keys += len(piece.start) + len(piece.end)
    if some:
        yield LakeTask(table, families, tuple(some))


def rest_of(task: LakeTask, answer: LakeCopy) -> Iterator[LakeTask]:
    """Yield a task for what a task has left because there were many files. What could not be copied is left out."""
    ends = {(each.region, each.start): each.end for each in answer.rows}
    left = list[Piece]()
    for piece in task.pieces if not answer.errors else ():
        end = ends.get((piece.region.encoded_name, piece.start.hex()))
        if end != piece.end.hex():
            left.append(piece if end is None else replace(piece, start=bytes.fromhex(end)))
    if left:
        yield replace(task, pieces=tuple(left))


def why_wrong(task: LakeTask, answer: LakeCopy, table: Table) -> str:
    """Return what is wrong with a task's answer; empty if it may be committed."""
    if answer.table != task.table:
        return f"it is one for table {answer.table}"
    asked = {(piece.region.encoded_name, piece.start.hex()): piece for piece in task.pieces}
    families = {family_text(family) for family in task.families}
    for each in answer.rows:
        piece = asked.pop((each.region, each.start), None)
        if piece is None or not _is_part(each, piece) or not each.fences.keys() <= families:
            return "it has rows that it was not asked for"
    if not answer.rows and not answer.errors:
        return "it has neither rows nor errors"
    paths = [file.path for file in answer.files]
    if odd := [file.path for file in answer.files if file.table != task.table or not is_file_of(table, file.path)]:
        return f"{odd[0]} is no file of the table"
    if len(set(paths)) < len(paths) or sum(file.rows for file in answer.files) != sum(each.cells for each in answer.rows):
        return "its files have not the cells that it tells of"
    return ""


def _is_part(rows: CopiedRows, piece: Piece) -> bool:
    """Return whether rows that begin with a piece are the whole piece, or end within it."""
    try:
        found = replace(piece, end=bytes.fromhex(rows.end))
    except ValueError:
        return False
    within = found.end != b"" and found.start < found.end and (not piece.end or found.end < piece.end)
    return (found.end == piece.end or within) and rows.whole == found.whole
