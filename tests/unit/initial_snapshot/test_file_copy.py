"""A copied HFile is whole, known by its end, and unlike every other copy."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path

import pytest

from tests.unit.initial_snapshot.test_hfiles import ENTRIES, hfile
from walferry.hbase.files.errors import StoreError
from walferry.hbase.files.systems import open_wal
from walferry.initial_snapshot import file_copy
from walferry.initial_snapshot.file_copy import copy_file
from walferry.initial_snapshot.hfiles import TRAILER_BYTES, OtherInfo, read_info


def test_a_copy_is_read_in_pieces_and_no_two_copies_have_the_same_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_copy, "COPY_BYTES", 7)
    source = tmp_path / "source"
    source.write_bytes(hfile(ENTRIES).data)
    copies = [(tmp_path / "staging" / name).as_uri() for name in ("one", "other")]
    ends = [copy_file(source.as_uri(), copy, "task") for copy in copies]
    assert ends[0] != ends[1]
    for copy, end in zip(copies, ends, strict=True):
        with open_wal(copy) as file:
            assert end.is_that_of(file)
            assert file.read_at(0, 100) == source.read_bytes()[:100]
            assert read_info(file, copy, "copy").cells == 5


def test_a_source_that_ends_early_leaves_no_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"short")
    monkeypatch.setattr(file_copy, "info_without_numbers", lambda *_: OtherInfo(1000, 1001, b"info"))
    with pytest.raises(StoreError, match="ended at byte 5 of 5"):
        copy_file(source.as_uri(), (tmp_path / "copy").as_uri(), "task")
    assert not (tmp_path / "copy").exists()


def test_a_copy_of_a_file_with_very_much_behind_its_info_takes_little_memory(tmp_path: Path) -> None:
    data = hfile(ENTRIES).data
    source, copy = tmp_path / "source", tmp_path / "copy"
    with source.open("wb") as file:
        file.write(data[:-TRAILER_BYTES])
        file.truncate(len(data) + (100 << 20))
        file.seek(0, os.SEEK_END)
        file.write(data[-TRAILER_BYTES:])
    tracemalloc.start()
    try:
        end = copy_file(source.as_uri(), copy.as_uri(), "task")
        with open_wal(copy.as_uri()) as file:
            assert end.is_that_of(file)
        assert tracemalloc.get_traced_memory()[1] < 60 << 20
    finally:
        tracemalloc.stop()
