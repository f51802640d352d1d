"""Measures how far the clocks of RegionServers are from this machine's, without writing anything.

Cells get their timestamps from the RegionServers' clocks. So if the clocks of two clusters differ, time ranges and "the newest
version" mean different things on them. No call returns a server's time. But each RegionServer reports to its master every three
seconds, and the master says when, by the RegionServer's own clock, the last report was made. So the master is asked again and
again. A new report was made between the last answer without it and the first one with it, by our clock: that bounds the skew.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from kazoo.client import KazooClient

from walferry.base.security.login import Login
from walferry.hbase.cluster import master as active_master
from walferry.hbase.layout import ZNodes
from walferry.hbase.rpc import master

MEASURE_SECONDS = 8.0  # two reports and some
_POLL_SECONDS = 0.05

Ask = Callable[[], dict[str, int]]


@dataclass(frozen=True)
class Skew:
    """A server's clock is `ahead_ms` ahead of this machine's clock, give or take `within_ms`."""

    server: str
    ahead_ms: int
    within_ms: int


def skews(zk: KazooClient, nodes: ZNodes, login: Login) -> list[Skew]:
    """Measure a cluster's RegionServers. Leaves out servers that have not reported in time. Raises ClusterError, RpcError."""
    with master.connect(active_master(zk, nodes), login=login) as connection:
        return measure(lambda: master.server_reports(connection))


def measure(ask: Ask, clock: Callable[[], float] = time.time, sleep: Callable[[float], None] = time.sleep) -> list[Skew]:
    """Ask until each server has made a new report, or the time is over. For each server, the closest bounds count."""
    began = clock()
    before, asked = ask(), began
    found: dict[str, Skew] = {}
    while clock() - began < MEASURE_SECONDS and (not before or before.keys() - found.keys()):
        sleep(_POLL_SECONDS)
        asking = clock()
        now, answered = ask(), clock()
        for server, report in now.items():
            if server not in before or report == before[server]:
                continue
            earliest, latest = report - answered * 1000, report - asked * 1000
            found[server] = Skew(server, round((earliest + latest) / 2), round((latest - earliest) / 2) + 1)
        before, asked = now, asking
    return sorted(found.values(), key=lambda skew: skew.server)
