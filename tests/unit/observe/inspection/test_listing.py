"""Which files are looked into."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

from walferry.hbase.names import parse_wal_name
from walferry.observe.inspection import listing
from walferry.observe.inspection.listing import MARGIN_MS, ListedFile, as_url, list_wals, within

A, B = "a%2C1%2C1", "b%2C1%2C1"
HOUR = 3_600_000


@pytest.fixture(params=["file", "memory"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "file":
        yield f"file://{tmp_path}/hbase"
    else:
        yield "memory://hbase"
        memory = fsspec.filesystem("memory")
        memory.store.clear()
        memory.pseudo_dirs[:] = [""]


def put(root: str, path: str, size: int = 10) -> str:
    with fsspec.open(f"{root}/{path}", "wb", auto_mkdir=True) as file:
        file.write(bytes(size))
    return f"{root}/{path}"


def test_the_wals_of_a_cluster_are_found_oldest_first_and_nothing_else(root: str) -> None:
    wals = [
        put(root, f"oldWALs/{A}.1"),
        put(root, f"corrupt/{A}.2"),
        put(root, f"oldWALs/b,1,1/{B}.3"),
        put(root, f"WALs/b,1,1/{B}.4.meta"),
        put(root, f"WALs/a,1,1-splitting/{A}.5"),
    ]
    for other in (f"data/default/t/{A}.6", "hbase.id", f"oldWALs/{A}.7.part", "oldWALs/x", f"WALs/x/y/{A}.8"):
        put(root, other)
    listing = list_wals([f"{root}/"])
    assert [file.url for file in listing.files] == wals
    assert not listing.problems
    assert [file.url for file in list_wals([f"{root}/oldWALs"]).files] == [wals[0], wals[2]]
    assert [file.url for file in list_wals([f"{root}/WALs/b,1,1"]).files] == [wals[3]]


def test_an_archive_has_a_folder_for_each_group(root: str) -> None:
    wals = [put(root, f"{A.replace('%', '%25')}/{A}.1"), put(root, f"{B.replace('%', '%25')}/{B}.2")]
    put(root, f"{B}/{B}.3.part")
    assert [file.url for file in list_wals([root]).files] == wals


def test_one_wal_in_several_places_is_read_once_where_most_of_it_is(root: str) -> None:
    put(root, f"WALs/a,1,1/{A}.1", 10)
    longest = put(root, f"oldWALs/{A}.1", 30)
    archived = put(root, f"archive/{A}.1", 20)
    assert [file.url for file in list_wals([archived, root]).files] == [longest]


def test_a_file_that_is_named_is_taken_whatever_it_is_called(root: str) -> None:
    url = put(root, "some file")
    assert list_wals([url]).files == [ListedFile(url, 10, None)]


def test_a_place_that_does_not_exist_is_told_and_the_others_are_listed(root: str) -> None:
    url = put(root, f"oldWALs/{A}.1")
    listing = list_wals([f"{root}/nowhere", f"{root}/oldWALs"])
    assert [file.url for file in listing.files] == [url]
    assert listing.problems == [f"{root}/nowhere: there is no such file or folder"]


def test_paths_become_urls_as_hadoop_writes_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert as_url("a%2Cb c") == f"file://{tmp_path}/a%2Cb c"
    assert as_url("hdfs://nn:8020/hbase") == "hdfs://nn:8020/hbase"


def found(group: str, time: int, suffix: str = "") -> ListedFile:
    name = f"{group}.{time}{suffix}"
    return ListedFile(name, 1, parse_wal_name(name))


def test_wals_of_other_times_are_left_out() -> None:
    files = [found(A, hour * HOUR) for hour in (10, 20, 30, 40)] + [found(B, 5 * HOUR), ListedFile("other", 1, None)]
    assert within(files, None, None) == files
    # The last of a group has no end, and a file without a WAL's name has no times.
    assert within(files, 25 * HOUR, 29 * HOUR) == [files[1], files[4], files[5]]
    assert within(files, 20 * HOUR + MARGIN_MS, None)[0] == files[0]
    assert within(files, 20 * HOUR + MARGIN_MS + 1, None)[0] == files[1]
    assert files[2] in within(files, None, 30 * HOUR - MARGIN_MS + 1)
    assert files[2] not in within(files, None, 30 * HOUR - MARGIN_MS)


def test_a_wal_of_hbase_meta_goes_on_beside_the_later_wals_of_its_server() -> None:
    files = [found(A, 10 * HOUR), found(A, 10 * HOUR, ".meta"), found(A, 20 * HOUR)]
    assert within(files, 30 * HOUR, None) == files[1:]


def test_a_server_s_folder_that_is_renamed_while_folders_are_listed_is_looked_into(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wal = put(f"file://{tmp_path}", f"WALs/a,1,1/{A}.1")
    contents = listing._contents

    def list_and_rename(system: Any, path: str) -> list[tuple[str, bool, int]]:
        found = contents(system, path)
        if path.endswith("/WALs"):
            (tmp_path / "WALs" / "a,1,1").rename(tmp_path / "WALs" / "a,1,1-splitting")
        return found

    monkeypatch.setattr(listing, "_contents", list_and_rename)
    assert [file.url for file in list_wals([f"file://{tmp_path}"]).files] == [wal.replace("a,1,1/", "a,1,1-splitting/")]
