"""Copies a region's store files, and has the peer cluster load them (walferry.load.file_loader).

First it finds the files and reads their metadata; if that fails, the region needs a scan. The copies do not contain the source's
sequence numbers: see hfiles.py.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest

from walferry.hbase.files.errors import StoreError
from walferry.hbase.files.systems import COPY_BYTES, NewFile, OpenWal, open_wal
from walferry.hbase.hfiles.ends import EndWriter, FileEnd
from walferry.hbase.hfiles.errors import UnreadableHFile
from walferry.hbase.hfiles.opened import HFileInfo, read_info
from walferry.hbase.tables.regions import Region
from walferry.hbase.tables.scan import RegionPlace
from walferry.hbase.tables.snapshots import SnapshotRegion, StoreFile, open_store_file
from walferry.initial_snapshot.hfiles import info_without_numbers
from walferry.load.copy_records import CopyWay, HeldRegion, RegionRecord
from walferry.load.errors import CopyRefused
from walferry.load.file_loader import FileLoader
from walferry.load.numbered import StagedFile
from walferry.load.staging import delete_surely

COPIED_AT_ONCE = 4  # files of a region: HDFS takes longer to end a small file than to write it
TASK = "walferry, initial snapshot"  # the peer cluster's files name this as their writer

log = logging.getLogger(__name__)


class NeedsScan(Exception):
    """The region's files cannot be copied, for the reason in the message. A signal, not an error."""


@dataclass(frozen=True)
class FoundFile:
    """A store file: where it lies now, and its metadata (None: they cannot be read)."""

    file: StoreFile
    url: str
    info: HFileInfo | None


def copy_files(loader: FileLoader, region: SnapshotRegion, found: Sequence[FoundFile], held: HeldRegion) -> RegionRecord:
    """Copy a region by its files. Raises NeedsScan, StoreError, and the errors of FileLoader.load."""
    calls = loads(found)
    if not calls:
        return RegionRecord(CopyWay.FILES)
    target = loader.place.locate(region.start)
    check_borders(region, target)
    writers = [[partial(_copy, each) for each in call] for call in calls]
    try:  # the region may be split while its files are copied
        loader.load(target, held, writers, lambda: check_borders(region, loader.place.locate(region.start)))
    except UnreadableHFile as error:
        raise NeedsScan(str(error)) from error
    copied = [each.file for call in calls for each in call]
    return RegionRecord(
        CopyWay.FILES, files=len(copied), bytes=sum(file.size for file in copied), peer_cluster_region=target.name.hex()
    )


def _copy(each: FoundFile, url: str) -> StagedFile:
    return StagedFile(each.file.family, url, copy_file(each.url, url, TASK))


def copy_file(source: str, target: str, task: str) -> FileEnd:
    """Copy an HFile unchanged, except for its metadata about its cells' order (hfiles.py). The copy names `task` as its writer.

    Returns the copy's end, which no other copy has. Raises UnreadableHFile, StoreError, FileNotFoundError.
    """
    with open_wal(source) as file:
        info = info_without_numbers(file, source, f"{task} {uuid.uuid4().hex}")
        with NewFile(target) as copy:
            out = EndWriter(copy.write)
            for data in _pieces(file, source, 0, info.start):
                out(memoryview(data))
            out.begin()
            out(memoryview(info.block))
            for data in _pieces(file, source, info.end, file.size):
                out(memoryview(data))
    return out.end()


def _pieces(file: OpenWal, source: str, start: int, end: int) -> Iterator[bytes]:
    """Yield the file's bytes from `start` to before `end`. Raises StoreError."""
    for offset in range(start, end, COPY_BYTES):
        wanted = min(COPY_BYTES, end - offset)
        data = file.read_at(offset, wanted)
        if len(data) < wanted:
            raise StoreError(f"{source}: ended at byte {offset + len(data)} of {file.size} while it was copied")
        yield data


def clean(place: RegionPlace, record: RegionRecord | None, root: str, patience_seconds: float = 0.0) -> None:
    """Have the peer cluster delete the folder that a copy has noted, if there is one. Raises StaleLoad if it may still exist.

    Raises CopyRefused, and asks the peer cluster for nothing, if no copy can have noted this folder.
    """
    if record is None or not record.staging:
        return
    if problem := delete_surely(place, record.staging, record.peer_cluster_region, root, patience_seconds):
        raise CopyRefused(
            f"the record of a region of table {place.table} names no folder that a copy can have left at the peer cluster: "
            f"{problem}",
            "Walferry has not written this znode. Delete it by hand, below initial-snapshots in Walferry's znodes, and run again",
        )


def find_files(root: str, region: SnapshotRegion) -> list[FoundFile]:
    """Look for a region's files. Raises NeedsScan, BrokenSnapshot, StoreError."""
    if halves := [str(file) for file in region.files if file.reference]:
        raise NeedsScan(f"{halves[0]} is half of a file, after a split or a merge")
    with ThreadPoolExecutor(COPIED_AT_ONCE, "find-files") as pool:
        return list(pool.map(lambda file: _found(root, region, file), region.files))


def loads(found: Sequence[FoundFile]) -> list[list[FoundFile]]:
    """Return the files of each call, oldest first, at most one per family. Raises NeedsScan if a file's age is unknown.

    Such a file cannot be copied without the source's numbers, either. Files without cells, which compactions may leave, are left
    out: a peer cluster refuses to load them.
    """
    families: dict[bytes, list[FoundFile]] = {}
    for each in found:
        if each.info is None:
            raise NeedsScan(f"it is not known how old {each.file} is")
        if each.info.cells:
            families.setdefault(each.file.family, []).append(each)
    for files in families.values():
        files.sort(key=_age)
    return [[each for each in call if each is not None] for call in zip_longest(*families.values())]


def check_borders(region: SnapshotRegion, target: Region) -> None:
    """Raise NeedsScan if the peer cluster's region does not contain all rows of the source's region."""
    ends_within = not target.end or (region.end and region.end <= target.end)
    if not (target.start <= region.start and ends_within):
        raise NeedsScan("the table at the peer cluster has other borders of regions")


def _age(each: FoundFile) -> tuple[int, int, str]:
    """Return the key by which HBase orders the files of a store (StoreFileComparators.SEQ_ID)."""
    return (each.info.sequence_id if each.info else 0, -each.file.size, each.file.name)


def _found(root: str, region: SnapshotRegion, file: StoreFile) -> FoundFile:
    """Find a file. Raises BrokenSnapshot."""
    url, opened = open_store_file(root, region, file)
    with opened:
        return FoundFile(file, url, _info(opened, url, file.name))


def _info(opened: OpenWal, url: str, name: str) -> HFileInfo | None:
    try:
        return read_info(opened, url, name)
    except UnreadableHFile as error:
        log.info("%s", error)
        return None
