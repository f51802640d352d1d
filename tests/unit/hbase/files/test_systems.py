"""Files are read at any place, and written as a whole, in pieces, or not at all."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest

from tests.unit.hbase.files.stores import BYTES, put, store
from walferry.hbase.files import systems
from walferry.hbase.files.errors import StoreError
from walferry.hbase.files.store import WalStore
from walferry.hbase.files.systems import NewFile, copy_file, open_wal, write_file

__all__ = ["store"]


@pytest.fixture(params=["file", "memory"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "file":
        yield f"file://{tmp_path}"
        return
    yield "memory://new"
    fsspec.filesystem("memory").rm("/", recursive=True)


def content(url: str) -> bytes:
    with fsspec.open(url, "rb") as file:
        data = file.read()
    assert isinstance(data, bytes)
    return data


@pytest.mark.parametrize("piece", [1, 7, 1000, 1 << 20])
def test_a_file_has_what_was_written_and_folders_are_made(folder: str, piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(systems, "COPY_BYTES", piece)
    url, data = f"{folder}/staging/f/new", bytes(range(256)) * 3
    held = bytearray(data)
    with NewFile(url) as file:
        for start in range(0, len(data), 100):
            file.write(memoryview(held)[start : start + 100])
            held[start : start + 100] = bytes(len(held[start : start + 100]))  # the caller may use its buffer again
        file.write(b"")
    assert content(url) == data


def test_a_file_may_be_empty(folder: str) -> None:
    with NewFile(f"{folder}/f/empty"):
        pass
    assert content(f"{folder}/f/empty") == b""


def test_two_files_may_be_made_in_one_folder(folder: str) -> None:
    with NewFile(f"{folder}/f/one") as one, NewFile(f"{folder}/f/two") as two:
        one.write(b"1")
        two.write(b"2")
    assert (content(f"{folder}/f/one"), content(f"{folder}/f/two")) == (b"1", b"2")


@pytest.mark.parametrize("size", [0, 10, 2000])
def test_of_a_file_that_was_not_finished_nothing_is_left(folder: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(systems, "COPY_BYTES", 1000)
    url = f"{folder}/f/new"

    def write() -> None:
        with NewFile(url) as file:
            file.write(bytes(size))
            raise RuntimeError("half way")

    with pytest.raises(RuntimeError, match="half way"):
        write()
    with pytest.raises(FileNotFoundError):
        content(url)


def test_a_file_that_cannot_be_made_says_where(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"")
    with pytest.raises(StoreError, match="/f/new"):
        NewFile(f"file://{tmp_path}/f/new")


def test_any_range_can_be_read_and_ends_with_the_file(store: WalStore) -> None:
    url = put(store, "oldWALs")
    with open_wal(url) as file:
        assert file.size == len(BYTES)
        assert file.read_at(5, 10) == BYTES[5:15]
        assert file.read_at(0, len(BYTES)) == BYTES
        assert file.read_at(len(BYTES) - 3, 100) == BYTES[-3:]
        assert file.read_at(len(BYTES), 1) == b""
        assert file.read_at(len(BYTES) + 1000, 1) == b""


def test_threads_do_not_disturb_each_other_s_reads(store: WalStore) -> None:
    wrong = []
    with open_wal(put(store, "oldWALs")) as file:

        def read(seed: int) -> None:
            for i in range(200):
                offset = (seed * 7919 + i * 104729) % (len(BYTES) - 100)
                if file.read_at(offset, 100) != BYTES[offset : offset + 100]:
                    wrong.append(offset)

        threads = [threading.Thread(target=read, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong


def test_what_could_not_be_written_whole_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "wal").write_bytes(BYTES)
    monkeypatch.setattr(systems, "_put_in_place", lambda *_: (_ for _ in ()).throw(OSError("no space left")))
    for write in (
        lambda: copy_file(f"file://{tmp_path}/wal", f"file://{tmp_path}/aside/wal"),
        lambda: write_file(f"file://{tmp_path}/aside/wal.json", b"{}"),
    ):
        with pytest.raises(StoreError, match="no space left"):
            write()
    assert list((tmp_path / "aside").iterdir()) == []


def test_two_who_write_the_same_file_at_the_same_time_do_not_mix_their_bytes(tmp_path: Path) -> None:
    contents = [bytes([n]) * (1 << 20) for n in range(4)]
    errors: list[StoreError] = []

    def write(data: bytes) -> None:
        try:
            write_file(f"file://{tmp_path}/aside/wal", data)
        except StoreError as e:  # whose turn it is to be put in place is not arranged: such a run tries again
            errors.append(e)

    writers = [threading.Thread(target=write, args=(data,)) for data in contents]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert len(errors) < len(contents)
    assert (tmp_path / "aside" / "wal").read_bytes() in contents
