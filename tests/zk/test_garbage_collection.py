"""Leftovers are deleted, whichever process was killed at whichever write. Everything still needed stays."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from kazoo.client import KazooClient

from embedded.zookeeper import ZooKeeperServer
from tests.sessions import session_of
from tests.zk.claim_cluster import Killed, Killer
from tests.zk.hbase_znodes import DEAD, OTHER, SERVER, HBaseZNodes, expire, wal
from tests.zk.stepped import Stepped
from walferry.engine.summary import GroupSummary, Status
from walferry.hbase.layout import OwnZNodes, QueueLayout, quoted
from walferry.replication.queues.claims.steps import claim_hold
from walferry.replication.queues.dead_servers import WALFERRY_SERVER
from walferry.replication.queues.errors import LeaseHeld, LeaseLost, WalGone
from walferry.replication.queues.lease import acquire
from walferry.replication.queues.new_wals import commit
from walferry.replication.source.cluster import SourceCluster
from walferry.shipping import garbage_collection, runs
from walferry.shipping.garbage_collection import collect_garbage, collect_garbage_of_gone_peers
from walferry.shipping.runs import begin_run, read_run, write_group

NewClient = Callable[[], KazooClient]
GROUPS = {server: wal(0, server).rpartition(".")[0] for server in (SERVER, DEAD, OTHER)}


@pytest.fixture(params=[QueueLayout.HBASE2, QueueLayout.CLASSIC])
def at(request: pytest.FixtureRequest, hbase: HBaseZNodes, zookeeper: ZooKeeperServer) -> SourceCluster:
    return SourceCluster(
        quorum=zookeeper.quorum, wal_root="file:///hbase", znode_parent=hbase.nodes.base, root=hbase.root,
        queue_layout=request.param,
    )  # fmt: skip


def leases(hbase: HBaseZNodes, peer: str = "p") -> list[str]:
    path = OwnZNodes(hbase.root, hbase.nodes).lease(peer, "x").rpartition("/")[0]
    return sorted(name.replace("%252C", ",") for name in hbase.children(path))


def drain(zk: KazooClient, hbase: HBaseZNodes) -> None:
    """Drain the dead server's group as a job does."""
    with acquire(session_of(zk, hbase), "p", GROUPS[DEAD], "run") as lease:
        for timestamp in (1, 2):
            lease.register_position(wal(timestamp, DEAD), 100)
            lease.remove_wal(wal(timestamp, DEAD))


def test_leases_of_groups_that_are_queued_nowhere_go_and_the_others_stay(
    zk: KazooClient, hbase: HBaseZNodes, at: SourceCluster
) -> None:
    """A run may hold or want a dead server's group. A live server's group has WALs as long as the server lives."""
    for server in (SERVER, OTHER):
        hbase.add_wal(server, "p", wal(1, server))
    for server in (SERVER, OTHER, DEAD):
        acquire(session_of(zk, hbase), "p", GROUPS[server], "run").release()
    held = acquire(session_of(zk, hbase), "p", f"{GROUPS[DEAD]}.x", "run")
    assert collect_garbage(session_of(zk, at), "p") == 1
    assert leases(hbase) == [SERVER, f"{DEAD}.x", OTHER]
    hbase.add_wal(DEAD, "p", wal(1, DEAD, ".x"))
    held.register_position(wal(1, DEAD, ".x"), 100)


def test_so_many_leases_go_at_once_and_no_more(
    zk: KazooClient, hbase: HBaseZNodes, at: SourceCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(garbage_collection, "AT_ONCE", 2)
    for number in range(5):
        acquire(session_of(zk, hbase), "p", f"{GROUPS[DEAD]}.{number}x", "run").release()
    assert [collect_garbage(session_of(zk, at), "p") for _ in range(4)] == [2, 2, 1, 0]
    assert leases(hbase) == []


def test_leases_of_live_servers_groups_are_not_looked_for_in_the_queues(
    new_client: NewClient, hbase: HBaseZNodes, at: SourceCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nearly all leases are of such groups, and each peer's sweep would list the queues of all servers."""
    servers = [f"rs-{number}.example.org,16020,1700000000009" for number in range(30)]
    zk = new_client()
    for server in servers:
        hbase.start_server(server)
        hbase.add_wal(server, "p", wal(1, server))
        acquire(session_of(zk, hbase), "p", wal(1, server).rpartition(".")[0], "run").release()
    asked: list[str] = []
    ask = zk.get_children
    monkeypatch.setattr(zk, "get_children", lambda path, **options: asked.append(path) or ask(path, **options))
    assert collect_garbage(session_of(zk, at), "p") == 0
    assert len(asked) <= 3, asked
    hbase.stop_server(servers[7])
    hbase.zk.delete(hbase.nodes.queue_server(servers[7]), recursive=True)
    assert collect_garbage(session_of(zk, at), "p") == 1
    assert len(leases(hbase)) == 29


@pytest.mark.timeout(300)
def test_a_drain_that_was_killed_at_any_write_leaves_nothing_after_the_next_plan(
    new_client: NewClient, at: SourceCluster
) -> None:
    points = 0
    for number in range(100):
        for after in (False, True):
            hbase = HBaseZNodes.new(new_client())
            cluster = SourceCluster(quorum=at.quorum, wal_root="file:///hbase", znode_parent=hbase.nodes.base, root=hbase.root)
            hbase.add_peer("p")
            for timestamp in (1, 2):
                hbase.add_wal(WALFERRY_SERVER, f"p-{DEAD}", wal(timestamp, DEAD))
            first = new_client()
            Killer(first, number, after=after)
            try:
                drain(first, hbase)
            except (Killed, LeaseLost):
                points += 1
                expire(first)
            else:
                assert leases(hbase) == []
                assert hbase.children(hbase.nodes.queues) == []
                assert points > 10
                return
            second = new_client()
            if hbase.queued("p"):
                try:
                    drain(second, hbase)
                except WalGone:  # the first one
                    with acquire(session_of(second, hbase), "p", GROUPS[DEAD], "run") as lease:
                        lease.remove_wal(wal(2, DEAD))
            with acquire(session_of(second, hbase), "p", GROUPS[DEAD], "run") as lease:
                lease.remove_empty_queue(WALFERRY_SERVER, f"p-{DEAD}")
            collect_garbage(session_of(second, cluster), "p")
            assert leases(hbase) == [], f"after a kill at write {number}, after it: {after}"
            assert hbase.children(hbase.nodes.queues) == []
    raise AssertionError("a drain does not end")


@pytest.mark.parametrize("seed", range(30))
def test_drains_and_sweeps_at_the_same_time_put_nobody_out_and_leave_nothing(
    new_client: NewClient, hbase: HBaseZNodes, at: SourceCluster, seed: int
) -> None:
    """Step by step, in any order of their writes. The second one is refused, and the lease's holder finishes its work."""
    for timestamp in (1, 2):
        hbase.add_wal(DEAD, "p", wal(timestamp, DEAD))
    work: list[Callable[[KazooClient], object]] = [
        lambda zk: drain(zk, hbase),
        lambda zk: drain(zk, hbase),
        lambda zk: [collect_garbage(session_of(zk, at), "p") for _ in range(3)],
    ]
    actors = [Stepped(new_client(), each) for each in work]
    order = random.Random(seed)
    while running := [actor for actor in actors if actor.running]:
        order.choice(running).step()
    errors = [actor.error for actor in actors]
    assert errors[2] is None
    assert all(error is None or isinstance(error, LeaseHeld | WalGone) for error in errors), errors
    assert None in errors[:2]
    assert hbase.queued("p") == []
    collect_garbage(session_of(new_client(), at), "p")
    assert leases(hbase) == []


def test_an_emptied_pseudo_server_goes_with_the_next_plan_and_a_used_one_stays(
    zk: KazooClient, hbase: HBaseZNodes, at: SourceCluster
) -> None:
    path = hbase.add_wal(WALFERRY_SERVER, f"p-{DEAD}", wal(1, DEAD))
    collect_garbage(session_of(zk, at), "p")
    assert zk.exists(path)
    zk.delete(hbase.nodes.queue(WALFERRY_SERVER, f"p-{DEAD}"), recursive=True)
    collect_garbage(session_of(zk, at), "p")
    assert hbase.children(hbase.nodes.queues) == []


def test_leases_marks_and_old_reports_of_peers_that_are_gone_go(
    zk: KazooClient, hbase: HBaseZNodes, at: SourceCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = OwnZNodes(at.root, at.nodes)
    for peer in ("gone", "moved"):
        hbase.add_peer(peer)
    for peer in ("p", "gone", "moved"):
        acquire(session_of(zk, hbase), peer, GROUPS[DEAD], "run").release()
        commit(session_of(zk, own), peer, "sensor", {GROUPS[DEAD]: 1})
        begin_run(session_of(zk, at), peer, "old", 0.0)
        write_group(session_of(zk, at), peer, "old", GroupSummary(group="g", status=Status.DONE))
        begin_run(session_of(zk, at), peer, "young", 3600.0)
    for peer in ("gone", "moved"):
        zk.delete(hbase.nodes.peer(peer), recursive=True)
    assert collect_garbage_of_gone_peers(session_of(zk, at), ["moved"]) == 3
    folders = {kind: f"{at.root}/{kind}/{quoted(at.znode_parent)}" for kind in ("leases", "cursors", "runs")}
    assert {kind: sorted(hbase.children(folder)) for kind, folder in folders.items()} == {
        "leases": ["moved", "p"], "cursors": ["moved", "p"], "runs": ["gone", "moved", "p"]
    }  # fmt: skip
    assert hbase.children(f"{folders['runs']}/gone") == ["young"]
    assert read_run(session_of(zk, at), "p", "old")
    now = runs.time.time()
    monkeypatch.setattr(runs.time, "time", lambda: now + 3601)
    collect_garbage_of_gone_peers(session_of(zk, at), ["moved"])
    assert sorted(hbase.children(folders["runs"])) == ["moved", "p"]


def test_claims_of_servers_without_a_znode_go_unless_somebody_claims_them(
    zk: KazooClient, new_client: NewClient, hbase: HBaseZNodes, at: SourceCluster
) -> None:
    own = OwnZNodes(at.root, at.nodes)
    hbase.add_wal(OTHER, "p", wal(1, OTHER))
    for server in (DEAD, OTHER, "rs-9.example.org,16020,9"):
        claim_hold(zk, own.claim(server), server).acquire("run")
    expire(zk)
    held = claim_hold(new_client(), own.claim("rs-9.example.org,16020,9"), "rs-9")
    held.acquire("another")
    assert collect_garbage_of_gone_peers(session_of(new_client(), at)) == 1
    assert sorted(hbase.children(own.claim(DEAD).rpartition("/")[0])) == [OTHER, "rs-9.example.org,16020,9"]
    held.check()


@pytest.mark.parametrize("name", ["%2E%2E", "%2E", "%00", "a%2Fb", "..%2F..", "%C3%28", "%"])
def test_a_name_that_is_no_server_s_does_not_stop_the_sweep(
    zk: KazooClient, hbase: HBaseZNodes, at: SourceCluster, name: str
) -> None:
    for folder in ("claims", "runs", "peer-locks", "shipping", "leases", "cursors"):
        zk.ensure_path(f"{at.root}/{folder}/{quoted(at.znode_parent)}/{name}")
    dead = claim_hold(zk, OwnZNodes(at.root, at.nodes).claim(DEAD), DEAD)
    dead.acquire("run")
    dead.release()
    collect_garbage_of_gone_peers(session_of(zk, at))
    assert quoted(DEAD) not in hbase.children(f"{at.root}/claims/{quoted(at.znode_parent)}")


@pytest.mark.parametrize("until", [b"9" * 5000, b"never", b"\xff", b"1" * 400])
def test_a_run_of_a_gone_peer_that_does_not_say_when_it_ends_does_not_stop_the_sweep(
    zk: KazooClient, hbase: HBaseZNodes, at: SourceCluster, until: bytes
) -> None:
    begin_run(session_of(zk, at), "gone", "run", 0)
    zk.set(f"{session_of(zk, at).own.runs('gone')}/run", until)
    collect_garbage_of_gone_peers(session_of(zk, at))
    begin_run(session_of(zk, at), "gone", "another run", 0)
