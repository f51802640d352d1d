"""Highly available HDFS: files are read and written whichever NameNode is active, and while the active one changes."""

from __future__ import annotations

import getpass
import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from embedded.client import GLOBAL, JavaClient
from embedded.distributed import ClusterOptions, DistributedCluster
from embedded.hdfs import HdfsSecurity
from embedded.hdfs_ha import NAME_SERVICE, NAMENODES, HaHdfs
from embedded.kerberos import Kerberos as Kdc
from tests.cluster.peer_changes import reconfigure
from tests.cluster.test_peers_that_change import with_bandwidth
from tests.cluster.walferry_runs import Shipping, await_progress, positions, roll, ship_one, source_of
from walferry.base.security.login import Kerberos
from walferry.engine.summary import Status
from walferry.hbase.files import clients, failover, logins, namenode
from walferry.hbase.files.access import missing_rights, needs_of
from walferry.hbase.files.clients import file_system
from walferry.hbase.files.errors import NoActiveNameNode, StoreError
from walferry.hbase.files.namenodes import web_addresses
from walferry.hbase.files.space import bytes_on_disk, space_at
from walferry.hbase.files.store import WalLocation, WalStore
from walferry.hbase.files.systems import NewFile, file_size, list_entries, make_folder, open_wal, rename, write_file
from walferry.master.locality import _blocks
from walferry.replication.peers.settings import PeerSettings
from walferry.replication.source.cluster import SourceCluster

PRINCIPAL = "hbase/localhost@EXAMPLE.COM"
DATA = os.urandom(3_000_000)
FIRST, SECOND = NAMENODES


@pytest.fixture(scope="module")
def hdfs(cluster_folder: Path) -> Iterator[HaHdfs]:
    hdfs = HaHdfs(cluster_folder / "ha")
    try:
        hdfs.start()
        yield hdfs
    finally:
        hdfs.kill()


@pytest.fixture(autouse=True)
def environment(hdfs: HaHdfs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", str(hdfs.write_client_conf(tmp_path / "conf")))
    monkeypatch.setattr(clients, "_file_systems", {})


@pytest.fixture
def root(hdfs: HaHdfs, unique: Callable[[str], str]) -> str:
    return f"{hdfs.url}/{unique('hbase')}"


def make_active(hdfs: HaHdfs, name: str) -> None:
    """Have both NameNodes run, with this one active."""
    for each in NAMENODES:
        if not hdfs.namenodes[each].alive:
            hdfs.start_namenode(each)
    hdfs.make_active(name)


def read(url: str) -> bytes:
    with open_wal(url) as file:
        return file.read_at(0, file.size)


def test_files_are_used_where_the_first_namenode_is_a_standby(hdfs: HaHdfs, root: str) -> None:
    make_active(hdfs, SECOND)
    write_file(f"{root}/WALs/rs/wal", DATA)
    rename(f"{root}/WALs/rs/wal", f"{root}/wal")
    assert read(f"{root}/wal") == DATA
    assert [entry.name for entry in list_entries(root)] == ["WALs", "wal"]
    space = space_at(root)
    assert 0 < space.remaining < space.capacity
    assert bytes_on_disk(root) == (len(DATA), len(DATA))
    assert missing_rights(needs_of(root)) is None
    ((length, hosts),) = _blocks(web_addresses(root), f"{root.removeprefix(hdfs.url)}/wal", getpass.getuser())
    assert (length, hosts) == (len(DATA), ["localhost"])
    make_folder(f"{root}/oldWALs")
    file_system(root).client.create(f"{root.removeprefix(hdfs.url)}/oldWALs/open").write(DATA)
    location = WalLocation(f"{root}/oldWALs/open", 0, archived=True)
    await_true(lambda: WalStore(root).has_no_writer(location))


def await_true(done: Callable[[], bool]) -> None:
    give_up = time.monotonic() + 60
    while not done():
        assert time.monotonic() < give_up
        time.sleep(0.2)


@pytest.fixture
def silent(hdfs: HaHdfs, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """`silent(name)`: a NameNode accepts connections and says nothing, as if its machine hung."""
    monkeypatch.setattr(namenode, "CALL_SECONDS", 1)
    monkeypatch.setattr(failover, "CALL_SECONDS", 1)
    monkeypatch.setattr(clients, "REMOTE_TIMEOUT_SECONDS", 4)
    stopped: list[int] = []

    def stop(name: str) -> None:
        stopped.append(pid := hdfs.namenodes[name].pid)
        os.kill(pid, signal.SIGSTOP)

    yield stop
    for pid in stopped:
        os.kill(pid, signal.SIGCONT)


def test_a_namenode_that_falls_silent_costs_a_client_one_failure(hdfs: HaHdfs, root: str, silent: Callable[[str], None]) -> None:
    make_active(hdfs, FIRST)
    write_file(f"{root}/file", DATA)
    make_active(hdfs, SECOND)
    silent(FIRST)
    with pytest.raises(StoreError, match=rf"^{root}/file: no answer within"):  # the earlier client asks this NameNode first
        file_size(f"{root}/file")
    assert read(f"{root}/file") == DATA


def test_without_an_active_namenode_the_name_service_is_named_and_a_later_try_works(hdfs: HaHdfs, root: str) -> None:
    make_active(hdfs, FIRST)
    write_file(f"{root}/file", DATA)
    hdfs.make_standby(FIRST)
    reported = (
        rf"no NameNode of the name service {NAME_SERVICE} is active: {FIRST} \(localhost:\d+\) standby; {SECOND} .* standby"
    )
    with ThreadPoolExecutor(3) as pool:
        uses = [pool.submit(file_size, f"{root}/file"), pool.submit(list_entries, root), pool.submit(NewFile, f"{root}/more")]
        for use in uses:
            with pytest.raises(NoActiveNameNode, match=rf"^{root}.*: {reported}.*haadmin"):
                use.result()
    with pytest.raises(StoreError, match=r"StandbyException.*StandbyException"):
        space_at(root)
    hdfs.make_active(SECOND)
    assert read(f"{root}/file") == DATA


@pytest.fixture(scope="module")
def source(hdfs: HaHdfs, cluster_folder: Path) -> Iterator[DistributedCluster]:
    cluster = DistributedCluster("source", cluster_folder / "ha-source", hdfs, ClusterOptions(regionservers=1))
    try:
        cluster.launch_zookeeper()
        cluster.launch_servers()
        cluster.await_ready()
        yield cluster
    finally:
        cluster.kill()


@dataclass(frozen=True)
class Backlog:
    """Closed WALs of a table that take some seconds to ship, at 1.5 MB per second. Little of them is read ahead."""

    at: SourceCluster
    peer: str
    here: JavaClient
    there: JavaClient
    table: str

    def shipping(self) -> Shipping:
        return Shipping(self.at, self.peer, roll_first=False, settings=PeerSettings(buffer_bytes=1 << 20))

    def has_arrived(self) -> bool:
        return self.here.compare(self.table, self.there, raw=True).same


@pytest.fixture
def backlog(
    hdfs: HaHdfs, source: DistributedCluster, standalone_pair, java_client, managed_peer, unique: Callable[[str], str]
) -> Backlog:
    make_active(hdfs, FIRST)
    peer_cluster = standalone_pair.peer_cluster
    peer, at, table = managed_peer(source.address, peer_cluster.address), source_of(source.address), unique("t")
    reconfigure(source.address, peer, with_bandwidth(1_500_000))
    here, there = java_client(source.address), java_client(peer_cluster.address)
    for client in (here, there):
        client.create_table(table, {"f": GLOBAL})
    for first in range(0, 6000, 1000):
        here.put_many(table, 1000, ["f:a"], value_bytes=1000, first=first)
        roll(at, peer)
    return Backlog(at, peer, here, there, table)


def test_a_batch_without_an_active_namenode_fails_clearly_and_the_next_one_goes_on(hdfs: HaHdfs, backlog: Backlog) -> None:
    before = positions(backlog.at, backlog.peer)
    with backlog.shipping() as shipping:
        await_progress(backlog.at, backlog.peer, before)
        hdfs.make_standby(FIRST)
        failed = shipping.summary()
    assert failed.status is Status.FAILED
    assert f"no NameNode of the name service {NAME_SERVICE} is active" in failed.error
    hdfs.make_active(SECOND)
    assert ship_one(backlog.at, backlog.peer, roll_first=False).status is Status.DONE
    assert backlog.has_arrived()


def test_a_batch_goes_on_while_another_namenode_takes_over_from_a_killed_one(hdfs: HaHdfs, backlog: Backlog) -> None:
    before = positions(backlog.at, backlog.peer)
    with backlog.shipping() as shipping:
        await_progress(backlog.at, backlog.peer, before)
        hdfs.kill_namenode(FIRST)
        assert shipping.running
        hdfs.make_active(SECOND)
        assert shipping.summary().status is Status.DONE
    backlog.here.put_many(backlog.table, 100, ["f:a"], first=10_000)  # HBase has found the other NameNode, too
    assert ship_one(backlog.at, backlog.peer).status is Status.DONE
    assert backlog.has_arrived()


def test_reading_and_writing_go_on_when_the_active_namenode_is_killed(hdfs: HaHdfs, root: str) -> None:
    make_active(hdfs, FIRST)
    write_file(f"{root}/old", DATA)
    with open_wal(f"{root}/old") as old, NewFile(f"{root}/new") as new, ThreadPoolExecutor(2) as pool:
        new.write(DATA)
        hdfs.kill_namenode(FIRST)
        assert old.read_at(0, len(DATA)) == DATA
        new.write(DATA)
        with pytest.raises(NoActiveNameNode, match=rf"{FIRST} \S+ cannot be asked: .*refused.*; {SECOND} \S+ standby"):
            file_size(f"{root}/old")  # the other NameNode takes too long
        size, written = pool.submit(file_size, f"{root}/old"), pool.submit(write_file, f"{root}/other", DATA)
        hdfs.make_active(SECOND)
        assert size.result() == len(DATA)
        written.result()
    assert read(f"{root}/new") == DATA + DATA
    assert read(f"{root}/other") == DATA


@pytest.fixture
def secured(cluster_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HaHdfs]:
    """A pair of NameNodes that demand Kerberos, and this process logged in to it."""
    with Kdc(cluster_folder / "ha-kdc", {"EXAMPLE.COM": ["hbase/localhost"]}) as kdc:
        hdfs = HaHdfs(cluster_folder / "ha-secured", security=HdfsSecurity(kdc, PRINCIPAL))
        try:
            hdfs.start()
            for name, value in kdc.environment.items():
                monkeypatch.setenv(name, value)
            monkeypatch.setenv("HADOOP_CONF_DIR", str(hdfs.write_client_conf(cluster_folder / "ha-secured-conf")))
            monkeypatch.setattr(logins, "_logins", {})
            logins.log_in(hdfs.url, Kerberos(principal=PRINCIPAL, keytab=str(kdc.keytab(PRINCIPAL))))
            yield hdfs
        finally:
            hdfs.kill()


@pytest.mark.soak
def test_the_same_with_kerberos(secured: HaHdfs) -> None:
    url = f"{secured.url}/hbase/file"
    with NewFile(url) as file:
        file.write(DATA)
        secured.kill_namenode(FIRST)
        with pytest.raises(NoActiveNameNode, match=rf"{FIRST} \S+ cannot be asked: .*refused.*; {SECOND} \S+ standby"):
            list_entries(secured.url)
        secured.make_active(SECOND)
    assert read(url) == DATA
    assert missing_rights(needs_of(f"{secured.url}/hbase")) is None
    space = space_at(url)
    assert 0 < space.remaining < space.capacity
