"""Copies a region's store files, and has the slave load them.

    look for the files and read what they say of themselves      or it is a case for a scan
    PrepareBulkLoad at the slave                                 makes <staging>/<token>, into which all may write
    copy the files to <token>/<name>, side by side               then the server may move them, whatever user it runs as; without
                                                                 the source's numbers: see hfiles.py
    wait for the turn to load into the slave's region            see load/region_lock.py
    check that no other run or task has taken over               see load/fence.py
    BulkLoadHFile, oldest files first                            of cells with equal keys, those that are loaded last count
    look whether these files have got a number                   see load/numbered.py; or copy and load them once more
    CleanupBulkLoad

All files of one call get the same sequence number, so each call has one file of a family at most.

A copy that fails between two steps is begun anew: a file that is loaded twice has the same cells, and in the same order.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import count, zip_longest

from walferry.base.security.login import UNSECURED, Login
from walferry.hbase.files.systems import OpenWal, open_wal
from walferry.hbase.tables.regions import Region
from walferry.hbase.tables.scan import RegionPlace
from walferry.initial_snapshot.file_copy import copy_file
from walferry.initial_snapshot.hfiles import HFileInfo, read_info
from walferry.initial_snapshot.manifest import SnapshotRegion, StoreFile
from walferry.load.copy_errors import BrokenSnapshot, CopyRefused, Overtaken, UnreadableHFile
from walferry.load.copy_records import CopyWay, HeldRegion, RegionRecord
from walferry.load.errors import NotLoaded, StaleLoad
from walferry.load.numbered import Destination, StagedFile, load_numbered
from walferry.load.region_lock import TakeTurn
from walferry.load.staging import delete_surely, new_folder

COPIED_AT_ONCE = 4  # files of a region: HDFS takes longer to end a small one than to write it
LOADS = 3  # times that the files of a call are copied, if the slave does not load them or gives them no number
TASK = "walferry, initial snapshot"  # the slave's files say that this has made them

log = logging.getLogger(__name__)


class NeedsScan(Exception):
    """The region's files cannot be copied, for the reason in the message. A signal, not an error."""


@dataclass(frozen=True)
class FoundFile:
    """A store file, where it lies now and what it says of itself (None: that cannot be read)."""

    file: StoreFile
    url: str
    info: HFileInfo | None


@dataclass(frozen=True)
class FilesCopy:
    """Copies regions from below `root`, the URL of the source's hbase.rootdir, to the table at `place`.

    `cluster_id` is the source's, which the slave's own replication does not send the files to. `turn` keeps other tasks from
    loading into the same region of the slave at the same time.
    """

    root: str
    place: RegionPlace
    cluster_id: str
    turn: TakeTurn
    login: Login = UNSECURED  # to the slave

    def copy(self, region: SnapshotRegion, found: Sequence[FoundFile], held: HeldRegion) -> RegionRecord:
        """Copy one region. Raises NeedsScan, NotLoaded, Overtaken, StoreError, RpcError, RegionUnavailable."""
        calls = loads(found)
        if not calls:
            return RegionRecord(CopyWay.FILES)
        target = self.place.locate(region.start)
        check_borders(region, target)
        server = self.place.connection(target)
        begun = RegionRecord(slave_region=target.name.hex())
        token, _ = new_folder(
            server, region.table, target.name, self.root, self.login, lambda token: held.put(replace(begun, staging=token))
        )
        record = replace(begun, staging=token)
        try:
            self._load(region, Destination(region.table, target, token, self.login), calls, held)
        except (NotLoaded, Overtaken):  # another run may have deleted the folder too early, and forgotten it
            clean_up(self.place, record, self.root)
            raise
        clean_up(self.place, record, self.root)
        copied = [each for call in calls for each in call]
        return replace(record, way=CopyWay.FILES, files=len(copied), bytes=sum(each.file.size for each in copied), staging="")

    def _load(self, region: SnapshotRegion, to: Destination, calls: Sequence[Sequence[FoundFile]], held: HeldRegion) -> None:
        """Copy the files of each call to the folder, and have them loaded. Raises as `copy`."""
        server = self.place.connection(to.region)
        pool = ThreadPoolExecutor(COPIED_AT_ONCE, "copy-files")
        try:
            copies = [_copies(pool, call, f"{to.token}/call{i}") for i, call in enumerate(calls)]
            for call, begun in zip(calls, copies, strict=True):
                files = [copy.result() for copy in begun]
                for tried in count(1):
                    try:
                        with self.turn(to.region.encoded_name):
                            held.check()
                            load_numbered(server, to, files, self.cluster_id)
                        break
                    except NotLoaded as error:
                        check_borders(region, self.place.locate(region.start))  # the region may have been split meanwhile
                        if tried == LOADS:
                            raise
                        log.warning("files of %s are loaded again: %s", region, error)
                    files = [copy.result() for copy in _copies(pool, call, f"{files[0].url}-again")]
        except UnreadableHFile as error:
            raise NeedsScan(str(error)) from error
        finally:
            pool.shutdown(cancel_futures=True)  # before the folder is deleted


def _copies(pool: ThreadPoolExecutor, call: Sequence[FoundFile], url: str) -> list[Future[StagedFile]]:
    """Begin to copy the files of a call, to `url` with a number each.

    HBase keeps a name that could be one of its own files', and then a load gives it no number (HRegion.bulkLoadHFiles).
    """

    def copied(each: FoundFile, to: str) -> StagedFile:
        return StagedFile(each.file.family, to, copy_file(each.url, to, TASK))

    return [pool.submit(copied, each, f"{url}-{number}") for number, each in enumerate(call)]


def clean_up(place: RegionPlace, record: RegionRecord | None, root: str) -> None:
    """Have the folder deleted of a copy whose calls were all answered; if that fails, the folder stays. Raises CopyRefused."""
    try:
        clean(place, record, root)
    except StaleLoad as error:
        log.warning("%s", error)


def clean(place: RegionPlace, record: RegionRecord | None, root: str, patience_seconds: float = 0.0) -> None:
    """Have the slave delete the folder that a copy has noted, if there is one. Raises StaleLoad if it may still be there.

    Raises CopyRefused if no copy can have noted it: the slave is asked to delete nothing else.
    """
    if record is None or not record.staging:
        return
    if problem := delete_surely(place, record.staging, record.slave_region, root, patience_seconds):
        raise CopyRefused(
            f"the record of a region of table {place.table} names no folder that a copy can have left at the slave: {problem}",
            "Walferry has not written this znode. Delete it by hand, below initial-snapshots in Walferry's znodes, and run again",
        )


def find_files(root: str, region: SnapshotRegion) -> list[FoundFile]:
    """Look for a region's files. Raises NeedsScan, BrokenSnapshot, StoreError."""
    if halves := [str(file) for file in region.files if file.reference]:
        raise NeedsScan(f"{halves[0]} is half of a file, after a split or a merge")
    with ThreadPoolExecutor(COPIED_AT_ONCE, "find-files") as pool:
        return list(pool.map(lambda file: _found(root, region, file), region.files))


def loads(found: Sequence[FoundFile]) -> list[list[FoundFile]]:
    """The files of each call, oldest first, of a family one a call. Raises NeedsScan if one does not tell how old it is.

    Such a file cannot be copied without the source's numbers, either. Files without cells, which compactions may leave, are left
    out: a slave refuses to load them.
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
    """Raises NeedsScan if a region at the slave does not have all rows of the source's."""
    ends_within = not target.end or (region.end and region.end <= target.end)
    if not (target.start <= region.start and ends_within):
        raise NeedsScan("the table at the slave has other borders of regions")


def _age(each: FoundFile) -> tuple[int, int, str]:
    """As HBase orders the files of a store (StoreFileComparators.SEQ_ID)."""
    return (each.info.sequence_id if each.info else 0, -each.file.size, each.file.name)


def _found(root: str, region: SnapshotRegion, file: StoreFile) -> FoundFile:
    """Look into the places in the order in which HBase moves files."""
    for place in file.places:
        url = f"{root}/{place}"
        try:
            with open_wal(url) as opened:
                return FoundFile(file, url, _info(opened, url, file.name))
        except FileNotFoundError:
            continue
    raise BrokenSnapshot(
        f"{region}: its file {file} is in none of {', '.join(f'{root}/{place}' for place in file.places)}",
        "root_dir in the connection's extra (wal_root, if it is not set) must be the source's hbase.rootdir",
    )


def _info(opened: OpenWal, url: str, name: str) -> HFileInfo | None:
    try:
        return read_info(opened, url, name)
    except UnreadableHFile as error:
        log.info("%s", error)
        return None
