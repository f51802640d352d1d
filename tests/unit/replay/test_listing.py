"""WALs are found although HBase moves them while their folders are listed."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from walferry.hbase.files.store import WalStore
from walferry.hbase.files.systems import FolderEntry, list_entries
from walferry.replay import listing
from walferry.replay.listing import WalPlace, all_wals

SERVER = "h,16020,1700000000001"
WAL = "h%2C16020%2C1700000000001.1700000000002"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for folder in (f"WALs/{SERVER}", "oldWALs"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "WALs" / SERVER / WAL).write_bytes(b"PWAL")
    return tmp_path


def listed(root: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, WalPlace]]:
    monkeypatch.setattr(listing, "list_queues", lambda session: ())
    session = SimpleNamespace(store=WalStore(f"file://{root}"), source=SimpleNamespace(archive=None))
    return [(wal.name.text, wal.place) for wal in all_wals(session)]  # type: ignore[arg-type]


def after(folder: Path, move: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Move a file or folder as soon as `folder` has been listed."""

    def list_and_move(url: str) -> list[FolderEntry]:
        entries = list_entries(url)
        if url == f"file://{folder}":
            move[0].rename(move[1])
        return entries

    monkeypatch.setattr("walferry.hbase.files.listing.list_entries", list_and_move)


def test_a_folder_that_the_master_renames_to_split_it_is_listed_under_its_new_name(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wals = root / "WALs"
    after(wals, (wals / SERVER, wals / f"{SERVER}-splitting"), monkeypatch)
    assert listed(root, monkeypatch) == [(WAL, WalPlace.SPLITTING)]


def test_a_wal_that_is_archived_meanwhile_is_found_in_either_place(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wals = root / "WALs"
    after(wals, (wals / SERVER / WAL, root / "oldWALs" / WAL), monkeypatch)
    assert listed(root, monkeypatch) == [(WAL, WalPlace.OLD)]
