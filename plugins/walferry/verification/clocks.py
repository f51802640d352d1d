"""Measures how far the clocks of RegionServers are from this machine's, without writing anything.

Cells get their timestamps from the RegionServers' clocks. So if the clocks of two clusters differ, time ranges and "the newest
version" mean different things on them. No call returns a server's time. But each RegionServer reports to its master every three
seconds, and the master says when, by the RegionServer's own clock, the last report was made. So the master is asked again and
again. A new report was made between the last answer without it and the first one with it, by our clock: that bounds the skew.

That is exact to some tenths of a second, but on a large cluster each answer has megabytes. So batches `glance` at the web pages
of a few servers, whose answers have the servers' time in whole seconds. Over many batches all servers have their turn.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from kazoo.client import KazooClient

from walferry.base.hosts import side_by_side
from walferry.base.security.login import Login
from walferry.base.zk.client import connected
from walferry.hbase.cluster import master as active_master
from walferry.hbase.layout import ZNodes
from walferry.hbase.names import ServerName
from walferry.hbase.rpc import master
from walferry.hbase.web_pages import NO_PAGE, PAGE_SECONDS, sample_of_ports, time_of
from walferry.replication.peers.reading import Peer, peer_cluster_of
from walferry.replication.source.session import Session

MEASURE_SECONDS = 8.0  # two reports and some
_POLL_SECONDS = 0.05
_PAUSE_PER_ANSWER = 1.0  # the Master of a large cluster is at work on us half of the time at most
GLANCED_AT = 3  # servers of each side
_CONNECT_SECONDS = 5.0

log = logging.getLogger(__name__)

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
    took = clock() - began
    found: dict[str, Skew] = {}
    while clock() - began < MEASURE_SECONDS and (not before or before.keys() - found.keys()):
        sleep(max(_POLL_SECONDS, _PAUSE_PER_ANSWER * took))
        asking = clock()
        now, answered = ask(), clock()
        took = answered - asking
        for server, report in now.items():
            if server not in before or report == before[server]:
                continue
            earliest, latest = report - answered * 1000, report - asked * 1000
            found[server] = Skew(server, round((earliest + latest) / 2), round((latest - earliest) / 2) + 1)
        before, asked = now, asking
    return sorted(found.values(), key=lambda skew: skew.server)


def surely_apart_ms(session: Session, peer: Peer) -> int:
    """Return by how many ms, at least, the clocks of the peer cluster are ahead of the source's, as far as a glance shows.

    It is 0 if they may be equal, if no server's web page answers, or if there is no peer cluster. Raises WalferryError.
    """
    if not peer.in_hbase:
        return 0
    key, login = peer.peer_cluster, session.source.login_to(peer)
    ours = glance(session.zk, session.nodes)
    if not ours:
        return 0
    whose = peer_cluster_of(peer.id, key)
    with connected(key.connect_string, _CONNECT_SECONDS, whose, login, call_timeout=_CONNECT_SECONDS) as zk:
        theirs = glance(zk, ZNodes(key.znode_parent))
    return max((_surely(their, our) for their in theirs for our in ours), key=abs, default=0)


def glance(zk: KazooClient, nodes: ZNodes) -> list[Skew]:
    """Measure some of a cluster's RegionServers by their web pages. Raises WalferryError."""
    ports = sample_of_ports(zk, nodes, GLANCED_AT)
    answers = side_by_side(lambda server: _glance_at(server, ports[server]), list(ports), PAGE_SECONDS + 1, lambda skew: False)
    return sorted((skew for skew in answers.values() if skew is not None), key=lambda skew: skew.server)


def _glance_at(server: ServerName, port: int) -> Skew | None:
    asked = time.time()
    try:
        told = time_of(server.host, port)
    except NO_PAGE as error:
        log.info("the clock of %s is not known: %s", server, error or type(error).__name__)
        return None
    earliest, latest = told - time.time(), told + 1 - asked
    return Skew(str(server), round(500 * (earliest + latest)), round(500 * (latest - earliest)) + 1)


def _surely(theirs: Skew, ours: Skew) -> int:
    """Return the part of the difference that no inaccuracy explains."""
    apart, unsure = theirs.ahead_ms - ours.ahead_ms, theirs.within_ms + ours.within_ms
    return max(0, abs(apart) - unsure) * (1 if apart > 0 else -1)
