"""Queues, leases and new WALs on a real HBase over a real HDFS, also while HBase claims a dead server's queue."""

import asyncio
import time
from collections.abc import Callable, Iterator

import pytest
from kazoo.client import KazooClient

from embedded.client import GLOBAL, JavaClient
from embedded.hbase import ClusterAddress
from tests.conftest import DistributedPair
from tests.sessions import session_of
from walferry.base.zk.client import connected
from walferry.hbase.cluster import cluster_id, live_servers, master
from walferry.hbase.files.closedness import await_closed
from walferry.hbase.files.store import WalStore
from walferry.hbase.layout import ZNodes
from walferry.replication.peers.reading import check_shippable
from walferry.replication.queues.errors import LastWal
from walferry.replication.queues.finding import find_wal
from walferry.replication.queues.lease import acquire
from walferry.replication.queues.new_wals import NewWalsStream
from walferry.replication.queues.queue import Queue, groups
from walferry.replication.queues.reading import read_queues
from walferry.replication.source.cluster import SourceCluster
from walferry.replication.source.peers import read_peer

CLAIM_LIMIT_SECONDS = 300
MakeClient = Callable[[ClusterAddress], JavaClient]


@pytest.fixture
def zk(distributed_pair: DistributedPair) -> Iterator[KazooClient]:
    with connected(distributed_pair.source.address.quorum) as zk:
        yield zk


@pytest.fixture
def nodes(distributed_pair: DistributedPair) -> ZNodes:
    return ZNodes(distributed_pair.source.address.znode_parent)


@pytest.fixture
def peer(distributed_pair: DistributedPair, managed_peer: Callable[[ClusterAddress, ClusterAddress], str]) -> str:
    return managed_peer(distributed_pair.source.address, distributed_pair.peer_cluster.address)


@pytest.fixture
def table(distributed_pair: DistributedPair, java_client: MakeClient, unique: Callable[[str], str]) -> str:
    name = unique("t")
    java_client(distributed_pair.source.address).create_table(name, {"f": GLOBAL})
    return name


def write_and_roll(client: JavaClient, table: str) -> None:
    client.put_many(table, 100, ["f:q"])
    client.roll_wals()


def test_what_hbase_keeps_in_zookeeper_is_read(
    distributed_pair: DistributedPair, java_client: MakeClient, zk: KazooClient, nodes: ZNodes, peer: str, table: str
) -> None:
    client = java_client(distributed_pair.source.address)
    assert {str(server) for server in live_servers(zk, nodes)} == set(client.region_servers())
    assert cluster_id(zk, nodes).version == 4
    assert master(zk, nodes).port > 0
    found = read_peer(session_of(zk, nodes), peer)
    check_shippable(found)
    assert found.peer_cluster.connect_string == distributed_pair.peer_cluster.address.quorum
    write_and_roll(client, table)
    queues = read_queues(session_of(zk, nodes), peer)
    assert {queue.server for queue in queues} == set(client.region_servers())
    store = WalStore(distributed_pair.source.address.wal_root)
    for queue in queues:
        assert queue.live
        assert not queue.problems
        (wals,) = groups(queue).values()
        assert [queued.position for queued in wals] == [0] * len(wals)
        assert len(wals) >= 2
        for queued in wals[:-1]:
            location = await_closed(store, queued.name)
            with store.open(location) as file:
                assert file.read_at(0, 4) == b"PWAL"
                assert file.size == location.size


def test_positions_and_removals_leave_hbase_content(
    distributed_pair: DistributedPair, java_client: MakeClient, zk: KazooClient, nodes: ZNodes, peer: str, table: str
) -> None:
    client = java_client(distributed_pair.source.address)
    write_and_roll(client, table)
    for queue in read_queues(session_of(zk, nodes), peer):
        for group, wals in groups(queue).items():
            with acquire(session_of(zk, nodes), peer, group, "test") as lease:
                lease.register_position(wals[0].name.text, 85)
                assert read_position(zk, nodes, peer, wals[0].name.text) == 85
                for queued in wals[:-1]:
                    assert lease.remove_wal(queued.name.text)
                with pytest.raises(LastWal):
                    lease.remove_wal(wals[-1].name.text)
    write_and_roll(client, table)
    assert all(len(queue.wals) >= 2 for queue in read_queues(session_of(zk, nodes), peer))
    assert all(server.process.alive for server in distributed_pair.source.regionservers)


def test_a_roll_wakes_the_stream_of_new_wals(
    distributed_pair: DistributedPair, java_client: MakeClient, zk: KazooClient, nodes: ZNodes, peer: str, table: str
) -> None:
    client = java_client(distributed_pair.source.address)
    address = distributed_pair.source.address
    source = SourceCluster(quorum=address.quorum, wal_root=address.wal_root, znode_parent=address.znode_parent)

    async def scenario() -> None:
        async with NewWalsStream(source, peer, "test") as stream:
            waiting = asyncio.ensure_future(stream.next())
            for _ in range(2):
                await asyncio.sleep(3)
                assert not waiting.done()
                await asyncio.to_thread(write_and_roll, client, table)
                found = await asyncio.wait_for(waiting, 60)
                covered = dict(found.newest)
                while len(covered) < len(distributed_pair.source.regionservers):
                    covered.update((await asyncio.wait_for(stream.next(covered), 60)).newest)
                assert await stream.commit(covered)
                waiting = asyncio.ensure_future(stream.next())
            waiting.cancel()

    asyncio.run(scenario())


def test_a_holder_goes_on_while_hbase_claims_the_dead_server_s_queue(
    distributed_pair: DistributedPair, java_client: MakeClient, zk: KazooClient, nodes: ZNodes, peer: str, table: str
) -> None:
    source = distributed_pair.source
    write_and_roll(java_client(source.address), table)
    dead = source.regionservers[0].server_name
    (queue,) = [queue for queue in read_queues(session_of(zk, nodes), peer) if queue.server == dead]
    ((group, wals),) = groups(queue).items()
    first = wals[0].name.text
    with acquire(session_of(zk, nodes), peer, group, "test") as lease:
        lease.register_position(first, 85)
        source.kill_regionserver(0)
        source.start_regionserver()
        claimed = wait_for_claim(zk, nodes, peer, queue)
        assert claimed.id.dead_servers == (dead,)
        assert [queued.name for queued in claimed.wals] == [queued.name for queued in wals]
        assert claimed.wals[0].position == 85
        lease.register_position(first, 86)
        assert read_position(zk, nodes, peer, first) == 86
        store = WalStore(source.address.wal_root)
        for queued in claimed.wals:
            assert await_closed(store, queued.name, (*claimed.id.dead_servers, claimed.server), timeout_seconds=60).size >= 0
            assert lease.remove_wal(queued.name.text)
    assert [q.server for q in read_queues(session_of(zk, nodes), peer) if q.id.recovered] == []
    assert not zk.exists(claimed.path)
    assert all(server.process.alive for server in source.regionservers)


def wait_for_claim(zk: KazooClient, nodes: ZNodes, peer: str, queue: Queue) -> Queue:
    give_up = time.monotonic() + CLAIM_LIMIT_SECONDS
    while time.monotonic() < give_up:
        for found in read_queues(session_of(zk, nodes), peer):
            if found.id.recovered:
                return found
        time.sleep(0.5)
    there = [found.path for found in read_queues(session_of(zk, nodes), peer)]
    raise AssertionError(f"HBase has not claimed {queue.path}; queues now: {there}")


def read_position(zk: KazooClient, nodes: ZNodes, peer: str, wal: str) -> int:
    session = session_of(zk, nodes)
    path = find_wal(session, peer, wal)
    (position,) = [queued.position for queue in read_queues(session, peer) for queued in queue.wals if queued.path == path]
    return position
