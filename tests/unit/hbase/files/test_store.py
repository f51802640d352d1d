"""Finding and opening WALs, on local files and through fsspec."""

import errno
import itertools
import os
import threading
import time
from pathlib import Path

import fsspec
import pytest

from tests.unit.hbase.files.stores import BYTES, SERVER, WAL, put, store
from walferry.hbase.files import clients, systems
from walferry.hbase.files import store as store_module
from walferry.hbase.files.errors import StoreError
from walferry.hbase.files.store import WalLocation, WalStore, WrongRoot
from walferry.hbase.files.systems import open_wal
from walferry.hbase.names import ServerName, parse_wal_name

__all__ = ["store"]

CLAIMER = "rs-2.example.org,16020,1700000000002"


@pytest.mark.parametrize(
    ("folder", "archived"),
    [
        (f"WALs/{SERVER}", False),
        (f"WALs/{SERVER}-splitting", False),
        ("oldWALs", True),
        (f"oldWALs/{SERVER}", True),
        (f"WALs/{CLAIMER}", False),
        (f"WALs/{CLAIMER}-splitting", False),
    ],
)
def test_a_wal_is_found_in_every_folder_hbase_may_have_it_in(store: WalStore, folder: str, archived: bool) -> None:
    url = put(store, folder)
    splitting = folder.endswith("-splitting")
    assert store.locate(WAL, [CLAIMER]) == WalLocation(url, len(BYTES), archived, splitting)


@pytest.mark.parametrize("server", ["2001:db8::1,16020,17", "::1,16020,17", "fe80::1%eth0,1,17", "ip-10-46-221-101.ec2-x,1,17"])
@pytest.mark.parametrize("folder", ["WALs/{}", "WALs/{}-splitting", "oldWALs", "oldWALs/{}"])
@pytest.mark.parametrize("provider", ["", ".{}.regiongroup-1", ".default"])
def test_hosts_of_all_kinds_of_names_have_their_wals_found(store: WalStore, server: str, folder: str, provider: str) -> None:
    encoded = ServerName.parse(server).encoded()
    name = parse_wal_name(f"{encoded}{provider.format(encoded)}.1700000000123")
    url = f"{store.root}/{folder.format(server)}/{name.text}"
    files, path = fsspec.filesystem(url.partition(":")[0]), url.partition("://")[2]
    files.makedirs(path.rpartition("/")[0], exist_ok=True)
    files.pipe_file(path, BYTES)
    found = store.locate(name)
    assert found is not None
    assert found.url == url
    with store.open(found) as file:
        assert file.read_at(3, 5) == BYTES[3:8]


def test_a_wal_that_is_nowhere_is_none(store: WalStore) -> None:
    put(store, "WALs/somebody,1,2")
    assert store.locate(WAL, [CLAIMER]) is None


def test_a_name_that_no_file_can_have_is_nowhere(store: WalStore) -> None:
    put(store, "oldWALs")
    assert store.locate(parse_wal_name("a" * 300 + ".5")) is None


def test_the_folders_of_dead_servers_are_looked_at_only_when_the_queue_came_from_them(store: WalStore) -> None:
    put(store, f"WALs/{CLAIMER}")
    assert store.locate(WAL) is None


def test_a_wal_is_not_missed_while_it_is_archived(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look finds that it has just been moved on; the search stays ahead of it."""
    store = WalStore(f"file://{tmp_path}")
    path = [tmp_path / folder / WAL.text for folder in (f"WALs/{SERVER}", f"WALs/{SERVER}-splitting", "oldWALs")]
    for place in path:
        place.parent.mkdir(parents=True)
    path[0].write_bytes(BYTES)
    moves = itertools.pairwise(path)
    real = os.stat

    def archive_first(file: str | Path) -> os.stat_result:
        for source, destination in moves:
            source.rename(destination)
            break
        return real(file)

    monkeypatch.setattr(systems.os, "stat", archive_first)
    found = store.locate(WAL, [CLAIMER])
    assert found is not None
    assert found.url.endswith(f"/oldWALs/{WAL.text}")


def test_a_file_that_has_moved_on_is_not_found(store: WalStore) -> None:
    with pytest.raises(FileNotFoundError, match="1700000000123"):
        store.open(WalLocation(f"{store.root}/WALs/{SERVER}/{WAL.text}", 1, archived=False))


def test_an_open_file_can_be_read_on_while_it_is_archived(tmp_path: Path) -> None:
    store = WalStore(f"file://{tmp_path}")
    url = put(store, f"WALs/{SERVER}")
    with open_wal(url) as file:
        (tmp_path / "oldWALs").mkdir()
        (tmp_path / f"WALs/{SERVER}/{WAL.text}").rename(tmp_path / f"oldWALs/{WAL.text}")
        assert file.read_at(0, 10) == BYTES[:10]
    found = store.locate(WAL)
    assert found is not None
    assert found.archived


@pytest.mark.parametrize("root", ["file:{}", "file://{}", "file://localhost{}", "file://{}/"])
def test_hadoop_s_ways_to_write_a_local_url_all_work(tmp_path: Path, root: str) -> None:
    put(WalStore(f"file://{tmp_path}"), "oldWALs")
    found = WalStore(root.format(tmp_path)).locate(WAL)
    assert found is not None
    with open_wal(found.url) as file:
        assert file.size == len(BYTES)


def test_a_percent_sign_in_a_name_is_only_a_percent_sign(tmp_path: Path) -> None:
    url = put(WalStore(f"file://{tmp_path}"), "oldWALs")
    assert "%2C" in url
    assert (tmp_path / "oldWALs" / WAL.text).is_file()
    with open_wal(url) as file:
        assert file.read_at(0, 4) == BYTES[:4]


def test_a_file_system_that_does_not_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "REMOTE_TIMEOUT_SECONDS", 0.2)
    never = threading.Event()
    monkeypatch.setattr(fsspec.implementations.memory.MemoryFileSystem, "info", lambda *_: never.wait(30))
    with pytest.raises(StoreError, match=r"^memory://hbase/WALs/.*: no answer within 0.2 s\. Check wal_root"):
        WalStore("memory://hbase").locate(WAL)
    never.set()


@pytest.mark.parametrize(
    ("root", "why"),
    [
        ("hdfs://no-such-name-service/hbase", "no-such-name-service is not a name service that HADOOP_CONF_DIR knows"),
        ("hdfs://no-such-host.invalid:8020/hbase", r"the name no-such-host.invalid does not resolve \(Name or service not"),
        ("hdfs://localhost:1/hbase", r"nothing listens on localhost:1 \(connection refused\)"),
        ("hdfs://unknown/hbase", "the name nn1.invalid does not resolve .*; nothing listens on localhost:1 "),
        ("viewfs://mounts/hbase", "the name nn1.invalid does not resolve .*; nothing listens on localhost:1 "),
        ("nonsense://a/b", "Protocol not known"),
    ],
)
def test_a_file_system_that_cannot_be_reached_is_named_in_seconds(
    root: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {
        "dfs.ha.namenodes.unknown": "nn1,nn2",
        "dfs.namenode.rpc-address.unknown.nn1": "nn1.invalid:8020",
        "dfs.namenode.rpc-address.unknown.nn2": "localhost:1",
        "fs.viewfs.mounttable.mounts.link./hbase": "hdfs://unknown/hbase",
    }
    entries = "".join(f"<property><name>{k}</name><value>{v}</value></property>" for k, v in settings.items())
    (tmp_path / "hdfs-site.xml").write_text(f"<configuration>{entries}</configuration>")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    monkeypatch.setattr(clients, "REMOTE_TIMEOUT_SECONDS", 15)
    began = time.monotonic()
    with pytest.raises(StoreError, match=f"^{root}/WALs/.*: .*{why}.*Check wal_root"):
        WalStore(root).locate(WAL)
    assert time.monotonic() - began < 10


def test_a_file_that_may_be_written_to_is_not_disturbed(store: WalStore) -> None:
    url = put(store, f"WALs/{SERVER}")
    with pytest.raises(ValueError, match="may have a live writer"):
        store.has_no_writer(WalLocation(url, 1, archived=False))


@pytest.mark.parametrize(
    ("root", "absent", "dead", "abandoned"),
    [
        ("hdfs://nn:8020/hbase", True, (SERVER,), True),
        ("hdfs://nn:8020/hbase", True, (), False),
        ("hdfs://nn:8020/hbase", False, (SERVER,), False),
        ("file:///hbase", True, (SERVER,), False),
    ],
    ids=["a dead server's", "a live server's", "with a master", "nothing fences off on a local disk"],
)
def test_only_a_dead_server_s_wal_on_hdfs_is_abandoned_and_only_without_a_master(
    monkeypatch: pytest.MonkeyPatch, root: str, absent: bool, dead: tuple[str, ...], abandoned: bool
) -> None:
    monkeypatch.setattr(store_module, "file_size", lambda url: 1)
    found = WalStore(root, master_absent=absent).locate(WAL, dead)
    assert found is not None
    assert (found.abandoned, found.fenced) == (abandoned, abandoned)


def test_a_length_is_final_without_being_asked_for_on_local_files_only(store: WalStore) -> None:
    location = WalLocation(put(store, "oldWALs"), len(BYTES), archived=True)
    if location.url.startswith("file:"):
        assert store.has_no_writer(location)
        return
    with pytest.raises(StoreError, match=f"^{location.url}: on memory:// nothing tells whether"):
        store.has_no_writer(location)


@pytest.mark.parametrize("folder", ["WALs", "oldWALs"])
def test_a_root_with_a_folder_of_wals_is_one(store: WalStore, folder: str) -> None:
    put(store, folder)
    store.check_root()


def test_a_root_that_is_none_is_told_apart_from_one_that_is_not_there(store: WalStore) -> None:
    problem = f"^wal_root {store.root}: there is no such folder, .*not known how much there is to ship. Set wal_root in"
    with pytest.raises(WrongRoot, match=problem):
        store.check_root()
    put(store, "data")
    with pytest.raises(WrongRoot, match=f"^wal_root {store.root}: the folder has neither WALs nor oldWALs in it, "):
        store.check_root()


def test_a_root_below_a_file_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(WrongRoot, match="there is no such folder"):
        WalStore(f"file://{tmp_path}/file/hbase").check_root()


def test_a_folder_that_must_not_be_read_is_not_called_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", path)

    monkeypatch.setattr(systems.os, "stat", refuse)
    with pytest.raises(StoreError, match=rf"^file://{tmp_path}/WALs: Permission denied\. The user that runs this must"):
        WalStore(f"file://{tmp_path}").check_root()


def test_a_root_is_asked_for_once_however_many_wals_are_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "WALs").mkdir()
    asked: list[str] = []
    size = systems.file_size
    monkeypatch.setattr("walferry.hbase.files.store.file_size", lambda url: asked.append(url) or size(url))
    store = WalStore(f"file://{tmp_path}")
    for _ in range(100):
        store.check_root()
    assert asked == [f"file://{tmp_path}/WALs"]
    nowhere = WalStore(f"file://{tmp_path}/nowhere")
    for _ in range(2):
        with pytest.raises(WrongRoot):
            nowhere.check_root()
