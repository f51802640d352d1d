"""A claim that is killed before or after any single write, and tried again, ends as if it had never been killed.

There are three queues of four WALs each, one of them chained, in each layout. The claim is tried again by the same run at once,
while the killed attempt's session still lives, and by another run once that session has ended.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from kazoo.client import KazooClient

from tests.claimed import ClaimedQueues, claim_and_find
from tests.sessions import session_of
from tests.zk.claim_cluster import ClaimCluster, Killed, Killer
from tests.zk.hbase_znodes import DEAD, LAYOUTS, OTHER, expire
from walferry.base.zk.fenced_lock import is_held
from walferry.hbase.layout import QueueLayout
from walferry.hbase.values import strip_client_prefix
from walferry.replication.queues.claims import steps
from walferry.replication.queues.errors import ClaimHeld

MULTIS = {"a queue a multi": steps.MAX_MULTI_BYTES, "a WAL a multi": 1}
# The two classic layouts differ in paths only.
CASES = [
    pytest.param(layout, multi, marks=[pytest.mark.soak] if (layout, multi) == (LAYOUTS[-1], "a WAL a multi") else [])
    for layout in LAYOUTS
    for multi in MULTIS
]


def claimed(zk: KazooClient, cluster: ClaimCluster, run_id: str = "run") -> ClaimedQueues:
    to = OTHER if cluster.nodes.locked else None
    return claim_and_find(session_of(zk, cluster), DEAD, run_id, f"{run_id} on a host", to)


@pytest.fixture
def reference(
    layout: QueueLayout, multi: str, new_client: Callable[[], KazooClient], monkeypatch: pytest.MonkeyPatch
) -> tuple[int, dict[str, bytes]]:
    """Return how many writes an undisturbed claim takes, and its result."""
    monkeypatch.setattr(steps, "MAX_MULTI_BYTES", MULTIS[multi])
    cluster, zk = ClaimCluster(new_client(), layout), new_client()
    killer = Killer(zk)
    claimed(zk, cluster)
    return killer.writes, _comparable(cluster)


def _comparable(cluster: ClaimCluster) -> dict[str, bytes]:
    """Return the znodes without the random salt in the values of HBase's client."""
    return {path: strip_client_prefix(value, path) for path, value in cluster.tree().items()}


@pytest.mark.slow
@pytest.mark.parametrize(("layout", "multi"), CASES)
@pytest.mark.parametrize("by", ["the same run", "another run"])
@pytest.mark.timeout(600)
def test_a_claim_killed_at_any_write_is_ended_by_the_next_try(
    layout: QueueLayout, by: str, multi: str, new_client: Callable[[], KazooClient], reference: tuple[int, dict[str, bytes]]
) -> None:
    writes, expected = reference
    points = 0
    hbase = new_client()
    for at in range(writes):
        for after in (False, True):
            cluster, first = ClaimCluster(hbase, layout), new_client()
            before = cluster.queued()
            Killer(first, at, after=after)
            with pytest.raises(Killed):
                claimed(first, cluster)
            points += 1
            assert set(cluster.queued()) == set(before), f"lost by a kill at write {at}, after it: {after}"
            if by == "another run":
                expire(first)
            second = new_client()
            result = claimed(second, cluster, "run" if by == "the same run" else "other")
            queued = cluster.queued()
            assert {key: values[0] for key, values in queued.items()} == {k: v[0] for k, v in before.items()}
            assert all(len(values) == 1 for values in queued.values()), f"twice after a kill at write {at}"
            assert _comparable(cluster) == expected
            assert sorted(len(queue.wals) for queue in result.queues) == [4, 4, 4]
    print(f"{layout}, {multi}, ended by {by}: {points} crash points")
    assert points > 2 * (4 if multi == "a queue a multi" else 12)


@pytest.mark.slow
@pytest.mark.parametrize(("layout", "multi"), CASES)
def test_another_run_is_refused_at_any_point_while_the_holder_lives(
    layout: QueueLayout, new_client: Callable[[], KazooClient], reference: tuple[int, dict[str, bytes]]
) -> None:
    writes, _ = reference
    held: list[bool] = []
    hbase, second = new_client(), new_client()
    for at in range(writes):
        cluster, first = ClaimCluster(hbase, layout), new_client()
        Killer(first, at)
        with pytest.raises(Killed):
            claimed(first, cluster)
        held.append(is_held(cluster.hbase.zk, cluster.own.claim(DEAD)))
        if held[-1]:
            before = cluster.tree()
            with pytest.raises(ClaimHeld, match="run on a host"):
                claimed(second, cluster, "other")
            assert cluster.tree() == before
    assert all(held[held.index(True) :])  # from the first write of the holder to the last


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_claim_done_twice_changes_nothing_and_tells_the_same(
    layout: QueueLayout, new_client: Callable[[], KazooClient]
) -> None:
    cluster, zk = ClaimCluster(new_client(), layout), new_client()
    first = claimed(zk, cluster)
    after = cluster.tree()
    again = claimed(zk, cluster, "any other run")
    assert cluster.tree() == after
    assert (first.moved, again.moved) == (3, 0)
    assert again.queues == first.queues
