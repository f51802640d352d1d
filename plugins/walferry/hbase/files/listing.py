"""Finds many WALs at once. It lists each folder that may contain some of them once, and keeps only the wanted WALs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from walferry.hbase.files.errors import NoFileRight
from walferry.hbase.files.store import OLD_WALS, SPLITTING, WALS, WalLocation, WalStore
from walferry.hbase.files.systems import list_folder
from walferry.hbase.names import WalName

SINGLY = 50  # up to this many WALs are looked for one by one, because oldWALs may contain a million others

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
