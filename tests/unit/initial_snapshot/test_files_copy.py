"""The order in which files are loaded, and when a region's files are of no use."""

from __future__ import annotations

import os
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.initial_snapshot.test_hfiles import ENTRIES, hfile
from walferry.base.security.login import UNSECURED
from walferry.hbase.files.errors import StoreError
from walferry.hbase.files.systems import open_wal
from walferry.hbase.hfiles.ends import FileEnd
from walferry.hbase.hfiles.errors import UnreadableHFile
from walferry.hbase.hfiles.opened import TRAILER_BYTES, HFileInfo, read_info
from walferry.hbase.tables.errors import BrokenSnapshot
from walferry.hbase.tables.regions import Region
from walferry.hbase.tables.snapshots import SnapshotRegion, StoreFile
from walferry.initial_snapshot import files_copy
from walferry.initial_snapshot.files_copy import (
    COPIED_AT_ONCE,
    FoundFile,
    NeedsScan,
    check_borders,
    copy_file,
    copy_files,
    find_files,
    loads,
)
from walferry.initial_snapshot.hfiles import OtherInfo
from walferry.load import file_loader, staging
from walferry.load.errors import NotLoaded
from walferry.load.file_loader import LOADS, FileLoader
from walferry.load.numbered import Destination, StagedFile


def found(family: bytes, name: str, sequence_id: int | None, size: int = 10, cells: int = 5) -> FoundFile:
    info = None if sequence_id is None else HFileInfo(sequence_id, has_tags=False, cells=cells)
    return FoundFile(StoreFile(family, name, size, ()), f"file:/{name}", info)


def names(calls: list[list[FoundFile]]) -> list[list[str]]:
    return [[each.file.name for each in call] for call in calls]


def test_the_oldest_files_of_all_families_are_loaded_first_and_one_of_a_family_at_a_time():
    files = [found(b"f", "new", 9), found(b"f", "old", 3), found(b"g", "only", 20), found(b"f", "newer", 10)]
    assert names(loads(files)) == [["old", "only"], ["new"], ["newer"]]
    assert loads([]) == []


def test_files_with_equal_numbers_are_loaded_in_hbase_s_order():
    assert names(loads([found(b"f", "b", 3), found(b"f", "a", 3), found(b"f", "large", 3, 99)])) == [["large"], ["a"], ["b"]]


def test_files_without_cells_are_left_out():
    assert names(loads([found(b"f", "empty", 3, cells=0), found(b"f", "other", 4)])) == [["other"]]
    assert loads([found(b"f", "empty", 3, cells=0)]) == []


@pytest.mark.parametrize("others", [[], [found(b"g", "y", 1)], [found(b"f", "y", 1)]])
def test_a_file_of_unknown_age_is_not_loaded_since_the_source_s_numbers_would_come_with_it(others):
    with pytest.raises(NeedsScan, match="how old f/x is"):
        loads([found(b"f", "x", None), *others])


@pytest.mark.parametrize(
    ("start", "end", "fits"), [(b"", b"", True), (b"b", b"d", True), (b"b", b"e", True), (b"c", b"d", False), (b"b", b"c", False)]
)
def test_a_region_at_the_peer_cluster_must_have_all_rows_of_the_source_s(start, end, fits):
    region, target = SnapshotRegion("t", "1", b"b", b"d", ()), Region(b"t,,1", start, end, None)
    if fits:
        check_borders(region, target)
        return
    with pytest.raises(NeedsScan, match="other borders"):
        check_borders(region, target)


def test_the_last_region_fits_only_into_the_last_one():
    with pytest.raises(NeedsScan):
        check_borders(SnapshotRegion("t", "1", b"b", b"", ()), Region(b"t,,1", b"", b"z", None))


def test_files_are_found_in_the_archive_too_and_a_missing_one_is_named_with_its_region(tmp_path):
    def region(name: str, *, reference: bool = False) -> SnapshotRegion:
        file = StoreFile(b"f", name, 1, (f"data/{name}", f"archive/data/{name}"), reference)
        return SnapshotRegion("ns:t", "abc", b"", b"", (file,))

    (tmp_path / "archive" / "data").mkdir(parents=True)
    (tmp_path / "archive" / "data" / "moved").write_bytes(b"not an HFile")
    (there,) = find_files(tmp_path.as_uri(), region("moved"))
    assert (there.url, there.info) == (f"{tmp_path.as_uri()}/archive/data/moved", None)
    with pytest.raises(BrokenSnapshot, match=r"region abc of table ns:t: its file f/gone is in none of .*/data/gone"):
        find_files(tmp_path.as_uri(), region("gone"))
    with pytest.raises(NeedsScan, match="f/half is half of a file"):
        find_files(tmp_path.as_uri(), region("half", reference=True))


class PeerCluster:
    """A region's server that loads files, and gives the first `unnumbered` loads no number."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, copy: Callable[[str], None], unnumbered: int = 0) -> None:
        self.reported: list[tuple[str, object]] = []
        self.unnumbered = unnumbered
        self.in_turn = False
        self.region = Region(b"t,,1.abc.", b"", b"", None)  # as it is now
        self._copy = copy
        monkeypatch.setattr(files_copy, "copy_file", self._copied)
        monkeypatch.setattr(file_loader, "load_numbered", self._load)
        monkeypatch.setattr(staging.bulk_load, "prepare", lambda *_: TOKEN)
        monkeypatch.setattr(staging.bulk_load, "cleanup", lambda *_: self.reported.append(("deleted", None)))

    def _copied(self, source: str, target: str, _: str) -> FileEnd:
        self._copy(source)
        self.reported.append(("copied", source))
        return FileEnd(1, 0, target.encode())

    def _load(self, _: object, __: Destination, files: list[StagedFile], ___: str) -> None:
        assert self.in_turn, "two tasks load into a region at the same time"
        self.reported.append(("loaded", [(file.family, file.url) for file in files]))
        if self.unnumbered:
            self.unnumbered -= 1
            raise NotLoaded("the peer cluster has loaded files without a sequence number")

    @contextmanager
    def holding_region(self, region: str) -> Iterator[None]:
        self.in_turn = True
        yield
        self.in_turn = False

    def load(self, files: int) -> None:
        """Have some files of one family loaded."""
        place: Any = SimpleNamespace(table="t", connection=lambda _: None, locate=lambda _: self.region)
        held: Any = SimpleNamespace(
            note=lambda folder: self.reported.append(("noted", folder.token)),
            check=lambda: self.reported.append(("checked", self.in_turn)),
            forget=lambda: None,
        )
        loader = FileLoader(place, UNSECURED, "file:/source", "id", self.holding_region, written_at_once=COPIED_AT_ONCE)
        copy_files(loader, SnapshotRegion("t", "1", b"", b"", ()), [found(b"f", str(n), n) for n in range(files)], held)

    @property
    def loaded(self) -> list[object]:
        return [what for done, what in self.reported if done == "loaded"]


TOKEN = f"file:/peer_cluster/staging/hbase__t__{'0a' * 26}"


def test_files_are_copied_side_by_side_and_loaded_in_order_each_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    together = threading.Barrier(COPIED_AT_ONCE, timeout=30)
    peer_cluster = PeerCluster(monkeypatch, lambda _: together.wait() and None)
    peer_cluster.load(2 * COPIED_AT_ONCE)
    assert peer_cluster.loaded == [[(b"f", f"{TOKEN}/call{n}-0")] for n in range(2 * COPIED_AT_ONCE)]
    before = [peer_cluster.reported[i - 1] for i, (done, _) in enumerate(peer_cluster.reported) if done == "loaded"]
    assert before == [("checked", True)] * len(peer_cluster.loaded)


def test_files_that_got_no_number_are_copied_and_loaded_again_before_younger_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    peer_cluster = PeerCluster(monkeypatch, lambda _: None, unnumbered=2)
    peer_cluster.load(2)
    names = ["call0-0", "call0-0-again-0", "call0-0-again-0-again-0", "call1-0"]
    assert peer_cluster.loaded == [[(b"f", f"{TOKEN}/{name}")] for name in names]
    assert [source for done, source in peer_cluster.reported if done == "copied"].count("file:/0") == 3
    peer_cluster.unnumbered = LOADS
    with pytest.raises(NotLoaded):
        peer_cluster.load(1)


def test_a_region_that_was_split_meanwhile_is_a_case_for_a_scan(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else its files would be loaded into a half of it, which does not take them, as often as there are tries."""
    peer_cluster = PeerCluster(monkeypatch, lambda source: split() if source == "file:/0" else None, unnumbered=1)

    def split() -> None:
        peer_cluster.region = Region(b"t,,2", b"", b"m", None)

    with pytest.raises(NeedsScan, match="other borders of regions"):
        peer_cluster.load(2)
    assert len(peer_cluster.loaded) == 1


def test_a_folder_of_a_wrong_form_is_neither_noted_nor_written_to_nor_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    peer_cluster = PeerCluster(monkeypatch, lambda _: None)
    monkeypatch.setattr(staging.bulk_load, "prepare", lambda *_: "hdfs://peer/hbase/data/default/t")
    with pytest.raises(NotLoaded, match="the peer cluster wants files in 'hdfs://peer/hbase/data/default/t'"):
        peer_cluster.load(1)
    assert peer_cluster.reported == []


def test_no_file_is_written_to_the_folder_once_its_copy_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, ended = [], []

    def copy(source: str) -> None:
        begun.append(source)
        if source.endswith("/0"):
            raise OSError("no room")
        time.sleep(0.2)
        ended.append(source)

    with pytest.raises(OSError, match="no room"):
        PeerCluster(monkeypatch, copy).load(50)
    assert set(begun) == {*ended, "file:/0"}
    assert len(begun) < 50


def test_a_file_that_cannot_be_copied_without_the_source_s_numbers_makes_its_region_a_case_for_a_scan(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def copy(source: str) -> None:
        raise UnreadableHFile(f"the metadata of {source} cannot be read")

    with pytest.raises(NeedsScan, match="the metadata of file:/0"):
        PeerCluster(monkeypatch, copy).load(2)


def test_a_copy_is_read_in_pieces_and_no_two_copies_have_the_same_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files_copy, "COPY_BYTES", 7)
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
    monkeypatch.setattr(files_copy, "info_without_numbers", lambda *_: OtherInfo(1000, 1001, b"info"))
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
