"""New files: as a whole, in pieces, or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest

from walferry.files import systems
from walferry.files.errors import StoreError
from walferry.files.systems import NewFile


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
