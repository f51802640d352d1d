"""One of a peer cluster's RegionServers is killed or goes silent in mid-shipment: the others take everything, in order."""

from __future__ import annotations

import contextlib
import secrets
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from embedded.client import GLOBAL, even_splits
from embedded.wire import Mutation, delete_row, put
from tests.cluster.conftest import ManyServers
from tests.cluster.proxy import TcpProxy
from tests.cluster.walferry_runs import BOTH_SINKS, BY_REPLICATE, WalTruth, await_progress, positions, roll, ship
from walferry.base.zk.client import connected
from walferry.engine.summary import GroupSummary, Status
from walferry.hbase.cluster import live_servers
from walferry.hbase.layout import ZNodes
from walferry.hbase.names import ServerName
from walferry.replication.peers.settings import PeerSettings

ROWS = 10_000  # of 1 kB
SENDERS = 4
CALL_TIMEOUT_SECONDS = 6.0
SMALL = PeerSettings(shipment_bytes=64 << 10, buffer_bytes=1 << 20, ratio=1.0, call_timeout_seconds=CALL_TIMEOUT_SECONDS)


@pytest.fixture
def sides(many_servers: ManyServers) -> ManyServers:
    return many_servers


@pytest.fixture
def table(sides: ManyServers, unique: Callable[[str], str]) -> str:
    name = unique("t")
    for client in (sides.source, sides.peer_cluster):
        client.create_table(name, {"f": GLOBAL}, splits=even_splits(12))
    return name


def in_order() -> list[Mutation]:
    """Return edits of equal timestamps: only their order decides which of them remain."""
    edits: list[Mutation] = []
    for number in range(40):
        edits += [put(f"{row:02x}-order", {"f:q": b"%d" % number}, timestamp=5) for row in range(0, 256, 8)]
        if number % 10 == 5:
            edits += [delete_row(f"{row:02x}-order", timestamp=4) for row in range(0, 256, 16)]
    return edits


class Backlog:
    """The queued edits of one WAL group: rows, and around them edits whose order matters."""

    def __init__(self, sides: ManyServers, table: str, peer: str) -> None:
        for part in range(4):
            sides.source.write(table, in_order())
            sides.source.put_many(table, ROWS // 4, ["f:a"], value_bytes=1000, batch=20, first=part * ROWS // 4)
        roll(sides.at, peer)
        self.truth = WalTruth(sides.at, peer, sides.source, sides.peer_cluster)
        self.truth.changing.add(table)
        assert self.truth.read_closed()


def check(summaries: list[GroupSummary], sides: ManyServers, table: str) -> None:
    assert {s.status for s in summaries} == {Status.DONE}, [s.error for s in summaries]
    compared = sides.source.compare(table, sides.peer_cluster)
    assert compared.same, compared.examples
    assert compared.left > ROWS


@contextlib.contextmanager
def shipped(sides: ManyServers, peer: str) -> Iterator[list[GroupSummary]]:
    """Ship in another thread while the block runs; the summaries are there after it."""
    summaries: list[GroupSummary] = []

    def run() -> None:
        summaries.extend(ship(sides.at, peer, roll_first=False, settings=SMALL, senders=SENDERS, deadline=400))

    thread = threading.Thread(target=run, daemon=True)
    before = positions(sides.at, peer)
    thread.start()
    await_progress(sides.at, peer, before)
    yield summaries
    thread.join(420)
    assert summaries


@BOTH_SINKS
def test_all_arrives_in_order_although_a_server_is_killed(sides, table, managed_peer, distributed_pair):
    peer = managed_peer(distributed_pair.source.address, distributed_pair.peer_cluster.address)
    backlog = Backlog(sides, table, peer)
    with shipped(sides, peer) as summaries:
        assert not summaries
        sides.peer_hbase.kill_regionserver(0)
    check(summaries, sides, table)
    assert sum(s.failedBatches for s in summaries) > 0
    backlog.truth.check()
    assert not backlog.truth.unfinished


@pytest.fixture
def half_silent(sides: ManyServers, unique: Callable[[str], str]) -> Iterator[tuple[str, TcpProxy]]:
    """A peer of the same peer cluster, one of whose servers is reached through a proxy; and that proxy."""
    nodes, proxied = ZNodes(), ZNodes(f"/proxied{secrets.token_hex(4)}")
    quorum = sides.peer_hbase.address.quorum
    peer = unique("peer")
    with connected(quorum) as zk:
        first, *others = sorted(live_servers(zk, nodes))
        with TcpProxy((first.host, first.port)) as proxy:
            zk.create(proxied.hbaseid, zk.get(nodes.hbaseid)[0], makepath=True)
            for server in (ServerName("localhost", proxy.port, first.start_code), *others):
                zk.create(f"{proxied.rs}/{server}", makepath=True)
            sides.source.roll_wals()
            sides.source.add_managed_peer(peer, f"{quorum}:{proxied.base}")
            yield peer, proxy
            sides.source.remove_peer(peer)
            zk.delete(proxied.base, recursive=True)


@BY_REPLICATE  # a region's server cannot be avoided
def test_a_server_that_accepts_and_never_answers_costs_one_call_and_is_avoided_then(sides, table, half_silent):
    """The server stays registered in the peer cluster's ZooKeeper all the time."""
    peer, proxy = half_silent
    backlog = Backlog(sides, table, peer)
    with shipped(sides, peer) as summaries:
        assert not summaries
        proxy.requests.lock()
        proxy.answers.lock()
        silenced = time.monotonic()
    took = time.monotonic() - silenced
    print(f"ended {took:.1f} s after the server went silent; {sum(s.failedBatches for s in summaries)} requests sent again")
    check(summaries, sides, table)
    assert 0 < sum(s.failedBatches for s in summaries) <= SENDERS * len(summaries)  # a sender asks it once at most
    assert took < CALL_TIMEOUT_SECONDS + 20
    backlog.truth.check()
    assert not backlog.truth.unfinished
