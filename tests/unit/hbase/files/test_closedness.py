"""When a WAL's file counts as complete."""

import threading
from pathlib import Path

import pytest

from walferry.hbase.files import closedness as module
from walferry.hbase.files.closedness import Closed, Open, WalMissing, WalNotClosed, await_closed, closedness
from walferry.hbase.files.store import WalLocation, WalStore
from walferry.hbase.names import parse_wal_name
from walferry.hbase.wal.header import EMPTY_TRAILER

SERVER = "rs-1.example.org,16020,1700000000001"
WAL = parse_wal_name("rs-1.example.org%2C16020%2C1700000000001.1700000000123")
ENTRIES = b"PWAL" + bytes(5000)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for folder in (f"WALs/{SERVER}", f"WALs/{SERVER}-splitting", "oldWALs"):
        (tmp_path / folder).mkdir(parents=True)
    return tmp_path


@pytest.fixture
def store(root: Path) -> WalStore:
    return WalStore(f"file://{root}")


def located(store: WalStore) -> WalLocation:
    found = store.locate(WAL)
    assert found is not None
    return found


def test_a_file_with_a_trailer_is_closed_and_ends_there(root: Path, store: WalStore) -> None:
    (root / f"WALs/{SERVER}/{WAL}").write_bytes(ENTRIES + EMPTY_TRAILER)
    assert closedness(store, located(store)) == Closed(end=len(ENTRIES))


@pytest.mark.parametrize("folder", ["oldWALs", f"WALs/{SERVER}-splitting"])
@pytest.mark.parametrize("data", [b"", b"PWAL", ENTRIES, ENTRIES + EMPTY_TRAILER[:-1]], ids=["empty", "magic", "entries", "part"])
def test_a_file_without_a_whole_trailer_is_open_until_its_writer_is_fenced_off(
    root: Path, store: WalStore, folder: str, data: bytes
) -> None:
    written = root / f"WALs/{SERVER}/{WAL}"
    written.write_bytes(data)
    assert isinstance(closedness(store, located(store)), Open)
    written.rename(root / folder / WAL.text)
    assert closedness(store, located(store)) == Closed(end=None)


@pytest.mark.parametrize("end", [b"\0\0\0\1LAWP", b"\x08\1\0\0\0\2LAWP", b"\0\0\x10\0LAWP", b"\xff\xff\xff\xffLAWP"])
def test_only_the_trailer_that_hbase_writes_closes_a_file(root: Path, store: WalStore, end: bytes) -> None:
    written = root / f"WALs/{SERVER}/{WAL}"
    written.write_bytes(ENTRIES + end)
    assert isinstance(closedness(store, located(store)), Open)
    written.rename(root / "oldWALs" / WAL.text)
    assert closedness(store, located(store)) == Closed(end=None)


def test_last_bytes_that_are_part_of_an_entry_do_not_close_a_file(root: Path, store: WalStore) -> None:
    written = root / f"WALs/{SERVER}/{WAL}"
    written.write_bytes(ENTRIES + EMPTY_TRAILER)
    known = (len(ENTRIES + EMPTY_TRAILER),)
    state = closedness(store, located(store), known)
    assert isinstance(state, Open)
    assert "what looks like its trailer is part of an entry" in state.reason
    written.write_bytes(ENTRIES + EMPTY_TRAILER * 2)
    assert closedness(store, located(store), known) == Closed(end=len(ENTRIES + EMPTY_TRAILER))
    written.write_bytes(ENTRIES + EMPTY_TRAILER)
    written.rename(root / "oldWALs" / WAL.text)
    assert closedness(store, located(store), known) == Closed(end=None)


@pytest.mark.parametrize("folder", ["oldWALs", f"WALs/{SERVER}-splitting"])
def test_a_fenced_file_is_open_while_hdfs_recovers_its_length(
    root: Path, store: WalStore, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    (root / folder / WAL.text).write_bytes(ENTRIES)
    monkeypatch.setattr(WalStore, "has_no_writer", lambda *_: False)
    assert isinstance(closedness(store, located(store)), Open)


def test_the_size_is_the_one_that_hdfs_has_recovered(root: Path, store: WalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    path = root / f"oldWALs/{WAL}"
    path.write_bytes(ENTRIES[:85])

    def recover(*_: object) -> bool:
        path.write_bytes(ENTRIES)
        return True

    monkeypatch.setattr(WalStore, "has_no_writer", recover)
    assert await_closed(store, WAL).size == len(ENTRIES)


def test_a_file_that_is_closed_a_moment_later_is_waited_for(root: Path, store: WalStore) -> None:
    path = root / f"WALs/{SERVER}/{WAL}"
    path.write_bytes(ENTRIES)
    timer = threading.Timer(0.3, lambda: path.write_bytes(ENTRIES + EMPTY_TRAILER))
    timer.start()
    assert await_closed(store, WAL, timeout_seconds=20).size == len(ENTRIES + EMPTY_TRAILER)
    timer.join()


def test_a_file_that_is_archived_meanwhile_is_found_there(root: Path, store: WalStore) -> None:
    path = root / f"WALs/{SERVER}/{WAL}"
    path.write_bytes(ENTRIES)
    timer = threading.Timer(0.3, lambda: path.rename(root / f"oldWALs/{WAL}"))
    timer.start()
    assert await_closed(store, WAL, timeout_seconds=20).archived
    timer.join()


def test_waiting_ends_and_the_error_says_why(root: Path, store: WalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "POLL_SECONDS", 0.01)
    (root / f"WALs/{SERVER}/{WAL}").write_bytes(ENTRIES)
    with pytest.raises(WalNotClosed, match=r"is not closed after 0\.1 s: it has no trailer.*the next run takes it up"):
        await_closed(store, WAL, timeout_seconds=0.1)


def test_a_missing_file_is_named_with_all_places_looked_at(store: WalStore) -> None:
    with pytest.raises(WalMissing) as missing:
        await_closed(store, WAL, ["dead,1,2"])
    for place in (f"WALs/{SERVER}/", f"WALs/{SERVER}-splitting/", "oldWALs/", "WALs/dead,1,2/", "WALs/dead,1,2-splitting/"):
        assert f"{store.root}/{place}{WAL}" in str(missing.value)


def test_a_file_that_moves_between_finding_and_opening_is_looked_for_again(
    root: Path, store: WalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = root / f"WALs/{SERVER}/{WAL}"
    path.write_bytes(ENTRIES + EMPTY_TRAILER)
    real = WalStore.open

    def archived_first(self: WalStore, location: WalLocation) -> object:
        if path.exists():
            path.rename(root / f"oldWALs/{WAL}")
        return real(self, location)

    monkeypatch.setattr(WalStore, "open", archived_first)
    assert await_closed(store, WAL).archived
