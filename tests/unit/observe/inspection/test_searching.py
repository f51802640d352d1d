"""One file is searched where it lies by then, and many side by side."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.cli.test_wal import SERVER, WAL, put, written
from tests.unit.hbase.wal.encoder import encode_wal
from walferry.observe.inspection import searching
from walferry.observe.inspection.layouts import json_layout
from walferry.observe.inspection.searching import Answer, Question, search, search_all
from walferry.observe.inspection.selection import Selection

EVERYTHING = Question(Selection(), json_layout)


def test_a_file_that_is_archived_meanwhile_is_read_there(tmp_path: Path) -> None:
    archived = put(tmp_path / "oldWALs" / WAL.format(1), encode_wal(written(1)))
    listed = f"file://{tmp_path}/WALs/{SERVER}/{WAL.format(1)}"
    *parts, answer = search(listed, EVERYTHING)
    assert [part for part in parts if f'"wal":"file://{archived}"'.encode() in bytes(part)] == parts != []
    assert answer == Answer(f"file://{archived}", archived.stat().st_size, 1)


def test_a_file_that_is_deleted_meanwhile_is_named(tmp_path: Path) -> None:
    for url in (
        f"file://{tmp_path}/WALs/{SERVER}/{WAL.format(1)}",
        f"file://{tmp_path}/WALs/x/y",
        f"file://{tmp_path}/{WAL.format(1)}",
    ):
        assert list(search(url, EVERYTHING)) == [Answer(url, problem=f"{url}: there is no such file")]


def test_parts_come_in_the_order_of_the_files(tmp_path: Path) -> None:
    urls = [f"file://{put(tmp_path / WAL.format(number), encode_wal(written(number % 7 + 1)))}" for number in range(100)]
    files: list[list[bytes]] = [[]]
    answers = []
    for part in search_all(urls, EVERYTHING):
        if isinstance(part, Answer):
            answers.append(part)
            files.append([])
        else:
            files[-1].append(part)
    assert [answer.url for answer in answers] == urls
    assert [b"".join(parts).count(b"\n") for parts in files[:-1]] == [number % 7 + 1 for number in range(100)]


def test_a_search_that_is_given_up_leaves_no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = []

    def endless(url: str, *_: object) -> Iterator[bytes]:
        begun.append(url)
        while True:
            yield b"part"

    monkeypatch.setattr(searching, "search", endless)
    before = threading.active_count()
    parts = search_all((str(number) for number in range(1000)), EVERYTHING)
    assert next(parts) == b"part"
    parts.close()
    assert threading.active_count() == before
    assert len(begun) < 100


def test_a_fault_of_the_program_ends_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    def faulty(*_: object) -> Iterator[bytes]:
        yield b"part"
        raise ZeroDivisionError

    monkeypatch.setattr(searching, "search", faulty)
    with pytest.raises(ZeroDivisionError):
        list(search_all(["one", "two"], EVERYTHING))
