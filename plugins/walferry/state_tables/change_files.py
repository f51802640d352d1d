"""Finds the files of a table of changes that a state has not read yet.

Each batch appends files, in a snapshot of its own. So the files since a snapshot are those that later ones have appended.
What others have done meanwhile, such as a compaction, brings no new changes. If a snapshot in between has expired, its files may
be gone: then all files that the table has now are read. Of changes that a state has already, versions that it had dropped count
again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pyiceberg.manifest import DataFile, ManifestEntryStatus, ManifestFile
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Snapshot

from walferry.replication.sinks.iceberg.commits import VALID_THROUGH
from walferry.replication.sinks.iceberg.tables import LakeError

ADDED = "added-data-files"  # in a snapshot's summary


@dataclass(frozen=True)
class ChangeFiles:
    """Files to read, and the snapshot of the table of changes up to which a state is then; `last` if that is the present one."""

    snapshot: int
    files: tuple[DataFile, ...]
    last: bool


def files_since(changes: Table, since: int | None, most_bytes: int, most_files: int) -> ChangeFiles | None:
    """Return the files behind a snapshot of a table of changes (None: all), or those of some snapshots if there are many.

    None if there is no other snapshot yet. Raises what the catalog's files raise, LakeError.
    """
    now = changes.current_snapshot()
    if now is None or now.snapshot_id == since:
        return None
    chain = _chain(changes, now, since)
    if chain is None:
        return ChangeFiles(now.snapshot_id, tuple(data_files(changes)), last=True)
    found, size, appended = list[DataFile](), 0, _Appended(changes, now)
    for each in chain:
        some = appended.by(each)
        if found and (size + sum(file.file_size_in_bytes for file in some) > most_bytes or len(found) + len(some) > most_files):
            break
        found += some
        size += sum(file.file_size_in_bytes for file in some)
        last = each
    return ChangeFiles(last.snapshot_id, tuple(found), last=last is now)


def valid_through(changes: Table, snapshot: int) -> str:
    """Return the time up to which a table of changes had all edits by a snapshot, as its feed has noted it; empty if unknown."""
    some = ancestors(changes, changes.metadata.snapshot_by_id(snapshot))
    return next((found for each in some if each.summary is not None and (found := each.summary.get(VALID_THROUGH))), "")


def ancestors(table: Table, each: Snapshot | None) -> Iterator[Snapshot]:
    """Yield a snapshot, and those before it that have not expired."""
    while each is not None:
        yield each
        parent = each.parent_snapshot_id
        each = table.metadata.snapshot_by_id(parent) if parent is not None else None


def data_files(table: Table) -> Iterator[DataFile]:
    """Yield all files of a table. Raises LakeError if others have deleted rows of them."""
    for each in table.scan().plan_files():
        if each.delete_files:
            raise LakeError(
                f"table {'.'.join(table.name())}: rows of {each.file.file_path} were deleted by another program",
                "Have its engine rewrite the table's files (in Spark: rewrite_data_files with delete-file-threshold 1)",
            )
        yield each.file


def _chain(changes: Table, now: Snapshot, since: int | None) -> list[Snapshot] | None:
    """Return the snapshots behind `since` (None: all there were), the oldest first; None if one of them is missing.

    PyIceberg lets a snapshot whose parent has expired have none, as the table's first one has.
    """
    found, each = list[Snapshot](), now
    while each.snapshot_id != since:
        found.append(each)
        if each.parent_snapshot_id is None:
            return found[::-1] if since is None and is_first(each) else None
        before = changes.metadata.snapshot_by_id(each.parent_snapshot_id)
        if before is None:
            return None
        each = before
    return found[::-1]


def is_first(snapshot: Snapshot) -> bool:
    """Return whether a snapshot is the first one that its table has had."""
    return snapshot.parent_snapshot_id is None and snapshot.sequence_number == 1


class _Appended:
    """Finds the files that a snapshot has appended. The present snapshot's list names the manifests of most earlier ones."""

    def __init__(self, changes: Table, now: Snapshot) -> None:
        self._io = changes.io
        self._manifests: dict[int | None, list[ManifestFile]] = {}
        for manifest in now.manifests(changes.io):
            self._manifests.setdefault(manifest.added_snapshot_id, []).append(manifest)

    def by(self, snapshot: Snapshot) -> list[DataFile]:
        """Return a snapshot's files; none if it has not appended any."""
        if snapshot.summary is None or snapshot.summary.operation is not Operation.APPEND:
            return []
        found = self._in(snapshot, self._manifests.get(snapshot.snapshot_id, []))
        if str(len(found)) != snapshot.summary.get(ADDED):  # others have written a manifest again since
            found = self._in(snapshot, snapshot.manifests(self._io))
        return found

    def _in(self, snapshot: Snapshot, manifests: Iterable[ManifestFile]) -> list[DataFile]:
        return [
            entry.data_file
            for manifest in manifests
            if manifest.added_snapshot_id == snapshot.snapshot_id and manifest.has_added_files()
            for entry in manifest.fetch_manifest_entry(self._io, discard_deleted=True)
            if entry.status is ManifestEntryStatus.ADDED and entry.snapshot_id in (None, snapshot.snapshot_id)
        ]
