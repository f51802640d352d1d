"""A queue with more WAL names than a client accepts stops only itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from embedded.zookeeper import ZooKeeperServer, create_all
from tests.claimed import claim_and_find
from tests.sessions import session_of
from tests.zk.claim_cluster import ClaimCluster
from tests.zk.hbase_znodes import DEAD, LAYOUTS, OTHER, SERVER, wal
from walferry.base.zk.client import children, children_all, connect, disconnect, read
from walferry.base.zk.errors import AnswerTooLong
from walferry.base.zk.records import encode
from walferry.hbase.names import ServerName
from walferry.load.records import Load, forget_finished, loads_of
from walferry.observe.status.ages import Certainty
from walferry.observe.status.describing import describe
from walferry.observe.status.view import view
from walferry.replication.queues import rolling
from walferry.replication.queues.claims.steps import claim_hold
from walferry.replication.queues.dead_servers import find_dead
from walferry.replication.queues.lease import acquire
from walferry.replication.queues.new_wals import commit, find_new
from walferry.replication.queues.reading import list_queues
from walferry.replication.source.session import Session
from walferry.runs.steps import batch, recovery
from walferry.shipping.garbage_collection import collect_garbage
from walferry.shipping.plan import PeerPlan, plan_peer

MOST_BYTES = 8 << 10  # of an answer; WALs of three dozen names are longer
WALS = 200
GONE = "rs-9.example.org,16020,1700000000009"


@pytest.fixture
def narrow(zookeeper: ZooKeeperServer) -> Iterator[KazooClient]:
    """A client that takes short answers only."""
    client = connect(zookeeper.quorum, session_timeout=60, call_timeout=20, most_bytes=MOST_BYTES)
    yield client
    disconnect(client)


@pytest.fixture(params=LAYOUTS)
def at(request: pytest.FixtureRequest, new_client: Callable[[], KazooClient], tmp_path: Path) -> ClaimCluster:
    """A dead server with queues of p and q; that of q has very many WALs."""
    cluster = ClaimCluster(new_client(), request.param)
    (tmp_path / "WALs").mkdir()
    cluster.source = replace(cluster.source, wal_root=f"file://{tmp_path}")
    path = cluster.nodes.queue(DEAD, "q")
    create_all(cluster.hbase.zk, ((f"{path}/{wal(1000 + i, DEAD)}", b"") for i in range(WALS)))
    return cluster


def test_only_the_request_fails_that_has_too_long_an_answer(narrow: KazooClient, at: ClaimCluster) -> None:
    session_id = narrow.client_id
    path = at.nodes.queue(DEAD, "q")
    began = time.monotonic()
    with pytest.raises(AnswerTooLong, match=f"children of {path} cannot be listed"):
        children(narrow, path)
    with pytest.raises(AnswerTooLong):
        children_all(narrow, [at.nodes.queue(DEAD, "p"), path])
    assert read(narrow, at.nodes.hbaseid) is not None
    assert (narrow.client_id, time.monotonic() - began < 5) == (session_id, True)


def test_the_other_queues_are_found_claimed_and_planned(narrow: KazooClient, at: ClaimCluster) -> None:
    session = session_of(narrow, at)
    (dead,) = find_dead(session)
    assert {queue.peer_id: bool(queue.unread) for queue in dead.queues} == {"p": False, "q": True}
    claimed = claim_and_find(session, DEAD, "run", "test")
    moved = {queue.peer_id: queue.claimed for queue in claimed.queues}
    print(f"claimed: {moved}, moved {claimed.moved}")
    assert moved == {"p": True, "q": False}
    assert len(at.hbase.zk.get_children(at.nodes.queue(DEAD, "q"))) == WALS + 4
    assert [queue.id.peer_id for queue in list_queues(session, "p")].count("p") == 4
    problems = [group.problem or "" for group in plan_peer(session, "q").groups]
    assert ["cannot be listed" in problem for problem in problems].count(True) == 1
    with pytest.raises(AnswerTooLong, match=at.nodes.queue(DEAD, "q")):
        list_queues(session, "q")
    assert at.nodes.queue(DEAD, "q") in " ".join(view(session).problems)


def test_the_lag_of_a_peer_with_such_a_queue_is_unknown(narrow: KazooClient, at: ClaimCluster) -> None:
    lags = {
        peer.id: (peer.replicationLag.certainty, peer.valid_through_ms)
        for peer in describe(view(session_of(narrow, at))).peers or ()
    }
    assert lags["q"] == (Certainty.UNKNOWN, None)


def test_a_run_that_recovers_the_server_drains_the_rest_and_names_the_queue(
    narrow: KazooClient, at: ClaimCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = Session(at.source, narrow)
    monkeypatch.setattr(recovery, "open_session", lambda source, **_: nullcontext(session))
    monkeypatch.setattr(recovery, "disagreements", lambda *_: {})
    assert recovery.find(at.source, "", ()).servers == [DEAD]
    claimed = recovery.claim(at.source, DEAD, "run")
    monkeypatch.setattr(recovery, "plan_peer", lambda session, peer_id, names: PeerPlan(peer_id, ()))
    planned = recovery.plan(at.source, recovery.wanted_by_claims([claimed]), [DEAD], "run").drains
    drains = {drain.peer: drain.problem for drain in planned}
    assert "cannot be listed" in (drains.pop("q") or "")
    assert drains == {"p": ""}
    left = {drained.drain.peer: drained.left for drained in recovery.outcome(at.source, planned, "run", {})}
    assert left["q"] > 0
    recovery.clean_up(at.source, [DEAD], "run")
    assert at.hbase.zk.exists(at.nodes.queue(DEAD, "q"))
    assert at.hbase.zk.exists(f"{at.nodes.rs}/{SERVER}")


def test_queues_of_a_peer_that_is_gone_are_deleted_though_another_run_claims_one_of_them(
    zk: KazooClient, at: ClaimCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    at.hbase.zk.delete(at.nodes.peer("p"), recursive=True)
    session = Session(at.source, zk)
    monkeypatch.setattr(recovery, "open_session", lambda source, **_: nullcontext(session))
    monkeypatch.setattr(recovery, "disagreements", lambda *_: {})
    at.hbase.add_wal(OTHER, f"p-{GONE}", wal(7, GONE))
    selected = recovery.select(at.source, "p", "", delete_orphan=True)
    lock = claim_hold(zk, session.own.claim(DEAD), DEAD)
    lock.acquire("another run")
    dealt = recovery.deal_with_orphans(at.source, selected.to_delete, delete=True, run_id="run")
    assert sorted(line.split()[1] for line in dealt.lines if line.endswith(" not shipped: deleted")) == [f"{OTHER}/p-{GONE}"]
    assert len(dealt.problems) == len(selected.orphans) - 1
    assert all("another run" in problem for problem in dealt.problems)


def test_of_the_queues_of_a_peer_that_is_gone_only_this_one_stays(
    narrow: KazooClient, at: ClaimCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    at.hbase.zk.delete(at.nodes.peer("q"), recursive=True)
    short = at.hbase.add_wal(OTHER, f"q-{GONE}", wal(7, GONE)).rpartition("/")[0]
    session = Session(at.source, narrow)
    monkeypatch.setattr(recovery, "open_session", lambda source, **_: nullcontext(session))
    monkeypatch.setattr(recovery, "disagreements", lambda *_: {})
    selected = recovery.select(at.source, "q", "", delete_orphan=True)
    dealt = recovery.deal_with_orphans(at.source, selected.to_delete, delete=True, run_id="run")
    reported = {line.split()[1]: line for line in dealt.lines}
    assert reported[f"{OTHER}/q-{GONE}"].endswith(" not shipped: deleted")
    assert f"not deleted: the children of {at.nodes.queue(DEAD, 'q')} cannot be listed" in reported[f"{DEAD}/q"]
    (problem,) = dealt.problems
    assert problem.startswith(f"{DEAD}/q is not deleted: ")
    assert at.hbase.zk.exists(short) is None
    assert at.hbase.zk.exists(at.nodes.queue(DEAD, "q"))


LIVE_GROUP, DEAD_GROUP, GONE_GROUP = (wal(0, server).rpartition(".")[0] for server in (SERVER, DEAD, "gone,1,1"))


@pytest.fixture
def tried(narrow: KazooClient, at: ClaimCluster, monkeypatch: pytest.MonkeyPatch) -> Session:
    """The peer of the long queue has WALs elsewhere, and a run has tried the long queue: a lease shows it."""
    session = Session(at.source, narrow)
    monkeypatch.setattr(batch, "open_session", lambda source, **_: nullcontext(session))
    for timestamp in (1, 2):
        at.hbase.add_wal(SERVER, "q", wal(timestamp, SERVER))
    for group in (DEAD_GROUP, GONE_GROUP):
        acquire(session, "q", group, "an earlier run").release()
    return session


def test_later_batches_of_the_same_peer_plan_its_other_queues(
    tried: Session, at: ClaimCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch, "_check", lambda *_: None)
    planned = batch.plan(at.source, "q", "run")
    assert ["cannot be listed" in problem.problem for problem in planned.problems].count(True) == 1
    assert {problem.group for problem in planned.problems} >= {LIVE_GROUP, DEAD_GROUP}
    assert batch.not_held(at.source, "q") == [LIVE_GROUP]


def test_leases_stay_while_a_queue_may_need_them(tried: Session, at: ClaimCluster) -> None:
    collect_garbage(tried, "q")
    assert at.hbase.zk.exists(at.own.lease("q", DEAD_GROUP))
    collect_garbage(Session(at.source, at.hbase.zk), "q")
    assert not at.hbase.zk.exists(at.own.lease("q", GONE_GROUP))


def test_a_dag_hears_of_new_wals_in_the_other_queues(tried: Session, at: ClaimCluster) -> None:
    assert commit(Session(at.source, at.hbase.zk), "q", "key", {DEAD_GROUP: 900})
    found = find_new(tried, "q", "key")
    assert found is not None
    assert found.newest == {LIVE_GROUP: 1}
    assert commit(tried, "q", "key", found.newest)
    assert find_new(tried, "q", "key") is None
    later = find_new(Session(at.source, at.hbase.zk), "q", "key")
    assert later is not None
    assert later.count == WALS + 1  # and not the three that the cursor has


def test_a_run_ends_well_and_remembers_what_is_loaded(tried: Session, at: ClaimCluster) -> None:
    record = f"{at.own.loads('q')}/load"
    at.hbase.zk.create(record, encode(Load("run", {DEAD_GROUP: wal(3, DEAD)}, done=True, tables={"t": ("f",)})), makepath=True)
    forget_finished(tried, "q")
    assert [load.path for load in loads_of(tried, "q")] == [record]


def test_a_live_server_s_long_queue_stops_neither_a_roll_for_all_peers_nor_the_plans_of_others(
    narrow: KazooClient, at: ClaimCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a peer is not shipped for months, the queue of each long-lived server contains all WALs since then."""
    session = Session(at.source, narrow)
    path = at.nodes.queue(SERVER, "q")
    at.hbase.zk.ensure_path(path)
    create_all(at.hbase.zk, ((f"{path}/{wal(1000 + i, SERVER)}", b"") for i in range(WALS)))

    def ask(servers: Collection[ServerName], _: object) -> dict[str, str]:
        for server in map(str, servers):
            for peer in ("p", "q"):
                at.hbase.add_wal(server, peer, wal(10_000, server))
        return {}

    monkeypatch.setattr(rolling, "_ask", ask)
    rolled = rolling.roll(session, ["p", "q"])
    assert (rolled.servers, rolled.failures) == (2, {})
    assert find_new(session, "p", "key") is not None
    assert LIVE_GROUP in [group.group for group in plan_peer(session, "p").groups]
    assert [group.group for group in plan_peer(session, "q").groups if "cannot be listed" in (group.problem or "")]
