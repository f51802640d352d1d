"""Calls to one server are made side by side: how many, of what, and what becomes of the others when one fails."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest

from tests.unit.hbase.rpc.fake_server import Request, silence
from tests.unit.hbase.wal.encoder import Cell
from tests.unit.replication.filters.test_entry_filter import entry
from tests.unit.replication.sinks.hbase.edits import shipment_of
from tests.unit.replication.sinks.hbase.scripted_peer_cluster import OpenRegion, ScriptedPeerCluster
from tests.unit.replication.sinks.hbase.test_direct import halves, latest_of, once, rows, share_of, ship, shipper
from tests.unit.replication.sinks.hbase.test_replicate import Time
from walferry.replication.sinks.errors import Stopped
from walferry.replication.sinks.hbase import direct as module
from walferry.replication.sinks.hbase.tries import SETTLE_SECONDS

MANY = [b"%03d" % i for i in range(100)]


def single() -> list[OpenRegion]:
    """Table t in one region."""
    return [OpenRegion(b"t", b"", b"", 0)]


def test_a_sender_makes_the_calls_to_one_server_side_by_side_and_never_more_than_its_share(monkeypatch):
    monkeypatch.setattr(module, "MAX_ACTIONS", 10)
    lock, under_way, most, first, together = threading.Lock(), [], [], iter(range(3)), threading.Barrier(3)

    def before(server: int, multi: Any) -> None:
        with lock:
            under_way.append(multi)
            most.append(len(under_way))
            is_first = next(first, None) is not None
        if is_first:
            together.wait(30)
        threading.Event().wait(0.01)
        with lock:
            under_way.remove(multi)

    with ScriptedPeerCluster(servers=1, regions=single(), before=before) as peer_cluster:
        direct = shipper(peer_cluster, Time(), share=share_of(3))
        direct.ship(shipment_of([rows(*MANY)]), 2000)
        direct.ship(shipment_of([rows(*MANY)]), 2000)
        direct.close()
        assert peer_cluster.hosts[0].connections == 3
        assert {row: len(cells) for (_, row), cells in peer_cluster.cells.items()} == dict.fromkeys(MANY, 2)
    assert max(most) == 3
    assert direct.failed_batches == 0


def test_no_other_call_is_begun_to_a_server_that_has_answered_with_an_error(monkeypatch):
    monkeypatch.setattr(module, "MAX_ACTIONS", 10)
    time = Time()
    with ScriptedPeerCluster(servers=2, regions=single()) as peer_cluster:

        def move() -> None:
            peer_cluster.regions[0].server = 1
            peer_cluster.tell()

        peer_cluster.before = once(move)
        ship(peer_cluster, time, rows(*MANY), share=share_of(2))
        assert {row: len(cells) for (_, row), cells in peer_cluster.cells.items()} == dict.fromkeys(MANY, 1)
    assert len([server for server, _ in peer_cluster.multis if server == 0]) <= 3
    assert time.sleeps == []


def test_what_other_calls_of_a_round_have_done_is_not_sent_again_when_one_is_lost(monkeypatch):
    monkeypatch.setattr(module, "MAX_ACTIONS", 10)
    lost = [1]

    def reply(server: int, request: Request) -> bytes | None:
        return b"" if lost and lost.pop() else None

    time = Time()
    with ScriptedPeerCluster(servers=1, regions=single(), reply=reply) as peer_cluster:
        ship(peer_cluster, time, rows(*MANY), share=share_of(4), call_timeout_seconds=0.5)
        assert {row: len(cells) for (_, row), cells in peer_cluster.cells.items()} == dict.fromkeys(MANY, 1)
    assert time.sleeps == [1.0, 0.5]


def test_a_sender_that_is_told_to_stop_waits_for_its_calls_and_begins_no_others(monkeypatch):
    monkeypatch.setattr(module, "MAX_ACTIONS", 10)
    stop = threading.Event()
    begun = threading.Barrier(3, stop.set)

    def before(server: int, _: Any) -> None:
        begun.wait(30)

    with ScriptedPeerCluster(servers=1, regions=single(), before=before) as peer_cluster:
        with pytest.raises(Stopped):
            ship(peer_cluster, Time(), rows(*MANY), stop=stop, share=share_of(3))
        assert len(peer_cluster.multis) == 3


def test_the_calls_under_way_to_a_silent_server_are_all_ended(monkeypatch):
    monkeypatch.setattr(module, "MAX_ACTIONS", 10)
    time, silent = Time(), threading.Semaphore(3)

    def reply(server: int, request: Request) -> bytes | None:
        return silence(request) if silent.acquire(blocking=False) else None

    with ScriptedPeerCluster(servers=1, regions=single(), reply=reply) as peer_cluster, ThreadPoolExecutor() as pool:
        direct = shipper(peer_cluster, time, share=share_of(3))
        shipping = pool.submit(direct.ship, shipment_of([rows(*MANY)]), 2000)
        while silent._value:
            threading.Event().wait(0.01)
        assert direct.calls == {peer_cluster.name(0)}
        direct.interrupt("it answers nothing else", peer_cluster.name(0))
        shipping.result(30)
        direct.close()
        assert {row: len(cells) for (_, row), cells in peer_cluster.cells.items()} == dict.fromkeys(MANY, 1)
    assert time.sleeps == [1.0, SETTLE_SECONDS]


def test_a_request_is_no_larger_than_the_peer_s_setting_says():
    edits = [rows(*MANY, value=b"x" * 1000)]
    with ScriptedPeerCluster(servers=1, regions=single()) as peer_cluster:
        ship(peer_cluster, Time(), *edits, shipment_bytes=20_000)
        assert peer_cluster.latest() == latest_of(edits)
    assert max(len(request.cells) for request in peer_cluster.requests) <= 20_000
    assert len(peer_cluster.requests) < 10


@pytest.mark.parametrize("seed", range(8))
def test_edits_that_are_shipped_again_after_an_end_in_the_midst_leave_what_their_order_says(seed, monkeypatch):
    """Some rows have been sent further than others then."""
    chance = random.Random(seed)
    monkeypatch.setattr(module, "MAX_ACTIONS", 5)
    edits = [entry(Cell(chance.choice(MANY[:40]), b"f", b"q", 1, chance.choice([4, 8]), b"%d" % i)) for i in range(400)]
    shipments = [shipment_of(edits[first : first + 100]) for first in range(0, 400, 100)]

    def run(peer_cluster: ScriptedPeerCluster, most_calls: int) -> None:
        stop, calls = threading.Event(), iter(range(most_calls))
        peer_cluster.before = lambda server, request: stop.set() if next(calls, None) is None else None
        direct = shipper(peer_cluster, Time(), stop=stop, share=share_of(4))
        with suppress(Stopped):
            for shipment in shipments:
                direct.ship(shipment, 2000)
        direct.close()

    with ScriptedPeerCluster(servers=2, regions=halves()) as peer_cluster:
        for _ in range(3):
            run(peer_cluster, chance.randrange(5, 60))
        run(peer_cluster, 10_000)
        assert peer_cluster.latest() == latest_of(edits)
