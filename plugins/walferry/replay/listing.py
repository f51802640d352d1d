"""Lists the WALs of a cluster wherever they lie: WALs, oldWALs and the archive. Each folder is listed once.

A WAL moves from WALs to oldWALs, and its copy is in the archive before HBase deletes it. The folders are listed in this order, so
no WAL is missed if it moves meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

from walferry.hbase.files.store import OLD_WALS, SPLITTING, WALS
from walferry.hbase.files.systems import FolderEntry, list_entries
from walferry.hbase.names import WalName, as_wal_name, is_server_name
from walferry.replication.queues.reading import list_queues
from walferry.replication.retention.archive import WalArchive
from walferry.replication.source.session import Session


class WalPlace(IntEnum):
    """Where a WAL was found. If it was found twice, the larger place counts. An archived copy counts less than any other file."""

    NOWHERE = 0  # a queue names it, but its file was not found
    ARCHIVE = 1
    SERVER = 2  # in the folder of its server, which may still write to it
    SPLITTING = 3  # in the folder of a dead server, which the Master is splitting
    OLD = 4


@dataclass(frozen=True, slots=True)
class WalFile:
    """A WAL's file as it was listed."""

    name: WalName
    url: str
    size: int  # bytes, as far as they are known
    modified: int | None  # when it was closed or copied, in ms since the epoch; None: not known
    place: WalPlace


def all_wals(session: Session) -> Iterator[WalFile]:
    """Yield all WALs of the cluster except hbase:meta's, some of them twice. Raises StoreError, WrongRoot, StorageError."""
    session.store.check_root()
    root = session.store.root
    for folder in list_entries(f"{root}/{WALS}"):
        if folder.is_folder:
            yield from _of_server(f"{root}/{WALS}/{folder.name.removesuffix(SPLITTING)}", folder.name.endswith(SPLITTING))
    archived = list_entries(f"{root}/{OLD_WALS}")
    yield from _in_folder(f"{root}/{OLD_WALS}", archived, WalPlace.OLD)
    for folder in archived:
        if folder.is_folder and is_server_name(folder.name):
            url = f"{root}/{OLD_WALS}/{folder.name}"
            yield from _in_folder(url, list_entries(url), WalPlace.OLD)
    if session.source.archive:
        for wal in WalArchive(session.source.archive).wals():
            yield WalFile(wal.name, wal.url, wal.size, _ms(wal.copied), WalPlace.ARCHIVE)
    for queue in list_queues(session):
        for queued in queue.wals:
            yield WalFile(queued.name, "", 0, None, WalPlace.NOWHERE)


def _of_server(url: str, splitting: bool) -> Iterator[WalFile]:
    if not splitting and (entries := list_entries(url)):
        yield from _in_folder(url, entries, WalPlace.SERVER)
        return
    # The Master may have renamed the folder since it was listed.
    yield from _in_folder(f"{url}{SPLITTING}", list_entries(f"{url}{SPLITTING}"), WalPlace.SPLITTING)


def _in_folder(url: str, entries: list[FolderEntry], place: WalPlace) -> Iterator[WalFile]:
    for entry in entries:
        if entry.is_folder:
            continue
        name = as_wal_name(entry.name)
        if name is not None and not name.is_meta:
            # An open file's time means nothing: HDFS sets it when the file is closed.
            modified = None if place is WalPlace.SERVER else _ms(entry.modified)
            yield WalFile(name, f"{url}/{entry.name}", entry.size, modified, place)


def _ms(seconds: float | None) -> int | None:
    return None if seconds is None else int(seconds * 1000)
