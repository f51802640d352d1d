"""A peer is handed back after a RegionServer has died and HBase has claimed its queue."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from embedded.client import GLOBAL, even_splits
from embedded.processes import wait_until
from tests.cluster.walferry_runs import ship, source_of
from walferry.admin.creating import create
from walferry.admin.handing_back import begin_hand_back, finish_hand_back
from walferry.admin.peers import PeerAdmin, Refused, peer_admin
from walferry.admin.removing import remove
from walferry.replication.queues.queue import Queue
from walferry.replication.queues.reading import read_queues

ROWS = 2000
CLAIM_TIMEOUT_SECONDS = 240


@pytest.fixture
def admin(distributed_pair) -> Iterator[PeerAdmin]:
    with peer_admin(source_of(distributed_pair.source.address)) as peers:
        yield peers


def recovered(admin: PeerAdmin, peer_id: str) -> list[Queue]:
    return [queue for queue in read_queues(admin.session, peer_id) if queue.id.recovered]


def test_a_peer_with_a_claimed_queue_is_handed_back_when_it_is_drained(admin, distributed_pair, java_client, unique):
    source, peer_cluster = (java_client(cluster.address) for cluster in distributed_pair)
    ours, new, table = unique("peer"), unique("peer"), unique("t")
    for client in (source, peer_cluster):
        client.create_table(table, {"f": GLOBAL}, even_splits(4))
    source.roll_wals()  # the peer cluster may lack the tables of other tests
    # other tests have left tables that the peer cluster lacks
    create(admin, ours, peer_cluster.address.cluster_key, allow_missing=True)
    source.put_many(table, ROWS, ["f:q"])
    distributed_pair.source.start_regionserver()
    distributed_pair.source.kill_regionserver(0)
    wait_until(lambda: recovered(admin, ours) != [], "HBase claims the queue", processes=[], timeout=CLAIM_TIMEOUT_SECONDS)

    with pytest.raises(Refused, match="not shipped whole"):
        remove(admin, ours)
    begin_hand_back(admin, ours, new)
    source.put_many(table, ROWS, ["f:q"], first=ROWS)
    with pytest.raises(Refused, match=f"queued for {ours} alone"):
        finish_hand_back(admin, ours, new)
    assert [summary.error for summary in ship(admin.session.source, ours) if summary.error] == []
    assert recovered(admin, ours) == []

    servers = source.region_servers()
    finish_hand_back(admin, ours, new)
    assert read_queues(admin.session, ours) == []
    assert next(peer for peer in source.list_peers() if peer.id == new).enabled
    source.roll_wals()
    source.put_many(table, ROWS, ["f:q"], first=2 * ROWS)
    wait_until(lambda: peer_cluster.count_rows(table) == 3 * ROWS, "HBase has replicated the rest", processes=[], timeout=120)
    assert source.compare(table, peer_cluster).same
    assert source.region_servers() == servers  # no server has aborted over a queue that was drained under its hands
    source.remove_peer(new)
