"""A sender connects to the servers of a round side by side, and no longer than it has time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import ClassVar

import pytest

from tests.unit.replication.sinks.hbase.scripted_peer_cluster import OpenRegion, ScriptedPeerCluster
from tests.unit.replication.sinks.hbase.test_direct import rows, ship
from tests.unit.replication.sinks.hbase.test_replicate import Time
from walferry.hbase.rpc.errors import RpcTimeout
from walferry.replication.sinks.errors import PeerClusterUnreachable
from walferry.replication.sinks.hbase import connections


class Unreachable:
    """A connection to a host that answers nothing. `given` are the seconds that each had for connecting."""

    given: ClassVar[list[float]] = []
    connect: ClassVar[Callable[[float], object]]
    is_open = False

    def __init__(self, host: str, *_: object, **__: object) -> None:
        self.server = host

    def open(self, seconds: float) -> None:
        seconds = min(connections.CONNECT_SECONDS, seconds)
        self.given.append(seconds)
        type(self).connect(seconds)
        raise RpcTimeout(self.server, "connecting", seconds)

    def interrupt(self) -> None: ...

    def close(self) -> None: ...


def regions_at_servers(servers: int) -> list[OpenRegion]:
    return [OpenRegion(b"t", b"%d" % i, b"%d" % (i + 1), i) for i in range(servers)]


def test_servers_that_cannot_be_reached_take_no_more_time_together_than_one(monkeypatch):
    time = Time()
    monkeypatch.setattr(connections, "Connection", Unreachable)
    monkeypatch.setattr(Unreachable, "given", [])

    def forward() -> None:
        time.now += Unreachable.given[-1]

    all_four = threading.Barrier(4, forward, timeout=30)
    monkeypatch.setattr(Unreachable, "connect", lambda seconds: all_four.wait(), raising=False)
    late = pytest.raises(PeerClusterUnreachable, match="until the deadline, in 2 tries")
    with ScriptedPeerCluster(servers=4, regions=regions_at_servers(4)) as peer_cluster, late:
        ship(peer_cluster, time, rows(b"0", b"1", b"2", b"3"), deadline=1015, patience_seconds=1e6)
    assert Unreachable.given == [10.0] * 4 + [4.0] * 4
    assert time.now == 1015


def test_of_more_servers_than_are_asked_at_once_those_whose_time_is_over_are_not_asked(monkeypatch):
    time = Time()
    monkeypatch.setattr(connections, "AT_ONCE", 1)
    monkeypatch.setattr(connections, "Connection", Unreachable)
    monkeypatch.setattr(Unreachable, "given", [])

    def forward(seconds: float) -> None:
        time.now += seconds

    monkeypatch.setattr(Unreachable, "connect", forward, raising=False)
    late = pytest.raises(PeerClusterUnreachable, match="until the deadline, in 1 try")
    with ScriptedPeerCluster(servers=4, regions=regions_at_servers(4)) as peer_cluster, late:
        ship(peer_cluster, time, rows(b"0", b"1", b"2", b"3"), deadline=1015, patience_seconds=1e6)
    assert Unreachable.given == [10.0, 5.0]
    assert time.now == 1015
