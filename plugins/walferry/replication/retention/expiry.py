"""Deletes what has been in the archive for long enough."""

from __future__ import annotations

import time
from dataclasses import dataclass

from walferry.hbase.files.systems import delete_empty_folder, delete_file, list_entries
from walferry.hbase.layout import quoted
from walferry.hbase.names import parse_wal_name
from walferry.replication.retention.archive import PART, WalArchive

PART_SECONDS = 86400.0  # no copy takes that long, so its run was killed


@dataclass(frozen=True)
class Expired:
    """What is in the archive, and what was deleted from it."""

    kept: int
    kept_bytes: int
    deleted: int
    deleted_bytes: int


def expire(archive: WalArchive, ttl_seconds: float) -> Expired:
    """Delete copies that are older than the TTL, what killed copiers have left, and empty folders. Raises StoreError.

    A copy whose age the file system does not tell is kept. Files that are not Walferry's are left alone.
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
    """Whether this is the name of a copy that was begun: the WAL, a random number, PART."""
    return name.endswith(PART) and _is_wal_of(name.removesuffix(PART).rpartition(".")[0], group)


def _is_wal_of(name: str, group: str) -> bool:
    try:
        return parse_wal_name(name).group == group
    except ValueError:
        return False
