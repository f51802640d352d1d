"""A test can start, stop and kill RegionServers of the distributed clusters."""

from __future__ import annotations

import signal
import time

import pytest

from embedded import wire
from embedded.client import GLOBAL, even_splits


@pytest.fixture
def source(distributed_pair, java_client):
    return java_client(distributed_pair.source.address)


def test_the_cluster_runs_on_hdfs_with_two_regionservers(distributed_pair, source):
    cluster = distributed_pair.source

    assert cluster.address.wal_root.startswith("hdfs://localhost:")
    assert source.region_servers() == sorted(server.server_name for server in cluster.regionservers)
    assert len(cluster.regionservers) == 2


def test_what_a_killed_regionserver_had_acknowledged_is_still_there(distributed_pair, source, unique):
    cluster, name = distributed_pair.source, unique("t")
    source.create_table(name, {"g": GLOBAL}, even_splits(4))
    source.put_many(name, 1000, ["g:a"])

    killed = cluster.kill_regionserver(0)
    added = cluster.start_regionserver()

    assert not killed.process.alive
    assert source.count_rows(name) == 1000
    source.put_many(name, 1000, ["g:a"], first=1000)
    assert source.count_rows(name) == 2000
    assert added.server_name in source.region_servers()
    assert killed.server_name not in source.region_servers()


@pytest.mark.soak
def test_its_servers_outlive_a_machine_that_stands_still(distributed_pair, source):
    cluster = distributed_pair.source
    before = source.region_servers()
    processes = [cluster.zookeeper, cluster.master, *(server.process for server in cluster.regionservers)]

    for process in processes:
        process.popen.send_signal(signal.SIGSTOP)
    time.sleep(60)
    for process in processes:
        process.popen.send_signal(signal.SIGCONT)
    time.sleep(10)

    assert source.region_servers() == before
    assert all(process.alive for process in processes)


def test_a_region_moves_to_the_server_named(distributed_pair, source, unique):
    name = unique("t")
    source.create_table(name, {"g": GLOBAL})
    source.write(name, [wire.put("r", {"g:a": b"v"})])
    (region,) = source.regions(name)
    (elsewhere,) = [server for server in source.region_servers() if server != region.server]

    source.move_region(region.encoded_name, elsewhere)

    assert [r.server for r in source.regions(name)] == [elsewhere]
    assert source.count_rows(name) == 1


def test_a_cluster_whose_regionservers_all_died_comes_back_with_its_data(distributed_pair, java_client, unique):
    cluster, name = distributed_pair.peer_cluster, unique("t")
    peer_cluster = java_client(cluster.address)
    peer_cluster.create_table(name, {"g": GLOBAL})
    peer_cluster.write(name, [wire.put("r", {"g:a": b"v"})])

    cluster.kill_all_regionservers()
    assert cluster.regionservers == []
    cluster.start_all_regionservers()

    assert len(cluster.regionservers) == 2
    assert peer_cluster.count_rows(name) == 1
