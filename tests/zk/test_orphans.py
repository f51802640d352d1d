"""Queues of removed peers are deleted only if a run asks for it by name."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from kazoo.client import KazooClient

from tests.sessions import session_of
from tests.zk.claim_cluster import ClaimCluster
from tests.zk.hbase_znodes import DEAD, LAYOUTS, OTHER, SERVER, wal
from walferry.hbase.errors import PeerError
from walferry.replication.queues.claims.claim import delete_queue
from walferry.replication.queues.dead_servers import RecoveredQueue, recovered_queues
from walferry.replication.queues.errors import QueuesMoving


@pytest.fixture(params=LAYOUTS)
def at(request: pytest.FixtureRequest, new_client: Callable[[], KazooClient]) -> ClaimCluster:
    """A cluster with queues of the peer `gone`: under a dead server, under a live one that claimed it, and a live one's own."""
    cluster = ClaimCluster(new_client(), request.param)
    for server, queue_id in ((DEAD, "gone"), (OTHER, f"gone-{DEAD}"), (SERVER, "gone")):
        for n in (1, 2, 3):
            cluster.hbase.add_wal(server, queue_id, wal(n, DEAD))
    return cluster


def queue_called(zk: KazooClient, at: ClaimCluster, ref: str) -> RecoveredQueue:
    return next(queue for queue in recovered_queues(session_of(zk, at)) if queue.ref == ref)


def test_they_are_found_with_the_others(zk: KazooClient, at: ClaimCluster) -> None:
    assert {queue.ref for queue in recovered_queues(session_of(zk, at), "gone")} == {f"{DEAD}/gone", f"{OTHER}/gone-{DEAD}"}


@pytest.mark.parametrize("ref", [f"{DEAD}/gone", f"{OTHER}/gone-{DEAD}"])
def test_the_one_that_was_named_goes_and_nothing_else(zk: KazooClient, at: ClaimCluster, ref: str) -> None:
    before = at.tree()
    assert delete_queue(session_of(zk, at), queue_called(zk, at, ref), "an operator") == 3
    server, queue_id = ref.split("/")
    queue = at.nodes.queue(server, queue_id).removeprefix(at.nodes.queues)
    assert at.tree() == {path: value for path, value in before.items() if path != queue and not path.startswith(f"{queue}/")}


def test_wals_that_a_queue_has_got_since_it_was_read_are_not_deleted(zk: KazooClient, at: ClaimCluster) -> None:
    queue = queue_called(zk, at, f"{OTHER}/gone-{DEAD}")
    at.hbase.add_wal(OTHER, f"gone-{DEAD}", wal(4, DEAD))
    at.hbase.add_wal(OTHER, f"gone-{DEAD}", "no WAL")
    before = at.tree()
    with pytest.raises(QueuesMoving, match=f"has got {wal(4, DEAD)} since it was looked at"):
        delete_queue(session_of(zk, at), queue, "an operator")
    assert {path: value for path, value in at.tree().items() if not path.startswith("claim")} == before
    queue = queue_called(zk, at, f"{OTHER}/gone-{DEAD}")
    assert delete_queue(session_of(zk, at), queue, "an operator") == 5, "with what is no WAL"


def test_a_queue_of_a_peer_that_exists_is_not_deleted(zk: KazooClient, at: ClaimCluster) -> None:
    before = at.tree()
    with pytest.raises(PeerError, match="peer p: it exists"):
        delete_queue(session_of(zk, at), queue_called(zk, at, f"{DEAD}/p"), "an operator")
    assert {path: value for path, value in at.tree().items() if not path.startswith("claim")} == before
