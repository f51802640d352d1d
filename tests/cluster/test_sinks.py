"""Shippers against a real peer cluster that is up, goes away, and comes back."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from embedded.client import GLOBAL
from embedded.standalone import StandaloneCluster
from embedded.wire import CellType
from tests.cluster.wal_entries import encoded, entry
from walferry.base.protos.hbase_pb2 import ReplicateWALEntryRequest
from walferry.base.zk.client import connect, disconnect
from walferry.hbase.cluster import live_servers
from walferry.hbase.layout import ZNodes
from walferry.hbase.names import ServerName
from walferry.hbase.rpc.errors import TableNotFound
from walferry.replication.sinks.errors import PeerClusterUnreachable
from walferry.replication.sinks.hbase.manager import SinkManager
from walferry.replication.sinks.hbase.replicate import Shipper
from walferry.replication.sinks.tries import SendTerms

ROWS_A_SHIPMENT = 50


@dataclass(frozen=True)
class Shipment:
    entries: tuple[bytes, ...]
    cells: tuple[bytes, ...]


def shipment(table: str, number: int) -> Shipment:
    cells = tuple(encoded(f"{number:03}-{i:03}".encode(), b"f", b"q", 1, CellType.PUT, b"v") for i in range(ROWS_A_SHIPMENT))
    return Shipment((ReplicateWALEntryRequest(entry=[entry(table, len(cells))]).SerializeToString(),), cells)


@pytest.fixture(scope="module")
def peer_cluster(standalone_pair) -> StandaloneCluster:
    return standalone_pair.peer_cluster


@pytest.fixture
def shippers(peer_cluster) -> Iterator[list[Shipper]]:
    """Two senders to the peer cluster, which share its subset of sinks."""
    zk = connect(peer_cluster.address.quorum)
    random.seed(7)
    sinks = SinkManager(lambda: live_servers(zk, ZNodes()), 0.5)
    senders = [Shipper(sinks, SendTerms(peer_cluster.address.cluster_key, threading.Event())) for _ in range(2)]
    yield senders
    for sender in senders:
        sender.close()
    disconnect(zk)


@pytest.fixture
def table(peer_cluster, java_client, unique) -> str:
    name = unique("t")
    java_client(peer_cluster.address).create_table(name, {"f": GLOBAL})
    return name


def test_shipments_of_several_senders_arrive_at_the_servers_that_zookeeper_names(shippers, table, peer_cluster, java_client):
    client = java_client(peer_cluster.address)
    live = {ServerName.parse(name) for name in client.region_servers()}
    taken = {sender.ship(shipment(table, n), time.monotonic() + 60) for n, sender in enumerate(shippers * 5)}
    assert taken <= live
    assert client.count_rows(table) == 10 * ROWS_A_SHIPMENT


def test_a_missing_table_ends_a_shipment_at_once(shippers):
    with pytest.raises(TableNotFound, match="table nowhere does not exist there"):
        shippers[0].ship(shipment("nowhere", 0), time.monotonic() + 60)
    assert shippers[0].failed_batches == 0


def test_a_peer_cluster_that_goes_away_is_waited_for_and_gets_the_shipment_when_it_is_back(
    shippers, table, peer_cluster, java_client
):
    sender, client = shippers[0], java_client(peer_cluster.address)
    sender.ship(shipment(table, 0), time.monotonic() + 60)
    peer_cluster.stop()
    try:
        with pytest.raises(PeerClusterUnreachable) as caught:
            sender.ship(shipment(table, 1), time.monotonic() + 10)
        assert caught.value.peer_cluster == peer_cluster.address.cluster_key
        assert caught.value.tries >= 2
    finally:
        starting = ThreadPoolExecutor(1).submit(peer_cluster.start)
    try:
        sender.ship(shipment(table, 1), time.monotonic() + 180)
    finally:
        starting.result()
    assert client.count_rows(table) == 2 * ROWS_A_SHIPMENT
