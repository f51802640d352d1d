"""The archive of WALs: names, listings, and copies that are whole or not there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest

from walferry.hbase.files import systems
from walferry.hbase.files.errors import StoreError
from walferry.hbase.files.systems import open_wal, write_file
from walferry.hbase.names import parse_wal_name
from walferry.replication.retention.archive import WalArchive

GROUP = "rs-1.example.org%2C16020%2C1700000000001"
WALS = [parse_wal_name(f"{GROUP}.{timestamp}") for timestamp in (999, 1000)]
OTHER = parse_wal_name(f"{GROUP}.{GROUP}.regiongroup-1.1000")


@pytest.fixture(params=["file", "memory"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "file":
        yield f"file://{tmp_path}"
        return
    yield "memory://archive"
    memory = fsspec.filesystem("memory")
    memory.store.clear()
    memory.pseudo_dirs[:] = [""]


def test_copies_are_listed_by_group_and_oldest_first(root: str) -> None:
    archive = WalArchive(f"{root}/kept/")
    assert list(archive.wals()) == []
    for wal in (OTHER, *reversed(WALS)):
        write_file(f"{root}/{wal}", wal.text.encode())
        assert archive.put(wal, f"{root}/{wal}")
    found = list(archive.wals())
    assert [each.name for each in found] == [*WALS, OTHER]
    assert all(each.size == len(each.name.text) and each.copied for each in found)
    assert archive.groups() == [GROUP, OTHER.group]
    assert archive.wals_of("unknown") == []
    with open_wal(archive.url_of(OTHER)) as file:
        assert file.read_at(0, 1000) == OTHER.text.encode()


def test_the_folder_has_the_group_quoted_as_in_zookeeper(tmp_path: Path) -> None:
    write_file(f"file://{tmp_path}/wal", b"edits")
    WalArchive(f"file://{tmp_path}").put(OTHER, f"file://{tmp_path}/wal")
    assert (tmp_path / OTHER.group.replace("%", "%25") / OTHER.text).read_bytes() == b"edits"


def test_a_wal_is_copied_once_but_an_incomplete_copy_is_replaced(root: str) -> None:
    archive, source = WalArchive(f"{root}/kept"), f"{root}/{WALS[0]}"
    write_file(source, b"all edits")
    assert list(archive.wals()) == []
    assert archive.put(WALS[0], source)
    assert [copy.name for copy in archive.wals()] == [WALS[0]]
    assert not archive.put(WALS[0], source)
    write_file(archive.url_of(WALS[0]), b"all")
    assert archive.put(WALS[0], source)
    with open_wal(archive.url_of(WALS[0])) as file:
        assert file.read_at(0, 1000) == b"all edits"


def test_a_copy_that_fails_leaves_nothing_that_is_listed(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    archive, source = WalArchive(f"{root}/kept"), f"{root}/{WALS[0]}"
    write_file(source, b"all edits")

    def fail(*args: object) -> None:
        raise OSError("no space left")

    with monkeypatch.context() as patched:
        patched.setattr(systems, "_put_in_place", fail)
        with pytest.raises(StoreError, match="no space left"):
            archive.put(WALS[0], source)
    assert list(archive.wals()) == []
    assert archive.put(WALS[0], source)
    write_file(f"{archive.url_of(WALS[1])}.0123.part", b"half")
    assert [each.name for each in archive.wals()] == [WALS[0]]


def test_a_wal_that_has_moved_is_not_found(root: str) -> None:
    with pytest.raises(FileNotFoundError):
        WalArchive(f"{root}/kept").put(WALS[0], f"{root}/gone")


def test_an_archive_that_does_not_exist_has_no_wals(root: str) -> None:
    assert list(WalArchive(f"{root}/nowhere").wals()) == []


def test_a_copy_that_is_shorter_than_its_wal_is_not_put_in_place(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    archive, source = WalArchive(f"{root}/kept"), f"{root}/{WALS[0]}"
    write_file(source, b"all edits")

    class Ending:
        """A file whose reads end early, as those of a stream may."""

        size = 9

        def __enter__(self) -> Ending:
            return self

        def __exit__(self, *error: object) -> None:
            return

        def read_at(self, offset: int, length: int) -> bytes:
            return b"all edits"[offset : min(offset + length, 8)]

    with monkeypatch.context() as patched:
        patched.setattr(systems, "open_wal", lambda url, **_: Ending())
        with pytest.raises(StoreError, match="ended at byte 8 of 9"):
            archive.put(WALS[0], source)
    assert list(archive.wals()) == []
