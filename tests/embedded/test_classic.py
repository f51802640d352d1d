"""HBase 1.7.2 serves, queues WALs for a disabled peer, and its RegionServers take over a dead one's queues under a lock."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from embedded import wire
from embedded.classic import add_managed_peer, classic_options, remove_peer
from embedded.client import GLOBAL, JavaClient, JavaClientError, even_splits
from embedded.distributed import DistributedCluster, DistributedClusters, RegionServer
from embedded.hbase import ClusterAddress
from tests.cluster.walferry_runs import source_of
from tests.sessions import session_of
from walferry.hbase.cluster import master as active_master
from walferry.hbase.rpc import master
from walferry.hbase.rpc.errors import RemoteError
from walferry.replication.source.agreement import master_peers

WAIT_SECONDS = 60
QUEUES = "/hbase/replication/rs"


def eventually(done: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + WAIT_SECONDS
    while not done():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


@pytest.fixture(scope="module")
def cluster(cluster_folder) -> Iterator[DistributedCluster]:
    with DistributedClusters(cluster_folder / "classic", {"classic": classic_options()}) as clusters:
        yield clusters["classic"]


def test_its_master_has_no_call_for_peers_so_zookeeper_s_word_is_enough(cluster: DistributedCluster, zk: KazooClient) -> None:
    source = source_of(cluster.address)
    with master.connect(active_master(zk, source.nodes)) as connection, pytest.raises(RemoteError) as refused:
        master.list_peers(connection)
    assert master.lacks_call(refused.value, "ListReplicationPeers"), refused.value.stack_trace
    assert master_peers(session_of(zk, source)) is None


@pytest.fixture
def client(cluster: DistributedCluster, java_client: Callable[[ClusterAddress], JavaClient]) -> JavaClient:
    return java_client(cluster.address)


@pytest.fixture
def zk(cluster: DistributedCluster) -> Iterator[KazooClient]:
    zk = KazooClient(hosts=cluster.address.quorum)
    zk.start(timeout=WAIT_SECONDS)
    yield zk
    zk.stop()
    zk.close()


@pytest.fixture
def peer(cluster: DistributedCluster, zk: KazooClient, unique: Callable[[str], str]) -> Iterator[str]:
    """A managed peer that every RegionServer has taken up; its peer cluster is not there."""
    peer_id = unique("peer")
    add_managed_peer(cluster.address, peer_id, f"{cluster.address.quorum}:/nowhere")
    servers = [server.server_name for server in cluster.regionservers]
    assert eventually(lambda: all(zk.exists(f"{QUEUES}/{server}/{peer_id}") for server in servers))
    yield peer_id
    remove_peer(cluster.address, peer_id)
    assert eventually(lambda: not any(peer_id in queue for queue in all_queues(zk)))


def all_queues(zk: KazooClient) -> dict[str, dict[str, bytes]]:
    """Return `server/queue` → WAL → its znode's value."""
    while True:
        try:
            return {f"{server}/{queue}": wals(zk, f"{QUEUES}/{server}/{queue}") for server, queue in queue_names(zk)}
        except NoNodeError:
            continue  # moved while we were looking


def queue_names(zk: KazooClient) -> list[tuple[str, str]]:
    return [
        (server, name) for server in zk.get_children(QUEUES) for name in zk.get_children(f"{QUEUES}/{server}") if name != "lock"
    ]


def wals(zk: KazooClient, queue: str) -> dict[str, bytes]:
    return {wal: zk.get(f"{queue}/{wal}")[0] for wal in zk.get_children(queue)}


def test_the_java_client_of_hbase_2_works_with_it(cluster, client, unique):
    name, other = unique("t"), unique("t")
    for table in (name, other):
        client.create_table(table, {"g": GLOBAL}, even_splits(6))
        client.write(table, [wire.put(f"{i:x}", {"g:a": b"v"}, timestamp=1) for i in range(16)])

    assert client.region_servers() == sorted(server.server_name for server in cluster.regionservers)
    assert client.count_rows(name) == 16
    assert {cell.value for cell in client.scan_all(name)} == {b"v"}
    assert client.compare(name, client, other_table=other).same
    assert {region.server for region in client.regions(name)} == set(client.region_servers())


def test_a_managed_peer_queues_wals_and_ships_nothing(client, zk, peer, unique):
    name = unique("t")
    client.create_table(name, {"g": GLOBAL}, even_splits(3))
    client.put_many(name, 300, ["g:a"])
    client.roll_wals()

    mine = {queue: queued for queue, queued in all_queues(zk).items() if queue.endswith(f"/{peer}")}
    assert {queue.partition("/")[0] for queue in mine} == set(client.region_servers())
    assert all(len(queued) >= 2 for queued in mine.values())
    assert {value for queued in mine.values() for value in queued.values()} == {b""}
    closed = [(queue.partition("/")[0], wal) for queue, queued in mine.items() for wal in sorted(queued)[:-1]]
    entries = [entry for server, wal in closed for entry in read_wal(client, server, wal)]
    assert sum(len(entry.cells) for entry in entries if entry.table == name and entry.scopes) == 300


def read_wal(client: JavaClient, server: str, wal: str) -> list[wire.WalEntry]:
    try:
        return client.read_wal(f"{client.address.wal_root}/WALs/{server}/{wal}")
    except JavaClientError:
        return client.read_wal(f"{client.address.wal_root}/oldWALs/{wal}")


def test_the_queues_of_a_killed_server_are_claimed_under_its_lock(cluster, client, zk, peer):
    client.roll_wals()
    dead = cluster.regionservers[0].server_name
    before = all_queues(zk)[f"{dead}/{peer}"]
    lock = f"{QUEUES}/{dead}/lock"
    zk.create(lock, b"")

    cluster.kill_regionserver(0)
    survivors = cluster.regionservers
    assert eventually(lambda: all(tried_to_lock(server, dead) for server in survivors))
    assert all_queues(zk)[f"{dead}/{peer}"] == before  # we hold the lock, so the servers wait
    zk.delete(lock)

    assert eventually(lambda: not zk.exists(f"{QUEUES}/{dead}"))
    after = all_queues(zk)
    (claimed,) = [queue for queue in after if queue.endswith(f"/{peer}-{dead}")]
    assert claimed.partition("/")[0] in [server.server_name for server in survivors]
    assert after[claimed] == before
    cluster.start_regionserver()
    assert all(server.process.alive for server in cluster.regionservers)


def tried_to_lock(server: RegionServer, dead: str) -> bool:
    refusal = "Won't transfer the queue, another RS took care of it because of: KeeperErrorCode = NodeExists for"
    return f"{refusal} {QUEUES}/{dead}/lock" in server.process.log_text()
