"""Takes snapshots of the tables at both clusters, finds out which files each range has, and deletes the snapshots at the end.

HBase deletes the snapshots of a killed run by itself after a while. Where it does not, a later run deletes the old ones.
"""

from __future__ import annotations

import logging
import time
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import count

from walferry.base.errors import WalferryError
from walferry.base.jobs import Tell
from walferry.base.protos import hbase_pb2 as pb
from walferry.base.texts import one_line
from walferry.hbase.cluster import master as active_master
from walferry.hbase.files.logins import lend
from walferry.hbase.files.systems import list_folder
from walferry.hbase.names import family_text, in_snapshot_name
from walferry.hbase.rpc import bulk_load, master
from walferry.hbase.rpc.connection import Connection
from walferry.hbase.rpc.errors import RpcError
from walferry.hbase.tables.errors import MissingTable, RegionUnavailable
from walferry.hbase.tables.snapshots import SNAPSHOTS, SnapshotRegion, read_manifest, regions_of
from walferry.hbase.tables.tables import Tables
from walferry.load.copied_tables import has_new_version_behavior
from walferry.load.staging import STAGING, check_form
from walferry.verification.job import RangeFiles, SideFiles, TableRange

AT_ONCE = 2  # snapshots; a Master takes one after the other (hbase.snapshot.master.threads)
KEPT_SECONDS = 72_000  # of a snapshot whose run was killed: a verification of the next day finds it old
MAX_MANIFEST_BYTES = 64 << 20  # as HBase itself (snapshot.manifest.size.limit); parsed, one takes some 20 times as much
MOST_FILES = 80_000  # of all ranges, as each takes some 300 bytes of the job that is sent to Spark
MOST_ASKED = 5  # tables
MAX_SHOWN_CHARS = 500
# Attributes by which equal cells can be different rows, with HBase's defaults.
_VISIBLE = {
    "VERSIONS": "1", "MIN_VERSIONS": "0", "TTL": "2147483647", "KEEP_DELETED_CELLS": "FALSE", "NEW_VERSION_BEHAVIOR": "FALSE",
    "IS_MOB": "FALSE",
}  # fmt: skip

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Side:
    """One side: its tables, and the URL of its hbase.rootdir."""

    tables: Tables
    root: str

    def master(self) -> Connection:
        """Connect to the active Master. Raises ClusterError, ConnectError."""
        return master.connect(active_master(self.tables.zk, self.tables.nodes), login=self.tables.login)


@contextmanager
def with_files(
    parts: Sequence[TableRange], source: Tables, source_root: str, peer_cluster: Tables, peer_id: str, say: Tell
) -> Iterator[list[TableRange]]:
    """Yield the ranges with the files that they have on both sides, for the length of a block.

    A table whose files cannot be compared keeps its ranges as they are, and the reason is told.
    """
    snapshots = _Snapshots(peer_id)
    try:
        yield _with_files(parts, source, source_root, peer_cluster, snapshots, say)
    finally:
        snapshots.delete()


def _with_files(
    parts: Sequence[TableRange], source: Tables, source_root: str, peer_cluster: Tables, snapshots: _Snapshots, say: Tell
) -> list[TableRange]:
    of_table: dict[str, list[TableRange]] = {}
    for part in parts:
        of_table.setdefault(part.table, []).append(part)
    names = sorted(of_table)
    if not names:
        return []
    try:
        root = _root_of(peer_cluster, names, source_root)
        lend(root, peer_cluster.login.kerberos)
        sides = [Side(source, source_root), Side(peer_cluster, root)]
        schemas = [_schemas(side, names) for side in sides]
        for side in sides:
            list_folder(f"{side.root}/{SNAPSHOTS}", lambda _: False)  # before anything is flushed: may this user read there?
            snapshots.delete_old(side)
    except (WalferryError, OSError) as error:
        why = one_line(str(error), MAX_SHOWN_CHARS)
        say(f"all tables are scanned: {why}")
        return [replace(part, why_scanned=why) for part in parts]
    tables = [_Table(name, of_table[name]) for name in names]
    for table in tables:
        if problem := _unlike(schemas[0].get(table.name), schemas[1].get(table.name), table.families):
            table.problem = problem
    pool = ThreadPoolExecutor(AT_ONCE, "snapshots")
    try:
        for table in tables:
            if not table.problem:
                table.regions = [pool.submit(snapshots.regions, side, table.name, table.families) for side in sides]
        return _within_budget([table.with_files(say) for table in tables], say)
    finally:
        pool.shutdown(cancel_futures=True)


def _within_budget(tables: Sequence[Sequence[TableRange]], say: Tell) -> list[TableRange]:
    """Return all ranges, without the files of the tables with which a job would be too large for Spark."""
    found, count = list[TableRange](), 0
    for parts in tables:
        here = sum(len(region.files) for part in parts if part.files for side in part.files.sides for region in side.regions)
        if count + here > MOST_FILES:
            why = f"there are more than {MOST_FILES:,} files to compare; name fewer tables"
            say(f"table {parts[0].table} is scanned: {why}")
            found += [replace(part, files=None, why_scanned=why) for part in parts]
        else:
            count += here
            found += parts
    return found


@dataclass
class _Table:
    """A table's ranges, and the regions in its snapshots of both sides, or why there are none."""

    name: str
    parts: Sequence[TableRange]
    problem: str = ""
    regions: Sequence[Future[_Regions]] = ()

    @property
    def families(self) -> tuple[bytes, ...]:
        return self.parts[0].families

    def with_files(self, say: Tell) -> Sequence[TableRange]:
        """Return the ranges, with their files if the snapshots were taken."""
        if not self.problem:
            try:
                ours, theirs = (each.result() for each in self.regions)
                return [replace(part, files=RangeFiles(ours.within(part), theirs.within(part))) for part in self.parts]
            except (WalferryError, OSError) as error:
                self.problem = str(error)
        why = one_line(self.problem, MAX_SHOWN_CHARS)
        say(f"table {self.name} is scanned: {why}")
        return [replace(part, why_scanned=why) for part in self.parts]


def _schemas(side: Side, tables: Collection[str]) -> dict[str, pb.TableSchema]:
    with side.master() as connection:
        return master.table_schemas(connection, tables)


def _root_of(tables: Tables, names: Sequence[str], source_root: str) -> str:
    """Ask a cluster where its files are: a RegionServer tells it with the folder that it makes for a bulk load.

    The first table may have regions that move, or be disabled. Raises NotLoaded, RpcError, RegionUnavailable, MissingTable.
    """
    *others, last = names[:MOST_ASKED]
    for name in others:
        with suppress(RpcError, RegionUnavailable, MissingTable):
            return _root_by(tables, name, source_root)
    return _root_by(tables, last, source_root)


def _root_by(tables: Tables, table: str, source_root: str) -> str:
    place = tables.place(table)
    region = place.locate(b"")
    server = place.connection(region)
    token = bulk_load.prepare(server, table, region.name)
    with suppress(RpcError):
        bulk_load.cleanup(server, region.name, token)
    check_form(token, table, source_root)
    return token.rpartition("/")[0].removesuffix(f"/{STAGING}")


def _unlike(ours: pb.TableSchema | None, theirs: pb.TableSchema | None, families: Collection[bytes]) -> str:
    """Return why equal cells of the families could be different rows; empty if they cannot."""
    if ours is None or theirs is None:
        return "it has just been dropped"
    there = {family.name: family for family in theirs.column_families}
    for family in ours.column_families:
        if family.name not in families:
            continue
        name, other = family_text(family.name), there.get(family.name)
        if other is None:
            return f"the peer cluster has no family {name}"
        for attribute, default in _VISIBLE.items():
            values = {_attribute(each, attribute, default) for each in (family, other)}
            if len(values) > 1:
                return f"{attribute} of family {name} is {' and '.join(sorted(values))}"
        if has_new_version_behavior(family) or _attribute(family, "IS_MOB", "FALSE") == "TRUE":
            return f"family {name} has NEW_VERSION_BEHAVIOR or MOB files"
    return ""


def _attribute(family: pb.ColumnFamilySchema, name: str, default: str) -> str:
    found = {each.first: each.second for each in family.attributes}.get(name.encode(), default.encode())
    return found.decode(errors="replace").upper()


class _Snapshots:
    """Takes snapshots, side by side, and deletes them."""

    def __init__(self, peer_id: str) -> None:
        self._prefix = f"walferry-verification-{in_snapshot_name(peer_id)}-"
        self._began = int(time.time() * 1000)
        self._numbers = count()
        self._taken: list[tuple[Side, str]] = []

    def regions(self, side: Side, table: str, families: Collection[bytes]) -> _Regions:
        """Take a snapshot, and read its regions. Raises ClusterError, ConnectError, RpcError, BrokenSnapshot, StoreError."""
        name = f"{self._prefix}{self._began}-{next(self._numbers)}"
        self._taken.append((side, name))
        with side.master() as connection:
            master.take_snapshot(connection, name, table, KEPT_SECONDS)
        return _Regions(side.root, read_manifest(side.root, name, MAX_MANIFEST_BYTES), families)

    def delete(self) -> None:
        """Delete what was taken. A snapshot that cannot be deleted is left to a later run."""
        for side, name in self._taken:
            try:
                with side.master() as connection:
                    master.delete_snapshot(connection, name)
            except WalferryError as error:
                log.warning("the snapshot %s may be left, for a day at most if HBase cleans snapshots up: %s", name, error)

    def delete_old(self, side: Side) -> None:
        """Delete what killed runs have left, as far as that is possible. Raises ClusterError, ConnectError."""
        with side.master() as connection:
            try:
                for name in master.completed_snapshots(connection):
                    if name.startswith(self._prefix) and self._is_old(name.removeprefix(self._prefix).partition("-")[0]):
                        master.delete_snapshot(connection, name)
            except RpcError as error:
                log.warning("snapshots that an earlier verification has left are not deleted: %s", error)

    def _is_old(self, began: str) -> bool:
        is_time = began.isascii() and began.isdigit() and len(began) < 16
        return is_time and int(began) < self._began - 1000 * KEPT_SECONDS


class _Regions:
    """The regions of a side's snapshot, by their rows."""

    def __init__(self, root: str, manifest: pb.SnapshotDataManifest, families: Collection[bytes]) -> None:
        self._root = root
        self._regions = regions_of(manifest, families)
        self._starts = [region.start for region in self._regions]

    def within(self, part: TableRange) -> SideFiles:
        """Return the files of the regions that have rows of a range."""
        first = max(0, bisect_right(self._starts, part.start) - 1)
        last = bisect_left(self._starts, part.stop) if part.stop else len(self._starts)
        return SideFiles(self._root, tuple(filter(_has_files, self._regions[first:last])))


def _has_files(region: SnapshotRegion) -> bool:
    return bool(region.files)
