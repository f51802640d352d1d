"""Finds many WALs at once, and lists all of a cluster. Each folder is listed once.

A WAL moves from WALs to oldWALs. The folders are listed in this order, so no WAL is missed if it moves meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from walferry.hbase.files.errors import NoFileRight
from walferry.hbase.files.store import OLD_WALS, SPLITTING, WALS, WalLocation, WalStore
from walferry.hbase.files.systems import FolderEntry, list_entries, list_folder
from walferry.hbase.names import WalName, as_wal_name, is_server_name

SINGLY = 50  # up to this many WALs are looked for one by one, because oldWALs may contain a million others


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


_Wanted = Mapping[str, tuple[WalName, Sequence[str]]]  # by file name: the WAL, and the servers whose folders may contain it


def locate_all(
    store: WalStore, wanted: Sequence[tuple[WalName, Sequence[str]]], refused: dict[str, NoFileRight] | None = None
) -> dict[str, WalLocation]:
    """Find the WALs, by name, as calls of WalStore.locate would. WALs that are nowhere are left out.

    A WAL that moves from one folder to the next between two listings is looked for singly. WALs that the user may not access go
    into `refused`, up to SINGLY of them. Raises StoreError.
    """
    by_name = {wal.text: (wal, dead_servers) for wal, dead_servers in wanted}
    found = _listed(store, by_name) if len(by_name) > SINGLY else {}
    for name, (wal, dead_servers) in by_name.items():
        if name in found:
            continue
        try:
            location = store.locate(wal, dead_servers)
        except NoFileRight as error:
            if refused is None or len(refused) == SINGLY:
                raise
            refused[name] = error
            continue
        if location is not None:
            found[name] = location
    return found


def _listed(store: WalStore, wanted: _Wanted) -> dict[str, WalLocation]:
    """Find WALs in the listings. WALs only move down the list of places, so the later place is the newer one."""
    servers = {server for wal, dead in wanted.values() for server in (*([str(wal.server)] if wal.server else []), *dead)}
    found: dict[str, WalLocation] = {}
    folders = list_folder(f"{store.root}/{WALS}", lambda name: name.removesuffix(SPLITTING) in servers)
    for folder in sorted(folders, key=lambda name: name.endswith(SPLITTING)):
        found |= _in_folder(store, f"{WALS}/{folder}", wanted)
    if len(wanted) - len(found) > SINGLY:
        archived = list_folder(f"{store.root}/{OLD_WALS}", lambda name: name in wanted or name in servers)
        for server in archived.keys() & servers:
            found |= _in_folder(store, f"{OLD_WALS}/{server}", wanted)
        for name in archived.keys() & wanted.keys():
            found[name] = WalLocation(f"{store.root}/{OLD_WALS}/{name}", archived[name], archived=True)
    return found


def _in_folder(store: WalStore, folder: str, wanted: _Wanted) -> dict[str, WalLocation]:
    """Return the wanted WALs in a server's folder."""
    splitting, archived = folder.endswith(SPLITTING), folder.startswith(OLD_WALS)
    server = folder.rpartition("/")[2].removesuffix(SPLITTING)
    sizes = list_folder(f"{store.root}/{folder}", lambda name: name in wanted and _may_lie_at(server, *wanted[name]))
    return {name: WalLocation(f"{store.root}/{folder}/{name}", size, archived, splitting) for name, size in sizes.items()}


def _may_lie_at(server: str, wal: WalName, dead_servers: Sequence[str]) -> bool:
    return server in dead_servers or (wal.server is not None and server == str(wal.server))


def stored_wals(store: WalStore, folders: set[str] | None = None) -> Iterator[WalFile]:
    """Yield all WALs below the store's root except hbase:meta's, some of them twice. Raises StoreError, WrongRoot.

    All WALs that were there when the listing of WALs began are yielded, and some of those that were begun later. `folders` gets
    the names of the servers that had a folder in WALs.
    """
    store.check_root()
    for folder in list_entries(f"{store.root}/{WALS}"):
        if folder.is_folder:
            if folders is not None:
                folders.add(folder.name.removesuffix(SPLITTING))
            yield from _of_server(f"{store.root}/{WALS}/{folder.name.removesuffix(SPLITTING)}", folder.name.endswith(SPLITTING))
    archived = list_entries(f"{store.root}/{OLD_WALS}")
    yield from _files_in(f"{store.root}/{OLD_WALS}", archived, WalPlace.OLD)
    for folder in archived:
        if folder.is_folder and is_server_name(folder.name):
            url = f"{store.root}/{OLD_WALS}/{folder.name}"
            yield from _files_in(url, list_entries(url), WalPlace.OLD)


def names_of_server(store: WalStore, server: str) -> list[WalName]:
    """Return the WALs in the folder of a live server. Raises StoreError."""
    return [file.name for file in _of_server(f"{store.root}/{WALS}/{server}", splitting=False)]


def _of_server(url: str, splitting: bool) -> Iterator[WalFile]:
    if not splitting and (entries := list_entries(url)):
        yield from _files_in(url, entries, WalPlace.SERVER)
        return
    # The Master may have renamed the folder since it was listed.
    yield from _files_in(f"{url}{SPLITTING}", list_entries(f"{url}{SPLITTING}"), WalPlace.SPLITTING)


def _files_in(url: str, entries: list[FolderEntry], place: WalPlace) -> Iterator[WalFile]:
    for entry in entries:
        if entry.is_folder:
            continue
        name = as_wal_name(entry.name)
        if name is not None and not name.is_meta:
            # An open file's time means nothing: HDFS sets it when the file is closed.
            modified = None if place is WalPlace.SERVER else milliseconds(entry.modified)
            yield WalFile(name, f"{url}/{entry.name}", entry.size, modified, place)


def milliseconds(seconds: float | None) -> int | None:
    """Return a time in ms since the epoch."""
    return None if seconds is None else int(seconds * 1000)
