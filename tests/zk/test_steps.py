"""A queue is moved in steps that ZooKeeper can take."""

from __future__ import annotations

import pytest
from kazoo.client import KazooClient

from tests.zk.claim_cluster import Cluster, claimed, cluster, once
from tests.zk.hbase_znodes import DEAD, prefixed, wal
from walferry.hbase.layout import QueueLayout
from walferry.hbase.values import encode_position

__all__ = ["cluster"]  # a fixture


@pytest.mark.slow
@pytest.mark.parametrize("layout", [QueueLayout.HBASE2, QueueLayout.CLASSIC])
@pytest.mark.timeout(300)
def test_a_queue_that_no_multi_can_hold_is_moved_in_several(zk: KazooClient, cluster: Cluster, layout: QueueLayout) -> None:
    at = cluster(layout)
    names = [wal(n, DEAD) for n in range(1000, 9000)]
    path = at.nodes.queue(DEAD, "p")
    pending = [zk.create_async(f"{path}/{name}", prefixed(encode_position(n + 1))) for n, name in enumerate(names)]
    assert all(result.get() for result in pending)
    assert sum(2 * len(f"{path}-{DEAD}/{name}") for name in names) > 2 * 1024 * 1024  # jute.maxbuffer is 1 MiB
    before = once(at)
    result = claimed(zk, at)
    assert once(at) == before
    assert max(len(queue.wals) for queue in result.queues) == len(names) + 4
    assert not zk.exists(at.nodes.queue_server(DEAD))
