"""Which rows a table of changes has of a first copy, and which edits of WALs the copy contains already.

    <root>/lake-copies/<quoted znode parent>/<quoted peer>/<quoted table>/<part>        CopiedPart, as JSON
    …/+ends/<end>                                                                       Load: the WALs of up to an end

The copy of a region is made of a snapshot's files. It contains exactly the edits of each family up to the **fence**: the largest
sequence id of the family's files. For a flush writes all that a store's memory has, and the file's number (MAX_SEQ_ID_KEY) is
larger than those of all edits in it, and smaller than those of later edits. Sequence ids never become smaller along a row, also
when regions are split and merged: a new region's begin after those of the files that it has got. So of a WAL's edit, row, family
and sequence id say whether the copy contains it, in whichever region it was written.

That holds as long as the table is the same one: a table that was truncated begins to count anew. So once the snapshots are taken,
all servers begin new WALs again: this is the snapshots' **end**. If the table is then still the same one, it has been so in all
WALs before the end. WALs behind it have only later edits, whatever the edits' numbers are.

A part is written before the table gets its rows, and it counts once the table's positions name it.

Source: HBase's HRegion.internalPrepareFlush, StoreFileWriter.appendMetadata, HStore.getMaxSequenceId (branch-2.6, branch-1.4).
"""

from __future__ import annotations

import uuid
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from walferry.base.kernels.types import Ints
from walferry.base.records import Record
from walferry.base.zk.client import children, read_all
from walferry.base.zk.records import decode_or_none, delete_fenced, encode, put_fenced
from walferry.hbase.binary_text import from_binary_text
from walferry.hbase.layout import quoted
from walferry.hbase.names import parse_wal_name
from walferry.load.fence import Claim
from walferry.load.records import MAX_JSON_BYTES, Load
from walferry.replication.sinks.changes import Changes
from walferry.replication.sinks.iceberg.commits import FirstCopy
from walferry.replication.sinks.iceberg.tables import LakeError
from walferry.replication.source.session import Session

ENDS = "+ends"  # no table's name begins with "+"
PART_BYTES = 300_000  # of a part's JSON, about
UNKNOWN, NOTHING = -2, -1  # instead of a fence: the rows have to be looked at; the copy has nothing of the family


@dataclass(frozen=True)
class CopiedRows(Record):
    """The rows of a region from `start` to before `end` (hexadecimal digits; empty: no limit), and their fence in each family.

    `whole`: these are all rows of the region.
    """

    region: str
    start: str
    end: str
    fences: Mapping[str, int]  # families are texts (names.family_text)
    whole: bool = True
    files: int = 0
    bytes: int = 0  # of the files
    cells: int = 0


@dataclass(frozen=True)
class CopiedPart(Record):
    """What one commit, or a part of it, has brought, of snapshots with this end."""

    end: str
    rows: tuple[CopiedRows, ...]


def write_end(claim: Claim, end: Load) -> str:
    """Write up to which WALs edits may be in snapshots. Returns a name for this end. Raises Overtaken, ConnectError."""
    name = uuid.uuid4().hex
    path = f"{claim.session.own.lake_copies(claim.peer_id)}/{ENDS}/{name}"
    put_fenced(claim.session.zk, claim.commit, path, encode(replace(end, done=True)))
    return name


def newest(end: Load) -> int:
    """Return when the newest WAL before an end was begun, in ms since the epoch."""
    return max([end.others_before, *(parse_wal_name(wal).timestamp for wal in end.groups.values() if wal)])


def write_parts(claim: Claim, table: str, end: str, rows: Iterable[CopiedRows]) -> tuple[str, ...]:
    """Write what a commit is going to bring. Returns the names of the parts. Raises Overtaken, ConnectError."""
    names = []
    for some in _in_parts(rows):
        names.append(uuid.uuid4().hex)
        path = f"{_folder(claim.session, claim.peer_id, table)}/{names[-1]}"
        put_fenced(claim.session.zk, claim.commit, path, encode(CopiedPart(end, some)))
    return tuple(names)


def _in_parts(rows: Iterable[CopiedRows]) -> Iterator[tuple[CopiedRows, ...]]:
    part, size = list[CopiedRows](), 0
    for each in rows:
        part.append(each)
        size += len(each.to_json())
        if size > PART_BYTES:
            yield tuple(part)
            part, size = [], 0
    if part:
        yield tuple(part)


def read_parts(session: Session, peer_id: str, table: str, names: Sequence[str]) -> list[CopiedPart]:
    """Return the parts of a table. Raises LakeError if one cannot be read, ConnectError."""
    folder = _folder(session, peer_id, table)
    found = read_all(session.zk, [f"{folder}/{name}" for name in names])
    parts = [None if znode is None else _part(znode.value) for znode in found]
    if None in parts:
        raise _gone(table, f"{folder}/{names[parts.index(None)]}")
    return [part for part in parts if part is not None]


def fences_of(session: Session, peer_id: str, table: str, copied: FirstCopy) -> Fences:
    """Return what the copy of a table contains. Raises LakeError if that cannot be read, ConnectError."""
    of_ends: dict[str, list[CopiedRows]] = {}
    for part in read_parts(session, peer_id, table, copied.parts):
        of_ends.setdefault(part.end, []).extend(part.rows)
    paths = [f"{session.own.lake_copies(peer_id)}/{ENDS}/{quoted(name)}" for name in of_ends]
    found = read_all(session.zk, paths)
    ends = [None if znode is None else decode_or_none(Load, znode.value, MAX_JSON_BYTES) for znode in found]
    if None in ends:
        raise _gone(table, paths[ends.index(None)])
    whole = frozenset(row.region for rows in of_ends.values() for row in rows if row.whole)
    fences = [Fence(tuple(rows), whole) for rows in of_ends.values()]
    return Fences(tuple((end, fence) for end, fence in zip(ends, fences, strict=True) if end is not None))


def _gone(table: str, path: str) -> LakeError:
    return LakeError(
        f"the first copy of table {table} needs {path}, which is gone or makes no sense",
        "Without it nobody knows which edits the copy contains: drop the table of changes, and run initial_snapshot",
    )


def _part(value: bytes) -> CopiedPart | None:
    """Return the part in a znode's value; None if it makes no sense."""
    part = decode_or_none(CopiedPart, value)
    try:
        for each in part.rows if part is not None else ():
            bytes.fromhex(each.start + each.end)
            for name in each.fences:
                from_binary_text(name)
    except ValueError:
        return None
    return part


def forget_parts(claim: Claim, table: str, kept: Collection[str]) -> None:
    """Delete the other parts of a table. Raises Overtaken, ConnectError."""
    folder = _folder(claim.session, claim.peer_id, table)
    names = children(claim.session.zk, folder) or ()
    delete_fenced(claim.commit, [f"{folder}/{name}" for name in names if name not in kept])


def _folder(session: Session, peer_id: str, table: str) -> str:
    return f"{session.own.lake_copies(peer_id)}/{quoted(table)}"


@dataclass(frozen=True)
class Fences:
    """What the first copy of a table contains, and the WALs that may have edits of that, for each end of snapshots."""

    ends: tuple[tuple[Load, Fence], ...]

    def rest(self, changes: Changes, wal: str) -> Changes:
        """Return the changes of a WAL that the copy does not contain."""
        for end, fence in self.ends:
            if end.covers(wal):
                changes = fence.rest(changes)
        return changes


@dataclass(frozen=True)
class Fence:
    """What a table has of the snapshots of one end. The regions `known` were copied as a whole, from snapshots of any end."""

    rows: tuple[CopiedRows, ...]
    known: frozenset[str] = frozenset()

    def rest(self, changes: Changes) -> Changes:
        """Return the changes that the snapshots do not contain."""
        return changes.only(changes.rows.column("sequence_id").to_numpy() > self._fences(changes.rows))

    def _fences(self, rows: pa.RecordBatch) -> Ints:
        """Return the fence of each row."""
        regions, families = (rows.column(name).dictionary_encode() for name in ("region", "family"))
        names, count = families.dictionary.to_pylist(), len(families.dictionary)
        pairs, which = np.unique(
            regions.indices.to_numpy().astype(np.int64) * count + families.indices.to_numpy(), return_inverse=True
        )
        found: Ints = np.array(
            [self._of_region(regions.dictionary[pair // count].as_py(), names[pair % count]) for pair in pairs.tolist()], np.int64
        )[which]
        for at in np.flatnonzero(found == UNKNOWN).tolist():
            found[at] = self._fence(rows.column("row")[at].as_py(), rows.column("family")[at].as_py())
        return found

    def _of_region(self, region: str, family: bytes) -> int:
        fences = self._whole.get(region)
        if fences is not None:
            return fences.get(family, NOTHING)
        return NOTHING if region in self.known else UNKNOWN

    def _fence(self, row: bytes, family: bytes) -> int:
        at = bisect_right(self._starts, row) - 1
        if at < 0 or (self._ends[at] and row >= self._ends[at]):
            return NOTHING
        return self._of_families[at].get(family, NOTHING)

    @cached_property
    def _in_order(self) -> list[CopiedRows]:
        return sorted(self.rows, key=lambda each: bytes.fromhex(each.start))

    @cached_property
    def _starts(self) -> list[bytes]:
        return [bytes.fromhex(each.start) for each in self._in_order]

    @cached_property
    def _ends(self) -> list[bytes]:
        return [bytes.fromhex(each.end) for each in self._in_order]

    @cached_property
    def _of_families(self) -> list[dict[bytes, int]]:
        return [{from_binary_text(name): fence for name, fence in each.fences.items()} for each in self._in_order]

    @cached_property
    def _whole(self) -> dict[str, dict[bytes, int]]:
        """The fences of regions that were copied with all their rows, by the regions' names."""
        return {each.region: fences for each, fences in zip(self._in_order, self._of_families, strict=True) if each.whole}


def gaps(copied: Iterable[CopiedRows]) -> list[tuple[bytes, bytes]]:
    """Return the ranges of rows that are not copied, in order: from a row to before another (empty: no limit)."""
    found, at = list[tuple[bytes, bytes]](), b""
    for begins, ends in sorted((bytes.fromhex(each.start), bytes.fromhex(each.end)) for each in copied):
        if begins > at:
            found.append((at, begins))
        if not ends:
            return found
        at = max(at, ends)
    return [*found, (at, b"")]
