"""Finding, opening and waiting for WALs on a real HDFS."""

import json
import os
import re
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from hdfs_native import Client, WriteOptions

from embedded.hbase import write_site
from embedded.hdfs import Hdfs
from embedded.zookeeper import ZooKeeperServer
from tests.unit.hbase.wal.encoder import PUT, Cell, encode_wal, entry
from tests.zk.fixtures import lasting_hbase, new_client
from tests.zk.hbase_znodes import LastingZNodes
from walferry.airflow.tasks.retention import report_of
from walferry.cli.main import main
from walferry.hbase.files import clients, listing
from walferry.hbase.files import closedness as module
from walferry.hbase.files import systems as storage
from walferry.hbase.files.access import WRITE, Need, missing_rights
from walferry.hbase.files.closedness import Closed, Open, WalNotClosed, await_closed, closedness
from walferry.hbase.files.errors import StoreError, UnreadableBytes
from walferry.hbase.files.listing import locate_all
from walferry.hbase.files.quarantine import quarantine
from walferry.hbase.files.space import space_at
from walferry.hbase.files.store import WalLocation, WalStore, WrongRoot
from walferry.hbase.files.systems import delete_folder, exists, make_folder, rename, touch
from walferry.hbase.layout import quoted
from walferry.hbase.names import WalName, parse_wal_name
from walferry.hbase.wal.header import EMPTY_TRAILER
from walferry.replication.queues.dead_servers import RecoveredQueue
from walferry.replication.queues.queue import QueuedWal
from walferry.replication.retention.archive import WalArchive, expire
from walferry.replication.retention.limits import OldWalLimits
from walferry.replication.retention.survey import Fate, OldWal, forecast
from walferry.replication.source.cluster import SourceCluster
from walferry.runs.reports.recovery import preview
from walferry.shipping import closed_wal
from walferry.shipping.candidates import Candidate
from walferry.shipping.closed_wal import ReadProgress, batches_of_closed
from walferry.shipping.plan import GroupPlan, PlannedWal, plan_wal

__all__ = ["lasting_hbase", "new_client"]

METRICS_SECONDS = 11  # the NameNode shows its counts anew every 10 s
SERVER = "rs-1.example.org,16020,1700000000001"
QUEUE = RecoveredQueue("p", SERVER, "p", ("group.1",), claimed=False)
ENTRIES = b"PWAL" + os.urandom(3_000_000)


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    hdfs = Hdfs(Path(tmp_path_factory.mktemp("hdfs")))
    try:
        hdfs.start()
        yield hdfs
    finally:
        hdfs.kill()


@pytest.fixture
def client(hdfs: Hdfs) -> Client:
    client = Client(hdfs.url)
    client.delete("/hbase", True)
    for folder in (f"WALs/{SERVER}", f"WALs/{SERVER}-splitting", "oldWALs"):
        client.mkdirs(f"/hbase/{folder}", create_parent=True)
    return client


@pytest.fixture
def store(hdfs: Hdfs) -> WalStore:
    return WalStore(f"{hdfs.url}/hbase")


@pytest.fixture
def wal() -> WalName:
    return parse_wal_name("rs-1.example.org%2C16020%2C1700000000001.1700000000123")


def located(store: WalStore, wal: WalName) -> WalLocation:
    found = store.locate(wal)
    assert found is not None
    return found


def test_a_closed_wal_is_found_and_read(client: Client, store: WalStore, wal: WalName) -> None:
    with client.create(f"/hbase/WALs/{SERVER}/{wal}") as file:
        file.write(ENTRIES + EMPTY_TRAILER)
    location = await_closed(store, wal)
    assert location == WalLocation(f"{store.root}/WALs/{SERVER}/{wal}", len(ENTRIES + EMPTY_TRAILER), archived=False)
    assert closedness(store, location) == Closed(len(ENTRIES))
    with store.open(location) as opened:
        assert opened.read_at(0, len(ENTRIES)) == ENTRIES
        assert opened.read_at(1_234_567, 1000) == ENTRIES[1_234_567:1_235_567]
        assert opened.read_at(len(ENTRIES), 1000) == EMPTY_TRAILER


def test_a_wal_can_be_read_on_while_it_is_archived(client: Client, store: WalStore, wal: WalName) -> None:
    with client.create(f"/hbase/WALs/{SERVER}/{wal}") as file:
        file.write(ENTRIES + EMPTY_TRAILER)
    location = located(store, wal)
    with store.open(location) as opened:
        client.rename(f"/hbase/WALs/{SERVER}/{wal}", f"/hbase/oldWALs/{wal}")
        assert opened.read_at(1_000_000, 1000) == ENTRIES[1_000_000:1_001_000]
    with pytest.raises(FileNotFoundError, match=str(wal)):
        store.open(location)
    assert located(store, wal).archived


def test_the_stale_length_of_an_open_file_is_not_taken_for_its_end(
    client: Client, store: WalStore, wal: WalName, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer has written all of this length and goes on, and the NameNode does not know yet."""
    monkeypatch.setattr(module, "POLL_SECONDS", 0.05)
    file = client.create(f"/hbase/WALs/{SERVER}/{wal}")
    file.write(ENTRIES)
    assert located(store, wal).size < len(ENTRIES)
    assert isinstance(closedness(store, located(store, wal)), Open)
    with pytest.raises(WalNotClosed, match="no trailer"):
        await_closed(store, wal, timeout_seconds=0.3)
    file.write(EMPTY_TRAILER)
    file.close()
    assert await_closed(store, wal).size == len(ENTRIES + EMPTY_TRAILER)


def test_an_archived_file_whose_writer_never_closed_it_is_read_at_its_recovered_length(
    client: Client, store: WalStore, wal: WalName
) -> None:
    """At first HDFS knows only the length at the last hsync, or no length."""
    file = client.create(f"/hbase/oldWALs/{wal}")
    file.write(ENTRIES[:1_000_000])
    file.hsync()
    file.write(ENTRIES[1_000_000:2_000_000])
    stale = located(store, wal).size
    location = await_closed(store, wal, timeout_seconds=60)
    assert location.size >= max(stale, 1_000_000)
    with store.open(location) as opened:
        assert opened.size == location.size
        assert opened.read_at(0, opened.size) == ENTRIES[: location.size]

    def write_on() -> None:
        file.write(ENTRIES)
        file.close()

    with pytest.raises(RuntimeError):
        write_on()


@pytest.mark.parametrize("folder", ["oldWALs", f"WALs/{SERVER}-splitting", f"WALs/{SERVER}"])
@pytest.mark.parametrize("synced", [0, 1_000_000])
def test_a_look_at_an_unclosed_file_takes_no_size_for_its_own_and_does_not_close_it(
    client: Client, hdfs: Hdfs, wal: WalName, folder: str, synced: int
) -> None:
    store = WalStore(f"{hdfs.url}/hbase", look_only=True)
    queued = Candidate(QueuedWal(wal, "/queue/wal", 0), False, (SERVER,))
    file = client.create(f"/hbase/{folder}/{wal}")
    if synced:
        file.write(ENTRIES[:synced])
        file.hsync()
    file.write(ENTRIES[synced:])
    seen = plan_wal(store, queued, store.locate(wal, (SERVER,)))
    assert (seen.size, seen.growing, seen.finished) == (synced, True, False)
    (line,) = [line for line in preview(QUEUE, "nobody", [group_of(seen)]) if str(wal) in line]
    assert f"{'at least 1,000,000 bytes' if synced else 'of unknown size'}, as its dead server has not closed it" in line
    assert ("at least 1.0 MB" if synced else "an unknown number of bytes") + " to ship" in preview(
        QUEUE, "nobody", [group_of(seen)]
    )[0]
    file.close()  # this would fail if the lease had been recovered
    closed = plan_wal(store, queued, store.locate(wal, (SERVER,)))
    assert (closed.size, closed.growing) == (len(ENTRIES), False)


def test_a_look_at_a_file_whose_lease_was_recovered_tells_its_size(client: Client, hdfs: Hdfs, wal: WalName) -> None:
    file = client.create(f"/hbase/oldWALs/{wal}")
    file.write(ENTRIES)
    file.hsync()
    recovered = await_closed(WalStore(f"{hdfs.url}/hbase"), wal, timeout_seconds=60)
    store = WalStore(f"{hdfs.url}/hbase", look_only=True)
    queued = Candidate(QueuedWal(wal, "/queue/wal", 0), False, (SERVER,))
    seen = plan_wal(store, queued, store.locate(wal, (SERVER,)))
    assert (seen.size, seen.growing) == (recovered.size, False)


def group_of(wal: PlannedWal) -> GroupPlan:
    return GroupPlan("group", SERVER, "p", 1, (wal,), None)


def test_listings_find_what_single_lookups_find(client: Client, store: WalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """All folders have many WALs, oldWALs more than the NameNode lists in one answer. One is still being written."""
    claimer = "rs-9.example.org,16020,1700000000009"
    folders = (f"WALs/{SERVER}", f"WALs/{SERVER}-splitting", f"oldWALs/{SERVER}", "oldWALs", f"WALs/{claimer}")
    names = [f"{SERVER.replace(',', '%2C')}.regiongroup-{number % 2}.{number}" for number in range(100)]
    for number, name in enumerate(names):
        with client.create(f"/hbase/{folders[number % 5]}/{name}", WriteOptions(create_parent=True)) as file:
            file.write(bytes(number))
    for number in range(1200):
        client.create(f"/hbase/oldWALs/{names[0].rpartition('.')[0]}.{number + 1000}").close()
    writer = client.create(f"/hbase/WALs/{SERVER}/{names[0].rpartition('.')[0]}.999")
    group = names[0].rpartition(".")[0]
    wanted = [(parse_wal_name(name), [claimer]) for name in (*names, f"{group}.999", f"{group}.5000")]
    found = locate_all(store, wanted)
    writer.close()
    assert len(found) >= 101
    monkeypatch.setattr(listing, "SINGLY", len(wanted))
    assert found == locate_all(store, wanted)


def test_a_root_without_wals_is_told_apart_from_a_lost_file(client: Client, hdfs: Hdfs, store: WalStore) -> None:
    store.check_root()
    with pytest.raises(WrongRoot, match="there is no such folder"):
        WalStore(f"{hdfs.url}/hbse").check_root()


@pytest.mark.parametrize("family", ["L#0", "q?x", "a b", "p%41", "ü", ";[", "~*+", "\u0085\u2028"])
def test_files_of_families_with_any_characters_are_where_hbase_has_them(client: Client, hdfs: Hdfs, family: str) -> None:
    folder = f"{hdfs.url}/hbase/data/default/t/5f1c0a/{family}"
    storage.write_file(f"{folder}/one", ENTRIES)
    assert client.get_file_info(f"/hbase/data/default/t/5f1c0a/{family}/one").length == len(ENTRIES)
    with storage.NewFile(f"{folder}/new") as new:
        new.write(b"new")
    storage.copy_file(f"{folder}/one", f"{folder}/copy{family}")
    assert storage.file_size(f"{folder}/copy{family}") == len(ENTRIES)
    with storage.open_wal(f"{folder}/copy{family}") as file:
        assert file.read_at(3, 1000) == ENTRIES[3:1003]
    rename(f"{folder}/copy{family}", f"{folder}/moved{family}")
    touch(f"{folder}/moved{family}")
    names = {"one", "new", f"moved{family}"}
    assert {entry.name for entry in storage.list_entries(folder)} == names == storage.list_folder(folder, bool).keys()
    assert [entry.name for entry in storage.list_entries(folder.removesuffix(f"/{family}"))] == [family]
    storage.delete_file(f"{folder}/one")
    assert not exists(f"{folder}/one")
    delete_folder(folder)
    make_folder(folder)
    assert exists(folder)
    storage.delete_empty_folder(folder)
    assert not exists(folder)


def test_a_root_without_a_host_is_the_default_file_system_s(
    client: Client, hdfs: Hdfs, store: WalStore, wal: WalName, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Amazon's EMR writes such a root: hdfs:///user/hbase/WAL."""
    write_site(tmp_path / "core-site.xml", {"fs.defaultFS": hdfs.url})
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    with client.create(f"/hbase/oldWALs/{wal}") as file:
        file.write(ENTRIES + EMPTY_TRAILER)
    found = located(WalStore("hdfs:///hbase"), wal)
    assert (found.url, found.size) == (f"hdfs:///hbase/oldWALs/{wal}", len(ENTRIES + EMPTY_TRAILER))
    assert space_at("hdfs:///hbase").capacity == space_at(store.root).capacity > 0
    assert missing_rights([Need("hdfs:///hbase/oldWALs", WRITE, "to try")]) is None


def test_the_space_and_the_copies_are_those_of_the_name_node(client: Client, hdfs: Hdfs, store: WalStore) -> None:
    written = f"{hdfs.url}/hbase/oldWALs/wal.1"
    storage.write_file(written, ENTRIES)
    found = forecast(store, [OldWal("wal.1", 3600, 0.0, True), OldWal("wal.2", 8640, 7200.0, True)], 7200.0)
    assert found.space is not None, found.problem
    assert 0 < found.space.remaining < found.space.capacity
    assert (found.bytes_per_second, found.copies) == (1.2, client.get_file_info("/hbase/oldWALs/wal.1").replication)
    with pytest.raises(StoreError, match="NameNode localhost:1: "):
        space_at("hdfs://localhost:1/hbase")


def test_the_archive_on_hdfs_keeps_copies_until_their_time_is_over(client: Client, hdfs: Hdfs, wal: WalName) -> None:
    url = f"{hdfs.url}/hbase/oldWALs/{wal}"
    storage.write_file(url, ENTRIES)
    archive = WalArchive(f"{hdfs.url}/archive")
    assert [archive.put(wal, url), archive.put(wal, url)] == [True, False]
    (kept,) = archive.wals()
    assert (kept.name, kept.size) == (wal, len(ENTRIES))
    assert kept.copied is not None
    assert abs(kept.copied - time.time()) < 60
    with storage.open_wal(archive.url_of(wal)) as file:
        assert file.read_at(0, len(ENTRIES)) == ENTRIES
    assert expire(archive, 3600).kept == 1
    client.set_times("/archive/" + quoted(wal.group) + f"/{wal}", 1000, 1000)
    assert expire(archive, 3600).deleted == 1
    assert archive.groups() == []


WHOLE = encode_wal([entry(Cell(b"row%d" % number, b"f", b"q", 1, PUT, bytes(20_000))) for number in range(40)])
ENTRY_BYTES = (len(WHOLE) - len(encode_wal([]))) // 40


@pytest.fixture
def block(hdfs: Hdfs, client: Client, wal: WalName) -> Path:
    """Return the block of a WAL in oldWALs, as its only DataNode stores it."""

    def blocks() -> set[Path]:
        return {path for path in hdfs._folder.glob("data0/current/BP-*/current/finalized/**/blk_*") if path.suffix != ".meta"}

    before = blocks()
    with client.create(f"/hbase/oldWALs/{wal}") as file:
        file.write(WHOLE)
    (found,) = blocks() - before
    return found


def entries_of(store: WalStore, wal: WalName) -> tuple[int, UnreadableBytes | None]:
    """Return how many entries a job reads of a WAL, and why no more."""
    entries = 0
    batches = batches_of_closed(store, None, wal, (), 0, close_seconds=lambda: 30, progress=ReadProgress())
    try:
        for batch, _ in batches:
            entries += len(batch.index)
    except UnreadableBytes as error:
        return entries, error
    return entries, None


def test_a_rotten_byte_is_told_as_hdfs_s_and_what_lies_before_it_is_read(
    client: Client, hdfs: Hdfs, store: WalStore, wal: WalName, block: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(closed_wal, "READ_PATIENCE_SECONDS", 1.5)
    with block.open("r+b") as file:
        file.seek(at := 25 * ENTRY_BYTES + 300)
        file.write(b"rotten")
    entries, error = entries_of(store, wal)
    assert error is not None
    assert entries in (24, 25)
    assert error.offset == at // 512 * 512  # a checksum is that of so many bytes
    assert "each DataNode that has them (127.0.0.1:" in str(error)
    assert f"See hdfs fsck /hbase/oldWALs/{wal} -files -blocks -locations" in str(error)
    assert error.lost
    skipped = quarantine(f"{hdfs.url}/aside", located(store, wal), wal.text, "p:1", "run", 25 * ENTRY_BYTES, error)
    (hole,) = skipped.lost
    assert hole == (error.offset, (error.offset // 65536 + 1) * 65536)
    with storage.open_wal(f"{hdfs.url}/aside/{wal}") as copy:
        data = copy.read_at(0, copy.size)
    assert data == WHOLE[: hole[0]] + bytes(hole[1] - hole[0]) + WHOLE[hole[1] :]
    assert f"{wal}.p%3A1.json" in storage.list_folder(f"{hdfs.url}/aside", bool)


def test_a_lost_block_is_told_as_missing(store: WalStore, wal: WalName, block: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(closed_wal, "READ_PATIENCE_SECONDS", 5.0)  # the DataNode tells the NameNode, so the second try knows
    for path in block.parent.glob(f"{block.name}*"):
        path.unlink()
    entries, error = entries_of(store, wal)
    assert error is not None
    assert (entries, error.offset, error.lost) == (0, 0, True)
    assert "their block is missing, no DataNode that lives has a copy" in str(error)


def test_a_read_that_all_datanodes_refuse_once_is_tried_again(
    client: Client, store: WalStore, wal: WalName, block: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, failures = storage._RemoteFile._read, ["All DataNodes failed: []"]

    def once(file: storage._RemoteFile, offset: int, length: int) -> bytes:
        if failures:
            raise RuntimeError(failures.pop())
        return read(file, offset, length)

    with store.open(located(store, wal), patience=5.0) as file:
        monkeypatch.setattr(storage._RemoteFile, "_read", once)
        assert file.read_at(0, file.size) == WHOLE
    assert not failures


def test_a_name_node_that_stops_answering_is_given_up(
    hdfs: Hdfs, client: Client, store: WalStore, wal: WalName, monkeypatch: pytest.MonkeyPatch
) -> None:
    with client.create(f"/hbase/oldWALs/{wal}") as file:
        file.write(ENTRIES)
    assert located(store, wal).archived
    monkeypatch.setattr(clients, "REMOTE_TIMEOUT_SECONDS", 1)
    namenode = hdfs.processes[0].popen
    namenode.send_signal(signal.SIGSTOP)
    try:
        with pytest.raises(StoreError, match="no answer within 1 s"):
            store.locate(wal)
    finally:
        namenode.send_signal(signal.SIGCONT)
    monkeypatch.setattr(clients, "REMOTE_TIMEOUT_SECONDS", 60)
    assert located(store, wal).archived


def test_wal_find_looks_into_closed_and_open_wals(client: Client, store: WalStore, capfd: pytest.CaptureFixture[str]) -> None:
    data = encode_wal([entry(Cell(b"row", b"f", b"q", 1, PUT, b"v"))])
    names = [f"rs-1.example.org%2C16020%2C1700000000001.{1700000000123 + number}" for number in range(3)]
    for folder, name in (("oldWALs", names[0]), (f"WALs/{SERVER}", names[1]), ("data/default/t", names[2])):
        with client.create(f"/hbase/{folder}/{name}", WriteOptions(create_parent=True)) as file:
            file.write(data)
    being_written = client.create(f"/hbase/WALs/{SERVER}/{names[2]}")
    being_written.write(data[:-1])
    assert main(["wal", "find", "--json", "--row", "row", store.root]) == 0
    out, err = capfd.readouterr()
    found = [json.loads(line) for line in out.splitlines()]
    assert [cell["wal"] for cell in found] == [f"{store.root}/oldWALs/{names[0]}", f"{store.root}/WALs/{SERVER}/{names[1]}"]
    assert f"{store.root}/WALs/{SERVER}/{names[2]} is empty: it is still being written" in err
    assert main(["wal", "find", "--row", "row", f"{store.root}/nowhere"]) == 1
    assert f"{store.root}/nowhere: there is no such file or folder" in capfd.readouterr().err
    being_written.close()


@pytest.mark.parametrize("wals", [2_500, pytest.param(100_000, marks=[pytest.mark.soak, pytest.mark.timeout(3600)])])
def test_a_retention_report_lists_very_many_wals_in_few_calls(
    wals: int, hdfs: Hdfs, client: Client, lasting_hbase: LastingZNodes, zookeeper: ZooKeeperServer
) -> None:
    """The NameNode lists 1000 files in an answer; everything else is asked for once. Queues hold every other WAL."""
    names = [f"{SERVER.replace(',', '%2C')}.{1700000000000 + number}" for number in range(wals)]
    with ThreadPoolExecutor(16) as writers:
        for file in writers.map(lambda name: client.create(f"/hbase/oldWALs/{name}"), names):
            file.close()
    zk, queue = lasting_hbase.zk, lasting_hbase.nodes.queue(SERVER, "p")
    zk.ensure_path(queue)
    for start in range(0, wals, 1000):
        for created in [zk.create_async(f"{queue}/{name}") for name in names[start : start + 1000 : 2]]:
            created.get()
    source = SourceCluster(
        quorum=zookeeper.quorum, wal_root=f"{hdfs.url}/hbase", znode_parent=lasting_hbase.nodes.base, root="/walferry"
    )
    before = calls_of(hdfs)
    began = time.monotonic()
    text = (report := report_of(source, 600, OldWalLimits(1, 1, 1), listed=100)).as_text()
    seconds = time.monotonic() - began
    calls = {name: count - before.get(name, 0) for name, count in calls_of(hdfs).items() if count > before.get(name, 0)}
    print(f"{wals:,} files on HDFS: {seconds:.2f} s, calls {calls}")
    assert report.survey.amount(Fate.HELD).files == wals // 2
    assert len(text.splitlines()) > 100
    listings = -(-wals // 1000)
    assert listings <= calls.pop("GetListing") <= listings + 1
    assert sum(calls.values()) <= 5, calls


def calls_of(hdfs: Hdfs) -> dict[str, int]:
    """How often each call has been made, as the NameNode counts them."""
    time.sleep(METRICS_SECONDS)
    port = re.findall(r"Jetty bound to port (\d+)", hdfs.processes[0].log_text())[-1]
    beans = httpx.get(f"http://127.0.0.1:{port}/jmx?qry=Hadoop:service=NameNode,name=RpcDetailedActivityForPort*").json()["beans"]
    counts = {name.removesuffix("NumOps"): n for bean in beans for name, n in bean.items() if name.endswith("NumOps")}
    ours = ("GetListing", "GetFileInfo", "GetContentSummary", "GetFsStats", "GetBlockLocations", "GetServerDefaults", "Recover")
    return {name: count for name, count in counts.items() if name.startswith(ours)}
