"""Dead servers are found by their remains, whenever they died."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from kazoo.client import KazooClient

from tests.claimed import unclaimed
from tests.sessions import session_of
from tests.zk.claim_cluster import OLDER, ClaimCluster
from tests.zk.hbase_znodes import DEAD, LAYOUTS, OTHER, SERVER, wal
from walferry.replication.queues.dead_servers import WALFERRY_SERVER, find_dead, recovered_queues


@pytest.fixture(params=LAYOUTS)
def at(request: pytest.FixtureRequest, new_client: Callable[[], KazooClient]) -> ClaimCluster:
    return ClaimCluster(new_client(), request.param)


def test_a_dead_server_is_found_with_its_queues_of_managed_peers(zk: KazooClient, at: ClaimCluster) -> None:
    at.hbase.add_peer("stranger", config={})
    at.hbase.add_wal(DEAD, "stranger", wal(1, DEAD))
    at.hbase.add_wal("rs-7.example.org,16020,1", "stranger", wal(1, "rs-7.example.org,16020,1"))
    (dead,) = find_dead(session_of(zk, at))
    assert dead.name == DEAD
    assert {queue.ref for queue in dead.queues} == {f"{DEAD}/p", f"{DEAD}/q", f"{DEAD}/p-{OLDER}"}
    assert unclaimed(session_of(zk, at)) == (DEAD,)


def test_a_queue_names_its_wals_by_age_and_its_groups(zk: KazooClient, at: ClaimCluster) -> None:
    at.hbase.add_wal(DEAD, "q", wal(10, DEAD))
    (queue,) = (q for q in recovered_queues(session_of(zk, at), "q"))
    prefix = DEAD.replace(",", "%2C")
    assert queue.groups == (prefix, f"{prefix}.{prefix}.regiongroup-1")
    assert queue.wals[:4] == tuple(wal(n, DEAD) for n in (1, 2, 3, 10))
    assert queue.dead_server == DEAD


def test_live_servers_own_queues_are_none_of_it_and_the_lock_neither(zk: KazooClient, at: ClaimCluster) -> None:
    if at.nodes.locked:
        at.hbase.zk.create(at.nodes.lock(DEAD))
    assert {queue.server for queue in recovered_queues(session_of(zk, at))} == {DEAD}
    at.hbase.stop_server(OTHER)
    assert [dead.name for dead in find_dead(session_of(zk, at))] == [DEAD, OTHER]


def test_a_claimed_queue_belongs_to_the_last_server_that_died(zk: KazooClient, at: ClaimCluster) -> None:
    at.hbase.claim(DEAD, f"p-{OLDER}", by=SERVER)
    at.hbase.claim(DEAD, "p", by=WALFERRY_SERVER)
    at.hbase.claim(DEAD, "q", by=OTHER)
    at.hbase.stop_server(OTHER)
    found = {dead.name: {queue.ref for queue in dead.queues} for dead in find_dead(session_of(zk, at))}
    assert found == {
        DEAD: {f"{SERVER}/p-{OLDER}-{DEAD}", f"{WALFERRY_SERVER}/p-{DEAD}"},
        OTHER: {f"{OTHER}/p", f"{OTHER}/q-{DEAD}"},
    }
    assert unclaimed(session_of(zk, at)) == (OTHER,)


def test_what_a_starting_server_has_adopted_from_walferry_s_pseudo_server_still_belongs_to_the_server_that_died(
    zk: KazooClient, at: ClaimCluster
) -> None:
    """RegionServers of 2.0 to 2.4 adopt all queues under a server that is not live."""
    at.hbase.claim(DEAD, "p", by=WALFERRY_SERVER)
    at.hbase.claim(WALFERRY_SERVER, f"p-{DEAD}", by=SERVER)
    adopted = f"{SERVER}/p-{DEAD}-{WALFERRY_SERVER}"
    found = {dead.name: {queue.ref for queue in dead.queues} for dead in find_dead(session_of(zk, at))}
    assert found == {DEAD: {adopted, f"{DEAD}/q", f"{DEAD}/p-{OLDER}"}}


def test_a_drained_queue_s_server_is_no_longer_there(zk: KazooClient, at: ClaimCluster) -> None:
    for queue_id in ("p", "q", f"p-{OLDER}"):
        at.hbase.claim(DEAD, queue_id, by=SERVER)
    for queue in recovered_queues(session_of(zk, at)):
        at.hbase.zk.delete(at.nodes.queue(queue.server, queue.queue_id), recursive=True)
    assert find_dead(session_of(zk, at)) == ()


def test_a_peer_that_is_not_to_be_shipped_now_makes_no_server_a_case(zk: KazooClient, at: ClaimCluster) -> None:
    at.hbase.set_state("p", "ENABLED")
    (dead,) = find_dead(session_of(zk, at))
    assert {queue.peer_id for queue in dead.queues} == {"q"}
