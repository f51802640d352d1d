"""The archive: a folder that keeps copies of shipped WALs for longer than HBase keeps its files.

    <archive>/<group, quoted as in ZooKeeper>/<WAL>

A copy has the same bytes as its WAL. It is written under a name that ends with `.part`, and renamed when it is complete, so each
WAL listed here is complete. All peers of the source share one copy.

While a WAL is being copied, its copier has an ephemeral znode under Walferry's root. So a WAL that two peers have shipped at the
same time is copied once: one of them waits for the copy. If the copier dies, its znode is deleted, and another copier takes over.

A WAL leaves its queue only after its copy has been renamed to its final name. If a run is killed before that, the next run finds
the WAL still queued, with its position at the end, and copies it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from kazoo.exceptions import NodeExistsError

from walferry.base.errors import WalferryError
from walferry.base.zk.client import delete_unused, retried
from walferry.hbase.files.closedness import WalMissing
from walferry.hbase.files.errors import StoreError, UnreadableBytes
from walferry.hbase.files.systems import copy_file, delete_empty_folder, delete_file, file_size, list_entries
from walferry.hbase.layout import quoted
from walferry.hbase.names import WalName, as_wal_name
from walferry.replication.source.session import Session

PART = ".part"  # the suffix of an incomplete copy: see files.systems.copy_file
PART_SECONDS = 86400.0  # no copy takes that long, so its run was killed
POLL_SECONDS = 0.5
_NEXT = "The next run copies it. If the archive is not wanted any more, remove `archive` from the source connection's extra"
_LOST = (
    "If the bytes come back, the next run copies it. All of its edits are shipped. The DAG quarantine_wal gives up its "
    "copy in the archive: what is left of the file goes to the quarantine, and the WAL leaves the queue"
)


@dataclass(frozen=True, slots=True)
class ArchivedWal:
    """A WAL in the archive."""

    name: WalName
    url: str
    size: int  # bytes
    copied: float | None  # when it was copied, in seconds since the epoch; None if the file system does not say


class WalArchive:
    """The archive at a folder, which may lie on any file system that fsspec knows."""

    def __init__(self, url: str) -> None:
        self.root = url.rstrip("/")

    def url_of(self, wal: WalName) -> str:
        """Return the URL of the WAL's copy, whether the copy exists or not."""
        return f"{self.root}/{quoted(wal.group)}/{wal.text}"

    def groups(self) -> list[str]:
        """Return the WAL groups with a folder in the archive, in one call to the file system. Raises StoreError."""
        return sorted(unquote(entry.name) for entry in list_entries(self.root) if entry.is_folder)

    def wals(self) -> Iterator[ArchivedWal]:
        """Yield all copies, group by group and oldest first, in one call to the file system for each group. Raises StoreError."""
        for group in self.groups():
            yield from self.wals_of(group)

    def wals_of(self, group: str) -> list[ArchivedWal]:
        """Return the copies of one group's WALs, oldest first. Raises StoreError."""
        found = []
        for entry in list_entries(f"{self.root}/{quoted(group)}"):
            wal = as_wal_name(entry.name)  # None: an unfinished copy, or not our file
            if wal is not None and wal.group == group and not entry.is_folder:
                found.append(ArchivedWal(wal, self.url_of(wal), entry.size, entry.modified))
        return sorted(found, key=lambda archived: archived.name.timestamp)

    def put(self, wal: WalName, url: str) -> bool:
        """Copy the closed WAL whose file lies at `url`, unless the archive contains it already. Returns whether it was copied.

        Raises StoreError, FileNotFoundError if the WAL has moved.
        """
        try:
            copied: int | None = file_size(self.url_of(wal))
        except FileNotFoundError:
            copied = None
        if copied == file_size(url):
            return False
        copy_file(url, self.url_of(wal))
        return True


class NotArchived(WalferryError):
    """A shipped WAL could not be copied to the archive, so it stays in its queue."""

    def __init__(self, wal: WalName, archive: str, why: Exception) -> None:
        super().__init__(
            f"WAL {wal} is shipped, but stays queued because it could not be copied to the archive {archive}: {why}",
            _LOST if isinstance(why, UnreadableBytes) and why.lost else _NEXT,
        )


def archive_wal(session: Session, wal: WalName, dead_servers: Sequence[str], stopped: Callable[[], bool]) -> bool:
    """Copy a closed WAL to the source's archive, or wait for another copier. Returns whether this call has copied it.

    Its queue came from `dead_servers`. Also returns False as soon as `stopped` returns True. Raises NotArchived, ConnectError.
    """
    archive = WalArchive(session.source.archive or "")
    node = session.own.archiving(wal.text)
    while not stopped():
        if not _created(session, node):
            time.sleep(POLL_SECONDS)
            continue
        try:
            return _copied(session, archive, wal, dead_servers)
        except (StoreError, WalMissing, OSError) as error:
            raise NotArchived(wal, archive.root, error) from error
        finally:
            delete_unused(session.zk, node)  # it may be gone with the session
    return False


@dataclass(frozen=True)
class Expired:
    """The size of the archive, and of the copies deleted from it."""

    kept: int
    kept_bytes: int
    deleted: int
    deleted_bytes: int


def expire(archive: WalArchive, ttl_seconds: float) -> Expired:
    """Delete copies that are older than the TTL, the remains of killed copiers, and empty folders. Raises StoreError.

    Copies of unknown age and files that are not Walferry's are kept.
    """
    now = time.time()
    kept = kept_bytes = deleted = deleted_bytes = 0
    for group in archive.groups():
        folder = f"{archive.root}/{quoted(group)}"
        entries = list_entries(folder)
        left = len(entries)
        for entry in entries:
            whole = _is_wal_of(entry.name, group)
            if not whole and not _is_part_of(entry.name, group):
                continue
            age = 0.0 if entry.modified is None else now - entry.modified
            if age > (ttl_seconds if whole else PART_SECONDS):
                delete_file(f"{folder}/{entry.name}")
                deleted, deleted_bytes, left = deleted + 1, deleted_bytes + entry.size, left - 1
            elif whole:
                kept, kept_bytes = kept + 1, kept_bytes + entry.size
        if not left:
            delete_empty_folder(folder)
    return Expired(kept, kept_bytes, deleted, deleted_bytes)


def _is_part_of(name: str, group: str) -> bool:
    """Return whether this is the name of an unfinished copy: the WAL, a random number, PART."""
    return name.endswith(PART) and _is_wal_of(name.removesuffix(PART).rpartition(".")[0], group)


def _is_wal_of(name: str, group: str) -> bool:
    return (wal := as_wal_name(name)) is not None and wal.group == group


def _copied(session: Session, archive: WalArchive, wal: WalName, dead_servers: Sequence[str]) -> bool:
    tried = set()
    while True:
        location = session.store.locate(wal, dead_servers)
        if location is None:
            raise WalMissing(wal.text, session.store.places(wal, dead_servers))
        try:
            return archive.put(wal, location.url)
        except FileNotFoundError:
            if location.url in tried:  # it has not moved, so the archive itself is missing something
                raise
            tried.add(location.url)


def _created(session: Session, node: str) -> bool:
    """Return whether this session has the right to copy now. A right taken by an earlier try of this call counts."""
    try:
        retried(session.zk, session.zk.create, node, ephemeral=True, makepath=True)
    except NodeExistsError:
        found = retried(session.zk, session.zk.exists, node)
        return found is not None and session.zk.client_id is not None and found.ephemeralOwner == session.zk.client_id[0]
    return True
