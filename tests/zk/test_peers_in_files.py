"""Peers in files, beside the queues in a real ZooKeeper: how they are read, and the fence that stands for their state."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from urllib.parse import unquote

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from embedded.zookeeper import ZooKeeperServer
from tests.peer_files import PeerFolders
from tests.zk.copy_records import writing
from tests.zk.hbase_znodes import DEAD, SERVER, HBaseZNodes, prefixed, wal
from walferry.admin.diagnosis.source import check
from walferry.base.protos import hbase_pb2 as pb
from walferry.base.zk import watcher
from walferry.base.zk.client import ZNode
from walferry.base.zk.fenced_lock import FencedLock
from walferry.base.zk.records import decode
from walferry.hbase.errors import EnabledPeer, MissingPeer, PeerError, PeerFileError, PeerNotUnderstood, StorageError
from walferry.hbase.files.errors import StoreError
from walferry.hbase.values import encode_position
from walferry.load.errors import LoadOvertaken, Overtaken
from walferry.load.records import LoadFolder, begin_load, loads_of
from walferry.observe.status.view import view
from walferry.replication.peers.reading import check_shippable
from walferry.replication.queues.claims.claim import claim, delete_queue
from walferry.replication.queues.dead_servers import DeadServersStream, find_dead, recovered_queues, shippable_peers
from walferry.replication.queues.errors import WalGone
from walferry.replication.queues.lease import Lease, acquire
from walferry.replication.source import peer_state, peers
from walferry.replication.source.cluster import SourceCluster
from walferry.replication.source.peer_state import (
    Period,
    added_by,
    disabled_guard,
    look,
    seconds_disabled,
    state_path,
    was_enabled,
)
from walferry.replication.source.peers import has_peer, peer_ids, read_peer, read_peers
from walferry.replication.source.session import Session
from walferry.shipping.garbage_collection import collect_garbage_of_gone_peers

NewClient = Callable[[], KazooClient]
GROUP = wal(0).rpartition(".")[0]


@pytest.fixture
def files(tmp_path: Path) -> PeerFolders:
    """The peer `p`, which was disabled long ago."""
    folders = PeerFolders(tmp_path / "peers")
    folders.add_peer("p")
    os.utime(folders.root / "p" / "disabled", (1_700_000_000, 1_700_000_000))
    return folders


@pytest.fixture
def source(hbase: HBaseZNodes, zookeeper: ZooKeeperServer, files: PeerFolders, tmp_path: Path) -> SourceCluster:
    """A cluster whose ZooKeeper has an old copy of `p`, as after `hbase copyreppeers`: it was ENABLED then."""
    hbase.set_state("p", "ENABLED")
    return SourceCluster(
        quorum=zookeeper.quorum,
        wal_root=f"file://{tmp_path}",
        znode_parent=hbase.nodes.base,
        root=hbase.root,
        peers_root=files.url,
    )


@pytest.fixture
def session(zk: KazooClient, source: SourceCluster) -> Session:
    return Session(source, zk)


@pytest.fixture
def looks_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_state, "LOOK_SECONDS", 0.0)


@pytest.fixture
def never_looks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that a test does happens between two looks of a holder."""
    monkeypatch.setattr(peer_state, "LOOK_SECONDS", 1e6)


@pytest.fixture
def leases() -> Iterator[list[Lease]]:
    held: list[Lease] = []
    yield held
    for lease in held:
        lease.release()


def enable_and_disable(files: PeerFolders, peer_id: str = "p") -> None:
    for state in ("ENABLED", "DISABLED"):
        files.set_state(peer_id, state)


def position(hbase: HBaseZNodes, name: str, server: str = SERVER) -> bytes:
    return bytes(hbase.zk.get(hbase.nodes.wal(server, "p", name))[0])


def test_a_peer_in_files_is_read_as_in_zookeeper(session: Session, hbase: HBaseZNodes, files: PeerFolders) -> None:
    for to in (hbase, files):
        to.add_peer("full", "ENABLED", {"a": "b"}, serial=True, namespaces=[b"n"], replicate_all=False, bandwidth=5)
    in_zookeeper = Session(replace(session.source, peers_root=None), session.zk)
    found = read_peer(session, "full")
    assert found == read_peer(in_zookeeper, "full")
    assert (found.state, found.serial, found.bandwidth, found.not_understood) == ("ENABLED", True, 5, ())


def test_old_copies_in_zookeeper_do_not_matter(session: Session, hbase: HBaseZNodes, files: PeerFolders) -> None:
    hbase.add_peer("gone")
    hbase.add_wal(DEAD, "p", wal(1, DEAD))
    hbase.add_wal(DEAD, "gone", wal(1, DEAD))
    files.add_peer("new", "ENABLED")
    assert [(peer.id, peer.state) for peer in read_peers(session).peers] == [("new", "ENABLED"), ("p", "DISABLED")]
    assert {id: peer and peer.state for id, peer in (view(session).peers or {}).items()} == {"new": "ENABLED", "p": "DISABLED"}
    assert shippable_peers(session) == {"p"}
    assert [queue.peer_id for dead in find_dead(session) for queue in dead.queues] == ["p"]
    assert (has_peer(session, "gone"), has_peer(session, "p")) == (False, True)
    with pytest.raises(
        MissingPeer, match=r"^peer gone: it does not exist: there is no file://.*/peers/gone\. Peers here: new, p$"
    ):
        read_peer(session, "gone")


def test_a_cluster_that_never_had_a_peer_in_zookeeper_is_served(session: Session, hbase: HBaseZNodes) -> None:
    hbase.zk.delete(hbase.nodes.peers, recursive=True)
    hbase.add_wal(SERVER, "p", wal(1))
    assert read_peer(session, "p").managed
    assert view(session).problems == ()
    with pytest.raises(StorageError, match=r"storage\.impl=filesystem\)\. Set peers_root in the connection's extra"):
        read_peers(Session(replace(session.source, peers_root=None), session.zk))


@pytest.mark.parametrize("what", ["a file", "a field"])
def test_what_walferry_does_not_know_of_a_peer_in_files_stops_it(session: Session, files: PeerFolders, what: str) -> None:
    files.add_peer("odd")
    if what == "a file":
        (files.root / "odd" / "sync-rep-state-0").touch()
    else:
        message = pb.ReplicationPeer.FromString(pb.ReplicationPeer(clusterkey="zk:1:/h").SerializeToString() + b"\xa2\x06\x01x")
        message.configuration.add(name="walferry.managed", value="true")
        files.put_config("odd", message)
    with pytest.raises(PeerNotUnderstood, match="sync-rep-state-0" if what == "a file" else "field 100"):
        check_shippable(read_peer(session, "odd"))


def test_a_damaged_file_is_a_problem_of_its_peer_alone(session: Session, files: PeerFolders) -> None:
    files.add_peer("bad")
    path = files.config_file("bad")
    path.write_bytes(path.read_bytes()[:-4] + b"\0\0\0\0")
    listing = read_peers(session)
    assert [peer.id for peer in listing.peers] == ["p"]
    (problem,) = listing.problems
    assert isinstance(problem, PeerFileError)
    seen = view(session)
    assert (seen.peers or {})["bad"] is None
    assert str(problem) in seen.problems


def test_a_view_without_the_folder_s_file_system_shows_the_queues_all_the_same(
    session: Session, hbase: HBaseZNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise all queues would count as those of peers that are gone."""

    def away(*_: object) -> None:
        raise StoreError("hdfs://nn/hbase/peers: no answer within 120 s")

    hbase.add_wal(SERVER, "p", wal(1))
    monkeypatch.setattr(peers, "ids_in", away)
    seen = view(session)
    assert (seen.peers, len(seen.queues or ())) == (None, 1)
    assert seen.problems == ("hdfs://nn/hbase/peers: no answer within 120 s",)


@pytest.mark.parametrize("peer_id", ["..", "../p", "a/b", ""])
def test_no_id_leads_out_of_the_folder(session: Session, files: PeerFolders, peer_id: str) -> None:
    with pytest.raises(MissingPeer, match="no peer can have such an id"):
        read_peer(session, peer_id)


@pytest.mark.usefixtures("looks_each_time")
@pytest.mark.parametrize("change", ["enabled", "enabled and disabled again", "removed", "removed and added again"])
def test_a_holder_writes_nothing_once_the_period_is_over(
    session: Session, hbase: HBaseZNodes, files: PeerFolders, leases: list[Lease], change: str
) -> None:
    for number in (1, 2):
        hbase.add_wal(SERVER, "p", wal(number))
    lease = acquire(session, "p", GROUP, "run")
    leases.append(lease)
    lease.register_position(wal(1), 100)
    files.set_config("p", {"walferry.managed": "true", "walferry.max.lag": "60"})
    lease.register_position(wal(1), 200)  # a change of its configuration is no change of its state
    if change.startswith("enabled"):
        files.set_state("p", "ENABLED")
    else:
        files.remove_peer("p")
    if change.endswith("disabled again"):
        files.set_state("p", "DISABLED")
    if change.endswith("added again"):
        files.add_peer("p")
    error = MissingPeer if change == "removed" else EnabledPeer
    for write in (lambda: lease.register_position(wal(1), 300), lambda: lease.remove_wal(wal(1))):
        with pytest.raises(error, match="there is no file://" if change == "removed" else "RegionServers"):
            write()
    assert position(hbase, wal(1)) == encode_position(200)


@pytest.mark.usefixtures("never_looks_again")
def test_who_looks_first_ends_the_period_for_all_holders(
    session: Session, hbase: HBaseZNodes, files: PeerFolders, leases: list[Lease], new_client: NewClient
) -> None:
    """Within LOOK_SECONDS a holder does not see that the peer was enabled. Any other holder's look is enough."""
    hbase.add_wal(SERVER, "p", wal(1))
    lease = acquire(session, "p", GROUP, "run")
    leases.append(lease)
    lease.register_position(wal(1), 50)
    enable_and_disable(files)
    lease.register_position(wal(1), 100)
    disabled_guard(Session(session.source, new_client()), "p")
    with pytest.raises(EnabledPeer, match="its state changed during the work"):
        lease.register_position(wal(1), 200)
    assert position(hbase, wal(1)) == encode_position(100)


def test_a_late_look_does_not_take_a_newer_one_back(
    session: Session, files: PeerFolders, new_client: NewClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process looks at the file, and stops for a while. Meanwhile the peer is enabled and disabled, and another one looks."""
    look(session, "p")
    other, real, times = Session(session.source, new_client()), peer_state.disabled_since, []

    def slow(root: str, peer_id: str) -> int | None:
        found = real(root, peer_id)
        times.append(found)
        if len(times) == 1:
            enable_and_disable(files)
            look(other, "p")
            return (found or 0) + 1  # so that it has something to write
        return found

    monkeypatch.setattr(peer_state, "disabled_since", slow)
    guard = disabled_guard(session, "p")
    assert len(times) == 3
    assert decode(Period, session.zk.get(guard.path)[0]) == Period(real(files.url, "p"))
    assert guard.version == 1


def test_a_guard_looks_at_most_once_in_its_time(
    session: Session, hbase: HBaseZNodes, leases: list[Lease], monkeypatch: pytest.MonkeyPatch
) -> None:
    hbase.add_wal(SERVER, "p", wal(1))
    lease = acquire(session, "p", GROUP, "run")
    leases.append(lease)
    looks: list[float] = []
    monkeypatch.setattr(peer_state, "look", lambda *_: looks.append(time.monotonic()))
    began = time.monotonic()
    for offset in range(1, 301):
        lease.register_position(wal(1), offset)
    assert len(looks) <= (time.monotonic() - began) / peer_state.LOOK_SECONDS + 1


@pytest.mark.usefixtures("never_looks_again")
def test_no_edit_is_lost_however_the_last_writes_of_a_holder_and_a_regionserver_meet(
    session: Session, hbase: HBaseZNodes, files: PeerFolders, leases: list[Lease]
) -> None:
    """The peer is enabled, and the holder does not see it yet. Both have shipped what they write, from the position 0 on.

    The RegionServer sets positions whatever they are, and deletes WALs that it has shipped (setWALPosition, cleanOldLogs). If
    its WAL is gone, it aborts, and what it has not shipped stays queued.
    """
    ours = [("set", 30), ("set", 60), ("remove", 60)]
    theirs = [("set", 20), ("set", 60), ("remove", 60)]
    lease = acquire(session, "p", GROUP, "run")
    leases.append(lease)
    hbase.add_wal(SERVER, "p", wal(0))
    lease.register_position(wal(0), 1)
    files.set_state("p", "ENABLED")
    names = []
    for places in combinations(range(6), 3):
        number = len(names) * 2 + 1
        name = wal(number)
        names.append(name)
        for each in (number, number + 1):
            hbase.add_wal(SERVER, "p", wal(each))
        path, shipped, aborted = hbase.nodes.wal(SERVER, "p", name), 0, False
        left, right = iter(ours), iter(theirs)
        for place in range(6):
            mine = place in places
            what, offset = next(left if mine else right)
            if aborted and not mine:
                continue
            shipped = max(shipped, offset)
            if mine and what == "set":
                with suppress(WalGone):
                    lease.register_position(name, offset)
            elif mine:
                lease.remove_wal(name)
            else:
                aborted = not _as_regionserver(hbase, path, what, offset)
            if hbase.zk.exists(path) is None:
                assert shipped == 60
            else:
                assert hbase.zk.get(path)[0][-1] <= shipped  # one byte of the varint is enough below 128
        assert hbase.zk.exists(hbase.nodes.wal(SERVER, "p", wal(number + 1))), "the open WAL stays queued"
    assert len(names) == 20


def _as_regionserver(hbase: HBaseZNodes, path: str, what: str, offset: int) -> bool:
    """Return whether it goes on."""
    try:
        if what == "set":
            hbase.zk.set(path, prefixed(encode_position(offset)))
        else:
            hbase.zk.delete(path)
    except NoNodeError:
        return False
    return True


def test_a_queue_is_not_claimed_once_its_peer_is_enabled(
    session: Session, hbase: HBaseZNodes, files: PeerFolders, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The peer is enabled after the last check, right before the queue is moved. Each queue's first write looks once more."""
    for number in (1, 2):
        hbase.add_wal(DEAD, "p", wal(number, DEAD))
    real = FencedLock.write

    def enabled(self: FencedLock, *args: object) -> object:
        if len(args) > 1:
            files.set_state("p", "ENABLED")
        return real(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(FencedLock, "write", enabled)
    assert claim(session, DEAD, "run", "run").moved == 0
    assert len(hbase.children(hbase.nodes.queue(DEAD, "p"))) == 2
    monkeypatch.undo()
    files.set_state("p", "DISABLED")
    assert claim(session, DEAD, "run", "run").moved == 1


def test_an_orphan_is_a_queue_of_a_peer_that_has_no_files(session: Session, hbase: HBaseZNodes) -> None:
    hbase.add_peer("gone")
    for peer_id in ("p", "gone"):
        hbase.add_wal(DEAD, peer_id, wal(1, DEAD))
    gone, mine = (recovered_queues(session, peer_id)[0] for peer_id in ("gone", "p"))
    with pytest.raises(PeerError, match=r"^peer p: it exists, so .* is not deleted"):
        delete_queue(session, mine, "test")
    assert delete_queue(session, gone, "test") == 1
    assert hbase.children(hbase.nodes.queue_server(DEAD)) == ["p"]


def test_a_check_says_whether_the_folder_is_there(source: SourceCluster) -> None:
    wrong = replace(source, peers_root=f"{source.peers_root}-wrong")
    found = [next(each.text for each in check(at) if each.kind == "replication") for at in (source, wrong)]
    assert found[0].endswith(f"; peers are in files below {source.peers_root}")
    assert found[1].startswith(f"there is no {wrong.peers_root}: check peers_root")


def test_a_new_period_settles_before_work_begins(session: Session, hbase: HBaseZNodes, files: PeerFolders) -> None:
    """Nothing shows that a peer in files was never ENABLED. The clock of a file system may differ from ZooKeeper's."""

    def since() -> float:
        hbase.zk.set(hbase.nodes.peers, b"")  # ZooKeeper's clock
        stat = hbase.zk.get(hbase.nodes.peers)[1]
        return seconds_disabled(session, "p", ZNode(b"", stat))

    assert since() > 1e6
    enable_and_disable(files)
    assert -1 <= since() < 5
    os.utime(files.root / "p" / "disabled", (time.time() - 100,) * 2)
    assert 65 < since() < 80
    os.utime(files.root / "p" / "disabled", (time.time() + 500,) * 2)  # a clock that is far ahead: ours counts
    assert -1 <= since() < 5
    files.set_state("p", "ENABLED")
    assert since() == float("inf")


def test_whether_a_peer_was_enabled_is_known_since_the_first_look(session: Session, files: PeerFolders) -> None:
    assert not was_enabled(session, "p")
    assert not was_enabled(session, "p")
    enable_and_disable(files)
    assert was_enabled(session, "p")


@pytest.mark.usefixtures("looks_each_time")
def test_a_load_ends_when_its_peer_is_enabled_and_is_forgotten(
    session: Session, hbase: HBaseZNodes, files: PeerFolders, leases: list[Lease]
) -> None:
    hbase.add_wal(SERVER, "p", wal(1))
    lease = acquire(session, "p", GROUP, "run")
    leases.append(lease)
    record = begin_load(session, "p", "run", [GROUP], lease)
    assert [load.path for load in loads_of(session, "p")] == [record]
    session.zk.create(f"{record}/note")
    noted = LoadFolder(session, "p", record, lease.peer_state)
    noted.znode = f"{record}/note"
    noted.check()
    enable_and_disable(files)
    with pytest.raises(LoadOvertaken, match="the peer may have been enabled"):
        noted.check()
    assert loads_of(session, "p") == []


def test_a_copy_of_an_earlier_peer_does_not_count_but_an_incomplete_one_holds_the_queue(
    session: Session, source: SourceCluster, files: PeerFolders
) -> None:
    with writing(session, source) as records:
        state = records.begin("run")
        assert records.state() == state
        enable_and_disable(files)
        with pytest.raises(Overtaken, match="the peer may have been enabled"):
            records.complete(replace(state, complete=True))
    assert records.state() == state  # the batches wait: the copy may be needed still
    with writing(session, source, run="again") as records:
        again = records.begin("again")
        assert again.run == "again"  # it begins anew
        records.complete(replace(again, complete=True))
        assert records.state() == replace(again, complete=True)
    files.remove_peer("p")
    with pytest.raises(MissingPeer, match="there is no file://"):
        records.state()
    files.add_peer("p")
    look(session, "p")
    assert records.state() is None
    assert added_by(session, "nobody") is None


def test_the_garbage_of_a_peer_without_files_is_deleted(session: Session, hbase: HBaseZNodes, files: PeerFolders) -> None:
    files.add_peer("q")
    for peer_id in ("p", "q"):
        look(session, peer_id)
    files.remove_peer("q")
    hbase.add_peer("q")
    folder = state_path(session, "p").rpartition("/")[0]
    assert {unquote(name) for name in session.zk.get_children(folder)} == {"p", "q"}
    elsewhere = Session(replace(session.source, peers_root=f"{files.url}-wrong"), session.zk)
    assert peer_ids(elsewhere) is None
    assert collect_garbage_of_gone_peers(elsewhere) == 0
    assert collect_garbage_of_gone_peers(session) == 1
    assert session.zk.get_children(folder) == ["p"]


def test_a_stream_sees_a_peer_that_is_disabled_without_a_watch(
    session: Session, hbase: HBaseZNodes, files: PeerFolders, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of its looks fails, because the file system does not answer."""
    monkeypatch.setattr(peers, "LOOK_AGAIN_SECONDS", 0.2)
    monkeypatch.setattr(watcher, "RECONNECT_SECONDS", 0.1)
    files.set_state("p", "ENABLED")
    hbase.add_wal(DEAD, "p", wal(1, DEAD))
    looks = 0
    real = DeadServersStream._look

    def counted(self: DeadServersStream, *args: object) -> object:
        nonlocal looks
        looks += 1
        if looks == 2:
            raise StoreError("hdfs://nn/hbase/peers: no answer within 120 s")
        if looks == 3:
            files.set_state("p", "DISABLED")
        return real(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(DeadServersStream, "_look", counted)

    async def announced() -> str:
        async with DeadServersStream(session.source) as stream:
            return (await asyncio.wait_for(stream.next(), 60))[0].name

    assert (asyncio.run(announced()), looks) == (DEAD, 3)
