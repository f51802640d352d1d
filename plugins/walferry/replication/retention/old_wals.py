"""Lists the WALs that HBase has archived and its log cleaner has not deleted yet.

    <wal root>/oldWALs/<WAL>
    <wal root>/oldWALs/<server>/<WAL>    with hbase.separate.oldlogdir.by.regionserver

Each folder is listed once, in one call: HDFS answers with sizes and times, so no file is looked at by itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from walferry.hbase.files.store import OLD_WALS, WalStore
from walferry.hbase.files.systems import FolderEntry, list_entries
from walferry.hbase.names import is_server_name

_WAL = re.compile(r"(.+)\.(\d+)(\.[0-9A-Za-z]+)?")  # AbstractFSWALProvider.WAL_FILE_NAME_PATTERN: what the cleaner takes for one


@dataclass(frozen=True, slots=True)
class OldWal:
    """A file in oldWALs."""

    name: str
    size: int  # bytes
    modified: float  # its last write, in seconds since the epoch
    is_wal: bool  # whether its name is a WAL's; the Master keeps files of its own here


def list_old_wals(store: WalStore) -> list[OldWal]:
    """List all files in oldWALs. Raises StoreError: WrongRoot if no cluster keeps its WALs there."""
    store.check_root()
    folder = f"{store.root}/{OLD_WALS}"
    entries = list_entries(folder)
    found = list(_files(entries))
    for entry in entries:
        if entry.is_folder and is_server_name(entry.name):
            found += _files(list_entries(f"{folder}/{entry.name}"))
    return found


def _files(entries: Iterable[FolderEntry]) -> Iterable[OldWal]:
    for entry in entries:
        if not entry.is_folder:
            yield OldWal(entry.name, entry.size, entry.modified or 0.0, _WAL.fullmatch(entry.name) is not None)
