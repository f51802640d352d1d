"""Reads a snapshot: a table's regions with their store files, and where these files lie.

    <root>/.hbase-snapshot/<snapshot>/data.manifest     SnapshotDataManifest: the table's schema, and each region's files
    <root>/data/<namespace>/<table>/<region>/<family>/<file>              a store file
    <root>/archive/data/<namespace>/<table>/<region>/<family>/<file>      the same file, after a compaction or a split

A snapshot's files stay in one of these two places. If a file's name is a link, [namespace=]table=region-file, the file belongs to
another table, and this table was cloned from a snapshot. A reference, file.region, names a file of a region that was split or
merged, as far as its rows are the region's. The parent of a split stays among the regions as long as its daughters have
references. The parent's rows are the daughters' rows.

Source: HBase's SnapshotManifest, SnapshotManifestV2, HFileLink, MobUtils (branch-2.6).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass

from google.protobuf.message import DecodeError

from walferry.base.protos import hbase_pb2 as pb
from walferry.base.protos.parsing import parse_message
from walferry.hbase.files.systems import OpenWal, open_wal
from walferry.hbase.names import family_folder, is_file_name, table_text
from walferry.hbase.tables.errors import BrokenSnapshot

SNAPSHOTS = ".hbase-snapshot"
MAX_FILE_BYTES = 1 << 44
MAX_MANIFEST_BYTES = 1 << 30  # HBase itself reads 64 MB by default (snapshot.manifest.size.limit)
MOB_START_KEY = b".mob"  # of the pseudo region that a table's MOB files belong to
_LINK = re.compile(r"(?:(?P<namespace>[^=]+)=)?(?P<table>[^=]+)=(?P<region>[0-9a-f]+)-(?P<file>[^=]+)")


@dataclass(frozen=True)
class StoreFile:
    """A store file of a region, by its places below the root. `reference`: only its cells of the region's rows belong to it."""

    family: bytes
    name: str
    size: int
    places: tuple[str, ...]
    reference: bool = False

    def __str__(self) -> str:
        return f"{self.family.decode(errors='replace')}/{self.name}"


@dataclass(frozen=True)
class SnapshotRegion:
    """A region in a snapshot, with the rows from `start` to before `end` (empty: no limit)."""

    table: str
    encoded_name: str
    start: bytes
    end: bytes
    files: tuple[StoreFile, ...]

    @property
    def size(self) -> int:
        """The bytes of the region's files."""
        return sum(file.size for file in self.files)

    def __str__(self) -> str:
        return f"region {self.encoded_name} of table {self.table}"


def read_manifest(root: str, snapshot: str, most_bytes: int = MAX_MANIFEST_BYTES) -> pb.SnapshotDataManifest:
    """Read a snapshot's manifest; `root` is the URL of hbase.rootdir. Raises BrokenSnapshot, StoreError."""
    url = f"{root}/{SNAPSHOTS}/{snapshot}/data.manifest"
    try:
        with open_wal(url) as file:
            if file.size > most_bytes:
                raise BrokenSnapshot(
                    f"{url} has {file.size:,} bytes, more than the {most_bytes:,} that are read",
                    "Copy this table with HBase's ExportSnapshot, and name the others",
                )
            data = file.read_at(0, file.size)
        return parse_message(pb.SnapshotDataManifest, data)
    except FileNotFoundError as error:
        raise BrokenSnapshot(
            f"there is no {url}",
            "root_dir in the connection's extra (wal_root, if it is not set) must be the source's hbase.rootdir, and "
            "hbase.snapshot.format.version there its default, 2",
        ) from error
    except DecodeError as error:
        raise BrokenSnapshot(f"{url} cannot be read: {error}") from error


def regions_of(manifest: pb.SnapshotDataManifest, families: Collection[bytes]) -> list[SnapshotRegion]:
    """List the regions in the order of their rows, with the files of some families. Parents of splits and replicas are left out.

    Raises BrokenSnapshot.
    """
    try:
        found = [_region(each, families) for each in manifest.region_manifests if _has_rows(each.region_info)]
    except UnicodeDecodeError as error:
        raise BrokenSnapshot(f"the snapshot names a table that is not text: {error}") from error
    return sorted(found, key=lambda region: region.start)


def open_store_file(root: str, region: SnapshotRegion, file: StoreFile, *, patience: float = 0.0) -> tuple[str, OpenWal]:
    """Open a file of a region. Returns its URL, too. Raises BrokenSnapshot, StoreError."""
    for place in file.places:  # in the order in which HBase moves files
        url = f"{root}/{place}"
        with suppress(FileNotFoundError):
            return url, open_wal(url, patience=patience)
    raise BrokenSnapshot(
        f"{region}: its file {file} is in none of {', '.join(f'{root}/{place}' for place in file.places)}",
        "root_dir in the connection's extra (wal_root, if it is not set) must be the source's hbase.rootdir",
    )


def earlier_end(one: bytes, other: bytes) -> bytes:
    """Return the earlier one of two rows before which ranges end; an empty one is no limit."""
    return min(one, other) if one and other else one or other


def split_keys(regions: Collection[SnapshotRegion]) -> list[bytes]:
    """Return the borders between the regions."""
    return sorted({region.start for region in regions} - {b""})


def _has_rows(info: pb.RegionInfo) -> bool:
    is_of_mob_files = info.start_key == MOB_START_KEY and info.region_id == 0
    return not (info.replica_id or info.split or info.offline or is_of_mob_files)


def _region(manifest: pb.SnapshotRegionManifest, families: Collection[bytes]) -> SnapshotRegion:
    info = manifest.region_info
    table, encoded = table_text(info.table_name), _encoded_name(info)
    files = tuple(
        _store_file(info.table_name, encoded, family.family_name, file)
        for family in manifest.family_files
        if family.family_name in families
        for file in family.store_files
    )
    return SnapshotRegion(table, encoded, info.start_key, info.end_key, files)


def _encoded_name(info: pb.RegionInfo) -> str:
    """Return the name of the region's folder: an MD5 of the rest of the region's name (RegionInfo.encodeRegionName)."""
    name = b"%b,%b,%d" % (table_text(info.table_name).encode(), info.start_key, info.region_id)
    return hashlib.md5(name, usedforsecurity=False).hexdigest()


def _store_file(table: pb.TableName, region: str, family: bytes, file: pb.SnapshotRegionManifest.StoreFile) -> StoreFile:
    reference, name = file.HasField("reference"), file.name
    if reference:
        name, _, region = file.name.rpartition(".")
    folders = {"namespace": table.namespace.decode(), "table": table.qualifier.decode(), "region": region, "file": name}
    if link := _LINK.fullmatch(name):
        folders = {**link.groupdict(), "namespace": link["namespace"] or "default"}
    if file.file_size > MAX_FILE_BYTES:  # records contain sums of sizes, in numbers of 63 bits
        raise BrokenSnapshot(f"the snapshot says that the file {file.name!r} has {file.file_size:,} bytes")
    return StoreFile(family, file.name, file.file_size, _places(folders, family), reference)


def _places(folders: Mapping[str, str], family: bytes) -> tuple[str, ...]:
    parts = [folders["namespace"], folders["table"], folders["region"], family_folder(family), folders["file"]]
    if not all(map(is_file_name, parts)):
        raise BrokenSnapshot(f"the snapshot names {'/'.join(parts)!r} as a file")
    return tuple(f"{folder}/{'/'.join(parts)}" for folder in ("data", "archive/data"))
