"""The WALs of a group that may be shipped while the group is being moved."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from kazoo.client import KazooClient

from tests.sessions import session_of
from tests.zk.claim_cluster import ClaimCluster
from tests.zk.hbase_znodes import DEAD, LAYOUTS, OTHER, wal
from walferry.replication.queues.reading import read_queues
from walferry.shipping.candidates import candidates


@pytest.fixture(params=LAYOUTS)
def at(request: pytest.FixtureRequest, new_client: Callable[[], KazooClient]) -> ClaimCluster:
    return ClaimCluster(new_client(), request.param)


def test_a_wal_that_a_region_server_has_copied_and_not_yet_deleted_is_shipped_once_from_where_it_has_come_farthest(
    zk: KazooClient, at: ClaimCluster
) -> None:
    at.hbase.add_wal(OTHER, f"q-{DEAD}", wal(1, DEAD), 4711)
    group = next(g for g in candidates(read_queues(session_of(zk, at), "q")) if not g.group.endswith("regiongroup-1"))
    assert [(c.queued.name.timestamp, c.queued.position) for c in group.wals] == [(1, 4711), (2, 0), (3, 300)]
