"""Finding many WALs by listing folders."""

from __future__ import annotations

from pathlib import Path

import fsspec
import pytest

from tests.unit.hbase.files.stores import store
from walferry.hbase.files import listing
from walferry.hbase.files.listing import locate_all
from walferry.hbase.files.store import WalStore
from walferry.hbase.names import WalName, parse_wal_name

__all__ = ["store"]  # a fixture

SERVERS = ["rs-1.example.org,16020,1700000000001", "rs-2.example.org,16020,1700000000002"]
CLAIMER = "rs-9.example.org,16020,1700000000009"
FOLDERS = ["WALs/{}", "WALs/{}-splitting", "oldWALs", "oldWALs/{}", f"WALs/{CLAIMER}", f"oldWALs/{CLAIMER}"]


@pytest.fixture(autouse=True)
def by_listing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "SINGLY", 0)


def wal(server: str, timestamp: int) -> WalName:
    return parse_wal_name(f"{server.replace(',', '%2C')}.{timestamp}")


def put(store: WalStore, folder: str, name: WalName, size: int = 5) -> None:
    with fsspec.open(f"{store.root}/{folder}/{name.text}", "wb", auto_mkdir=True) as file:
        file.write(bytes(size))


def test_the_listings_find_what_single_lookups_find(store: WalStore) -> None:
    wanted = []
    for timestamp, folder in enumerate(FOLDERS):
        for server in SERVERS:
            name = wal(server, timestamp)
            put(store, folder.format(server), name, size=timestamp)
            wanted.append((name, [CLAIMER]))
    put(store, "oldWALs", wal(SERVERS[0], 100))  # is not queued
    put(store, f"WALs/{SERVERS[1]}", wal(SERVERS[0], 101))  # does not belong there
    wanted += [(wal(SERVERS[0], 101), []), (wal(SERVERS[1], 102), [])]
    found = locate_all(store, wanted)
    assert found == {name.text: at for name, dead in wanted if (at := store.locate(name, dead)) is not None}
    assert len(found) == len(wanted) - 2


def test_without_any_folder_nothing_is_found(store: WalStore) -> None:
    assert locate_all(store, [(wal(SERVERS[0], 1), [])]) == {}


def test_a_wal_that_moves_on_between_two_listings_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is still split when oldWALs is listed, and the splitting folder has been listed before it got there."""
    store, name = WalStore(f"file://{tmp_path}"), wal(SERVERS[0], 1)
    folders = [tmp_path / folder for folder in (f"WALs/{SERVERS[0]}", f"WALs/{SERVERS[0]}-splitting", "oldWALs")]
    for folder in folders:
        folder.mkdir(parents=True)
    (folders[0] / name.text).write_bytes(b"12345")
    real = listing.list_folder

    def moving(url, wanted):
        if url.endswith(SERVERS[0]):
            (folders[0] / name.text).rename(folders[2] / name.text)
        found = real(url, wanted)
        if url.endswith("oldWALs"):
            return {}  # as if it had come there a moment later
        return found

    monkeypatch.setattr(listing, "list_folder", moving)
    (found,) = locate_all(store, [(name, [])]).values()
    assert (found.url, found.size, found.archived) == (f"file://{tmp_path}/oldWALs/{name.text}", 5, True)


def test_of_the_two_places_that_a_moving_wal_was_seen_at_the_later_one_counts(store: WalStore) -> None:
    name = wal(SERVERS[0], 1)
    put(store, f"WALs/{SERVERS[0]}", name)
    put(store, f"WALs/{SERVERS[0]}-splitting", name)
    (found,) = locate_all(store, [(name, [])]).values()
    assert found.splitting


def test_few_wals_are_asked_for_singly_however_large_the_folders_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "SINGLY", 50)
    monkeypatch.setattr(listing, "list_folder", lambda *_: pytest.fail("a folder was listed"))
    store = WalStore(f"file://{tmp_path}")
    put(store, "oldWALs", wal(SERVERS[0], 1))
    assert len(locate_all(store, [(wal(SERVERS[0], n), []) for n in range(50)])) == 1
