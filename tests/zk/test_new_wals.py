"""Finds the WALs that are newer than a mark."""

import threading
from collections.abc import Callable

import pytest
from kazoo.client import KazooClient

from tests.sessions import session_of
from tests.zk.hbase_znodes import DEAD, OTHER, SERVER, HBaseZNodes, wal
from walferry.base.zk.errors import ZNodeValueError
from walferry.hbase.errors import EnabledPeer, MissingPeer, UnmanagedPeer
from walferry.hbase.layout import OwnZNodes
from walferry.replication.queues.new_wals import NewWals, commit, find_new

GROUP, DEAD_GROUP = (wal(0, server).rpartition(".")[0] for server in (SERVER, DEAD))


@pytest.fixture
def own(hbase: HBaseZNodes) -> OwnZNodes:
    return OwnZNodes(hbase.root, hbase.nodes)


def test_the_newest_wal_of_a_live_server_is_not_closed(zk: KazooClient, hbase: HBaseZNodes, own: OwnZNodes) -> None:
    hbase.add_wal(SERVER, "p", wal(9))
    assert find_new(session_of(zk, own), "p", "k") is None
    hbase.add_wal(SERVER, "p", wal(10))
    assert find_new(session_of(zk, own), "p", "k") == NewWals({GROUP: 9}, 1)


def test_all_wals_of_a_dead_server_are_closed(zk: KazooClient, hbase: HBaseZNodes, own: OwnZNodes) -> None:
    hbase.start_server(DEAD)
    for timestamp in (1, 2):
        hbase.add_wal(DEAD, "p", wal(timestamp, DEAD))
    assert find_new(session_of(zk, own), "p", "k") == NewWals({DEAD_GROUP: 1}, 1)
    hbase.stop_server(DEAD)
    assert find_new(session_of(zk, own), "p", "k") == NewWals({DEAD_GROUP: 2}, 2)


def test_what_was_committed_is_not_new_and_what_comes_after_is(zk: KazooClient, hbase: HBaseZNodes, own: OwnZNodes) -> None:
    for timestamp in (1, 2, 3):
        hbase.add_wal(SERVER, "p", wal(timestamp))
    found = find_new(session_of(zk, own), "p", "k")
    assert found == NewWals({GROUP: 2}, 2)
    assert commit(session_of(zk, own), "p", "k", found.newest)
    assert find_new(session_of(zk, own), "p", "k") is None
    hbase.add_wal(SERVER, "p", wal(4))
    assert find_new(session_of(zk, own), "p", "k") == NewWals({GROUP: 3}, 1)


def test_what_was_announced_already_can_be_left_out(zk: KazooClient, hbase: HBaseZNodes, own: OwnZNodes) -> None:
    for timestamp in (1, 2, 3):
        hbase.add_wal(SERVER, "p", wal(timestamp))
    assert find_new(session_of(zk, own), "p", "k", beside={GROUP: 1}) == NewWals({GROUP: 2}, 1)
    assert find_new(session_of(zk, own), "p", "k", beside={GROUP: 2}) is None


def test_a_queue_that_was_only_claimed_has_nothing_new(zk: KazooClient, hbase: HBaseZNodes, own: OwnZNodes) -> None:
    hbase.add_wal(DEAD, "p", wal(1, DEAD))
    assert commit(session_of(zk, own), "p", "k", {DEAD_GROUP: 1})
    hbase.claim(DEAD, "p", by=OTHER)
    assert find_new(session_of(zk, own), "p", "k") is None


def test_keys_and_peers_have_cursor_of_their_own(zk: KazooClient, hbase: HBaseZNodes, own: OwnZNodes) -> None:
    hbase.add_peer("q")
    for peer_id in ("p", "q"):
        for timestamp in (1, 2):
            hbase.add_wal(SERVER, peer_id, wal(timestamp))
    assert commit(session_of(zk, own), "p", "k", {GROUP: 1})
    assert find_new(session_of(zk, own), "p", "k") is None
    assert find_new(session_of(zk, own), "p", "other/key") is not None
    assert find_new(session_of(zk, own), "q", "k") is not None


def test_of_two_who_found_the_same_one_commits_it(zk: KazooClient, new_client: Callable[[], KazooClient], own: OwnZNodes) -> None:
    clients = [zk, new_client()]
    barrier = threading.Barrier(2)
    taken: list[bool] = []

    def take(client: KazooClient) -> None:
        barrier.wait(10)
        for timestamp in range(20):
            taken.append(commit(session_of(client, own), "p", "k", {GROUP: timestamp}))

    threads = [threading.Thread(target=take, args=(client,)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 1 <= taken.count(True) <= 20
    assert not commit(session_of(zk, own), "p", "k", {GROUP: 19})


def test_a_cursor_never_moves_back(zk: KazooClient, hbase: HBaseZNodes, own: OwnZNodes) -> None:
    for timestamp in (1, 2, 3):
        hbase.add_wal(SERVER, "p", wal(timestamp))
    assert commit(session_of(zk, own), "p", "k", {GROUP: 2})
    assert not commit(session_of(zk, own), "p", "k", {GROUP: 1})
    assert find_new(session_of(zk, own), "p", "k") is None


def test_a_cursor_forgets_groups_that_are_queued_no_more(zk: KazooClient, hbase: HBaseZNodes, own: OwnZNodes) -> None:
    hbase.add_wal(SERVER, "p", wal(1))
    assert commit(session_of(zk, own), "p", "k", {DEAD_GROUP: 1})
    assert commit(session_of(zk, own), "p", "k", {GROUP: 1})
    assert DEAD_GROUP.encode() not in zk.get(own.cursor("p", "k"))[0]


def test_a_peer_that_must_not_be_shipped_is_refused(zk: KazooClient, hbase: HBaseZNodes, own: OwnZNodes) -> None:
    hbase.add_peer("on", "ENABLED")
    hbase.add_peer("plain", config={})
    for peer_id, error in (("on", EnabledPeer), ("plain", UnmanagedPeer), ("nobody", MissingPeer)):
        with pytest.raises(error):
            find_new(session_of(zk, own), peer_id, "k")


def test_a_cursor_that_is_none_is_named(zk: KazooClient, hbase: HBaseZNodes, own: OwnZNodes) -> None:
    hbase.zk.create(own.cursor("p", "k"), b"[1]", makepath=True)
    with pytest.raises(ZNodeValueError, match=r"cursors.*all WALs are new then"):
        find_new(session_of(zk, own), "p", "k")


def test_a_paused_peer_has_nothing_new_until_it_is_resumed(zk: KazooClient, hbase: HBaseZNodes, own: OwnZNodes) -> None:
    for timestamp in (1, 2):
        hbase.add_wal(SERVER, "p", wal(timestamp))
    changed = threading.Event()
    hbase.set_config("p", {"walferry.managed": "true", "walferry.paused": "true"})
    assert find_new(session_of(zk, own), "p", "k", watch=lambda _: changed.set()) is None
    hbase.set_config("p", {"walferry.managed": "true", "walferry.paused": "false"})
    assert changed.wait(10)
    assert find_new(session_of(zk, own), "p", "k") == NewWals({GROUP: 1}, 1)
