"""Claiming a dead server's queues, in each layout, on a real ZooKeeper."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

import pytest
from kazoo.client import KazooClient

from tests.claimed import unclaimed
from tests.sessions import session_of
from tests.zk.claim_cluster import OLDER, ClaimCluster, Cluster, claimed, cluster, once
from tests.zk.hbase_znodes import DEAD, LAYOUTS, OTHER, SERVER, prefixed, wal
from walferry.base.protos import hbase_pb2 as pb
from walferry.base.zk.client import Watch, children
from walferry.base.zk.fenced_lock import FencedLock
from walferry.hbase.errors import ClusterError, StorageError
from walferry.hbase.layout import QueueLayout
from walferry.hbase.values import PBUF, decode_lock, encode_lock, encode_position
from walferry.replication.queues.claims import classic as claim_classic
from walferry.replication.queues.claims.claim import claim, clean_up
from walferry.replication.queues.dead_servers import WALFERRY_SERVER, find_dead
from walferry.replication.queues.errors import ClaimHeld, LiveServer, NoTarget

__all__ = ["cluster"]  # a fixture

CLASSIC = [QueueLayout.CLASSIC, QueueLayout.CLASSIC_PEERS]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_queues_are_claimed_whole_with_their_positions_and_named_after_the_dead(
    zk: KazooClient, cluster: Cluster, layout: QueueLayout
) -> None:
    at = cluster(layout)
    before = once(at)
    result = claimed(zk, at)
    assert once(at) == before
    assert not zk.exists(at.nodes.queue_server(DEAD))
    assert not zk.exists(at.own.claim(DEAD))
    (to,) = {queue.server for queue in result.queues}
    assert to in ((SERVER, OTHER) if at.nodes.locked else (WALFERRY_SERVER,))
    assert {queue.queue_id for queue in result.queues} == {f"p-{DEAD}", f"q-{DEAD}", f"p-{OLDER}-{DEAD}"}
    assert {queue.dead_server for queue in result.queues} == {DEAD}
    assert (result.moved, result.left) == (3, ())


@pytest.mark.parametrize("layout", LAYOUTS)
def test_queues_of_peers_that_are_not_ours_to_ship_are_left_with_the_reason(
    zk: KazooClient, cluster: Cluster, layout: QueueLayout
) -> None:
    at = cluster(layout)
    at.hbase.add_peer("stranger", config={})
    at.hbase.set_state("q", "ENABLED")
    kept = [at.hbase.add_wal(DEAD, peer_id, wal(9, DEAD)) for peer_id in ("stranger", "gone")]
    result = claimed(zk, at)
    assert result.moved == 2
    assert {queue.peer_id for queue in result.queues} == {"p"}
    enabled, gone, stranger = sorted(result.left, key=lambda reason: reason.partition("peer ")[2].replace("q", "a", 1))
    assert "it is ENABLED" in enabled
    assert "peer gone: it does not exist" in gone
    assert "no walferry.managed=true" in stranger
    for path in (*kept, at.nodes.wal(DEAD, "q", wal(1, DEAD))):
        assert zk.exists(path), path
    assert zk.get_children(at.nodes.server_queues(DEAD)).count("lock") == 0
    assert clean_up(session_of(zk, at), DEAD) == []


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_peer_whose_znode_cannot_be_read_does_not_keep_the_others_from_being_claimed(
    zk: KazooClient, cluster: Cluster, layout: QueueLayout
) -> None:
    at = cluster(layout)
    zk.set(at.nodes.peer("q"), b"PBUF\xff")
    result = claimed(zk, at)
    assert {queue.peer_id for queue in result.queues} == {"p"}
    assert at.nodes.peer("q") in " ".join(result.left)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_live_server_s_queues_are_its_own(zk: KazooClient, cluster: Cluster, layout: QueueLayout) -> None:
    at = cluster(layout)
    before = at.tree()
    for server in (SERVER, WALFERRY_SERVER):
        with pytest.raises(LiveServer, match="is alive"):
            claimed(zk, at, server)
    assert at.tree() == before


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_server_without_queues_needs_no_claim(zk: KazooClient, cluster: Cluster, layout: QueueLayout) -> None:
    at = cluster(layout)
    before = at.tree()
    result = claimed(zk, at, "rs-9.example.org,16020,1")
    assert (result.queues, result.moved, result.left) == ((), 0, ())
    assert at.tree() == before


@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_empty_queue_only_goes(zk: KazooClient, cluster: Cluster, layout: QueueLayout) -> None:
    at = cluster(layout)
    at.hbase.add_peer("idle")
    zk.ensure_path(at.nodes.queue(DEAD, "idle"))
    assert "idle" not in {queue.peer_id for queue in claimed(zk, at).queues}
    assert not zk.exists(at.nodes.queue_server(DEAD))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_queue_that_comes_through_two_servers_carries_both_names(
    zk: KazooClient, cluster: Cluster, layout: QueueLayout
) -> None:
    at = cluster(layout)
    before = once(at)
    at.hbase.claim(DEAD, "p", by=OTHER)
    at.hbase.stop_server(OTHER)
    assert {dead.name for dead in find_dead(session_of(zk, at))} == {DEAD, OTHER}
    assert set(unclaimed(session_of(zk, at))) == {DEAD, OTHER}
    both = [claimed(zk, at, server) for server in (OTHER, DEAD)]
    assert once(at) == before
    assert f"p-{DEAD}-{OTHER}" in {queue.queue_id for queue in both[0].queues}
    assert unclaimed(session_of(zk, at)) == ()
    assert {dead.name for dead in find_dead(session_of(zk, at))} == {DEAD, OTHER}  # claimed, but not drained yet


@pytest.mark.parametrize("layout", LAYOUTS)
def test_each_queue_that_moves_changes_the_child_version_by_which_a_log_cleaner_knows_to_read_again(
    zk: KazooClient, cluster: Cluster, layout: QueueLayout
) -> None:
    at = cluster(layout)
    before = zk.get(at.nodes.queues)[1].cversion
    assert claimed(zk, at).moved == 3
    created_and_deleted = 2 * 3
    assert zk.get(at.nodes.queues)[1].cversion >= before + created_and_deleted


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.timeout(300)
def test_a_log_cleaner_that_reads_all_the_while_never_misses_a_wal(
    new_client: Callable[[], KazooClient], cluster: Cluster, layout: QueueLayout
) -> None:
    at, reader, zk = cluster(layout), new_client(), new_client()
    expected = {name for _, name in once(at)}
    seen: list[set[str]] = []
    stop = threading.Event()

    def clean() -> None:
        while not stop.is_set():
            seen.append(_all_wals(reader, at))

    thread = threading.Thread(target=clean)
    thread.start()
    servers = [SERVER, OTHER]
    try:
        for n in range(20):  # the server that got the queues dies, and the next gets them
            dead = DEAD if n == 0 else servers[n % 2]
            to = servers[(n + 1) % 2]
            if n:
                at.hbase.stop_server(dead)
            claimed(zk, at, dead, to)
            if n:
                at.hbase.start_server(dead)
    finally:
        stop.set()
        thread.join()
    assert len(seen) > 20
    assert all(wals == expected for wals in seen)


def _all_wals(zk: KazooClient, at: ClaimCluster) -> set[str]:
    """Do ZKReplicationQueueStorage.getAllWALs, and getAllWALs of 1.x: repeat until the child version is unchanged."""
    while True:
        before = zk.get(at.nodes.queues)[1].cversion
        wals: set[str] = set()
        for server in zk.get_children(at.nodes.queues):
            for queue in at.hbase.children(at.nodes.server_queues(server)):
                wals |= set(at.hbase.children(f"{at.nodes.server_queues(server)}/{queue}", zk))
        if zk.get(at.nodes.queues)[1].cversion == before:
            return wals


@pytest.mark.parametrize("layout", CLASSIC)
def test_a_lock_of_a_live_region_server_is_waited_for(zk: KazooClient, cluster: Cluster, layout: QueueLayout) -> None:
    at = cluster(layout)
    at.hbase.zk.create(at.nodes.lock(DEAD), prefixed(encode_lock(at.nodes.queue_server(OTHER))))
    timer = threading.Timer(0.5, lambda: at.hbase.zk.delete(at.nodes.lock(DEAD)))
    timer.start()
    assert claimed(zk, at).moved == 3
    timer.join()


@pytest.mark.parametrize("layout", CLASSIC)
def test_a_lock_that_a_live_region_server_keeps_is_honoured_and_named(
    zk: KazooClient, cluster: Cluster, layout: QueueLayout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claim_classic, "LOCK_WAIT_SECONDS", 0.3)
    at = cluster(layout)
    lock = prefixed(encode_lock(at.nodes.queue_server(OTHER)))
    at.hbase.zk.create(at.nodes.lock(DEAD), lock)
    before = at.tree()
    with pytest.raises(ClaimHeld, match=f"claimed by RegionServer {OTHER} since 2"):
        claimed(zk, at)
    after = at.tree()
    assert after.pop(f"claim of {DEAD}") == b""  # without a holder; the next try takes it
    assert after == before


@pytest.mark.parametrize("layout", CLASSIC)
def test_the_rest_of_a_claim_whose_claimer_died_is_not_missed(zk: KazooClient, cluster: Cluster, layout: QueueLayout) -> None:
    """HBASE-2611: OTHER had locked DEAD, copied one queue in part and another completely, and deleted a part of the latter."""
    at = cluster(layout)
    before = once(at)
    hbase = at.hbase
    hbase.zk.create(at.nodes.lock(DEAD), prefixed(encode_lock(at.nodes.queue_server(OTHER))))
    for queue_id, copied, deleted in (("p", 2, 0), ("q", 4, 2)):
        names = sorted(hbase.zk.get_children(at.nodes.queue(DEAD, queue_id)))
        for name in names[:copied]:
            old, new = f"{at.nodes.queue(DEAD, queue_id)}/{name}", at.nodes.wal(OTHER, f"{queue_id}-{DEAD}", name)
            hbase.zk.create(new, hbase.zk.get(old)[0], makepath=True)
        for name in names[:deleted]:
            hbase.zk.delete(f"{at.nodes.queue(DEAD, queue_id)}/{name}")
    hbase.stop_server(OTHER)
    claimed(zk, at, DEAD, SERVER)
    assert once(at) == before
    assert not zk.exists(at.nodes.queue_server(DEAD))
    claimed(zk, at, OTHER, SERVER)
    assert once(at) == before
    assert {dead.name for dead in find_dead(session_of(zk, at))} == {DEAD, OTHER}
    assert unclaimed(session_of(zk, at)) == ()


@pytest.mark.parametrize("layout", CLASSIC)
def test_what_a_region_server_moves_on_while_we_look_for_it_is_not_copied(
    zk: KazooClient, cluster: Cluster, layout: QueueLayout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OTHER died after copying a queue, and SERVER claims that copy. SERVER copies and deletes, and leaves no child version."""
    at = cluster(layout)
    before = once(at)
    first, second = at.nodes.queue(OTHER, f"p-{DEAD}"), at.nodes.queue(SERVER, f"p-{DEAD}-{OTHER}")
    hbase = at.hbase.zk
    hbase.ensure_path(at.nodes.server_queues(OTHER))

    def copy(old: str, new: str) -> None:
        hbase.create(new)
        for name in hbase.get_children(old):
            hbase.create(f"{new}/{name}", hbase.get(f"{old}/{name}")[0])

    def moving(client: KazooClient, path: str, watch: Watch | None = None) -> list[str] | None:
        if path == first and hbase.exists(first):
            copy(first, second)
            hbase.delete(first, recursive=True)
        return children(client, path, watch)

    copy(at.nodes.queue(DEAD, "p"), first)
    at.hbase.stop_server(OTHER)
    monkeypatch.setattr(claim_classic, "children", moving)
    claimed(zk, at)
    assert not hbase.exists(first)
    assert once(at) == before
    assert not zk.exists(at.nodes.queue_server(DEAD))


@pytest.mark.parametrize("layout", CLASSIC)
def test_a_lock_with_nothing_under_it_goes_once_its_owner_is_dead(zk: KazooClient, cluster: Cluster, layout: QueueLayout) -> None:
    at = cluster(layout)
    empty = "rs-9.example.org,16020,1"
    zk.ensure_path(at.nodes.server_queues(empty))
    zk.create(at.nodes.lock(empty), prefixed(encode_lock(at.nodes.queue_server(OTHER))))
    assert clean_up(session_of(zk, at), empty) == []
    at.hbase.stop_server(OTHER)
    zk.ensure_path(at.nodes.queue(empty, "p"))
    assert clean_up(session_of(zk, at), empty) == []
    zk.delete(at.nodes.queue(empty, "p"))
    assert clean_up(session_of(zk, at), empty) == [empty]
    assert not zk.exists(at.nodes.queue_server(empty))

    zk.create(at.nodes.lock(empty), encode_lock(at.own.claim(empty)), makepath=True)  # ours
    zk.create(f"{at.own.claim(empty)}/holder-1", makepath=True)
    assert clean_up(session_of(zk, at), empty) == []
    zk.delete(f"{at.own.claim(empty)}/holder-1")
    assert clean_up(session_of(zk, at), empty) == [empty]


@pytest.mark.parametrize("layout", CLASSIC)
def test_when_the_server_that_gets_the_queues_dies_another_one_gets_the_rest(
    zk: KazooClient, cluster: Cluster, layout: QueueLayout, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = cluster(layout)
    before = once(at)
    targets: list[str] = []
    write = FencedLock.write

    def dying(self: FencedLock, operations: object, guards: tuple[object, ...] = ()) -> object:
        if len(guards) == 3 and len(targets) == 0:  # the second copy comes too late
            outcome = write(self, operations, guards)  # type: ignore[arg-type]
            targets.extend(name for name in (SERVER, OTHER) if f"p-{DEAD}" in at.hbase.children(at.nodes.server_queues(name)))
            if targets:
                at.hbase.stop_server(targets[0])
            return outcome
        return write(self, operations, guards)  # type: ignore[arg-type]

    monkeypatch.setattr(FencedLock, "write", dying)
    result = claimed(zk, at)
    assert once(at) == before
    assert not zk.exists(at.nodes.queue_server(DEAD))
    (dead_target,) = targets
    assert {queue.server for queue in result.queues} == {SERVER, OTHER} - {dead_target}
    claimed(zk, at, dead_target)
    assert once(at) == before


@pytest.mark.parametrize("layout", CLASSIC)
def test_a_position_that_is_registered_while_a_queue_is_copied_comes_along(
    zk: KazooClient, cluster: Cluster, layout: QueueLayout, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = cluster(layout)
    delete = claim_classic._delete

    def later(transfer: object, guard: object, queue_id: str) -> bool:
        if queue_id == "p":
            at.hbase.zk.set(at.nodes.wal(DEAD, "p", wal(1, DEAD)), prefixed(encode_position(4711)))
        return delete(transfer, guard, queue_id)  # type: ignore[arg-type]

    monkeypatch.setattr(claim_classic, "_delete", later)
    claimed(zk, at, to=OTHER)
    assert once(at)["p", wal(1, DEAD)].endswith(encode_position(4711))


@pytest.mark.parametrize("layout", CLASSIC)
def test_without_a_live_server_nothing_can_be_claimed(zk: KazooClient, cluster: Cluster, layout: QueueLayout) -> None:
    at = cluster(layout)
    before = at.tree()
    for server in (SERVER, OTHER):
        at.hbase.stop_server(server)
    with pytest.raises(NoTarget, match="none is live"):
        claimed(zk, at)
    assert at.tree() == before


@pytest.mark.parametrize("layout", CLASSIC)
def test_no_lock_is_made_in_a_cluster_of_a_release_that_has_none(zk: KazooClient, cluster: Cluster, layout: QueueLayout) -> None:
    at = cluster(layout)
    info = pb.RegionServerInfo(infoPort=-1)
    for name in ("version", "url", "revision", "user", "date", "src_checksum"):
        setattr(info.version_info, name, "2.6.1" if name == "version" else "x")
    at.hbase.zk.set(f"{at.nodes.rs}/{OTHER}", PBUF + info.SerializeToString())
    before = at.tree()
    with pytest.raises(ClusterError, match=r"runs HBase 2\.6\.1.*queue_layout is classic.*set it to 2\.x"):
        claimed(zk, at)
    assert at.tree() == before


def test_a_server_that_is_claimed_under_a_lock_is_not_claimed_without_one(zk: KazooClient, cluster: Cluster) -> None:
    at = cluster(QueueLayout.CLASSIC)
    without = replace(at.source, queue_layout=QueueLayout.HBASE2)
    zk.create(at.nodes.lock(DEAD), encode_lock("x"))
    before = at.tree()
    with pytest.raises(StorageError, match="set queue_layout in the connection's extra to classic"):
        claim(session_of(zk, without), DEAD, "run", "run")
    assert at.tree() == before


@pytest.mark.parametrize("layout", CLASSIC)
def test_our_lock_names_the_claim(
    zk: KazooClient, cluster: Cluster, layout: QueueLayout, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = cluster(layout)
    owners: list[str] = []

    def look(*_: object) -> None:
        owners.append(decode_lock(zk.get(at.nodes.lock(DEAD))[0], ""))

    monkeypatch.setattr(claim_classic, "_copy", look)
    monkeypatch.setattr(claim_classic, "_delete", lambda *_: False)
    claimed(zk, at)
    assert set(owners) == {at.own.claim(DEAD)}
