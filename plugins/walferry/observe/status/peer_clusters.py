"""Finds out whether the peers' clusters can be reached. It asks them in parallel, and waits no longer than the caller says.

A thread of its own asks each peer cluster, with a deadline, and the answer is kept for some seconds. A peer cluster is not asked
again while a look at it has not ended, so a silent peer cluster takes one thread, however many viewers there are. Peers with the
same cluster key have one peer cluster.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from walferry.base.security.login import Login
from walferry.replication.peers.reading import ENABLED, INTER_CLUSTER_ENDPOINTS, Peer
from walferry.replication.sinks.of_peer import why_down
from walferry.replication.source.cluster import SourceCluster

ASK_SECONDS = 4.0  # a peer cluster has this time to answer
KEEP_SECONDS = 20.0
STALE_SECONDS = 60.0  # an older answer is not shown while the next one is awaited
MOST_AT_ONCE = 32  # peer clusters that are being asked

Ask = Callable[[Peer, SourceCluster, float], str | None]


@dataclass(frozen=True, slots=True)
class PeerClusterStatus:
    """Whether a peer cluster can be shipped to; None if that is not known. `why` says why not, or why it is not known."""

    reachable: bool | None
    why: str | None
    asked_ms: int | None = None  # when this was found out


_PeerCluster = tuple[str, str | None, Login]  # its cluster key, its connection, and the source's login, which it may inherit

NOT_ASKED = PeerClusterStatus(None, "it was not asked")


class PeerClusters:
    """The known statuses of all sources' peer clusters. Its methods may be called from any thread."""

    def __init__(self, ask: Ask = why_down) -> None:
        self._ask = ask
        self._lock = threading.Condition()
        self._asking: set[_PeerCluster] = set()
        self._known: dict[_PeerCluster, tuple[float, PeerClusterStatus]] = {}

    def statuses(self, peers: Iterable[Peer], source: SourceCluster, wait_seconds: float) -> dict[str, PeerClusterStatus]:
        """Return the peer clusters' statuses by peer. A peer cluster that has not answered after `wait_seconds` keeps its last
        known status.

        Only clusters of managed peers are asked: a peer that is not managed never causes a connection to the cluster that it
        names.
        """
        asked = {peer.id: peer for peer in peers}
        found = {peer_id: why for peer_id, peer in asked.items() if (why := _not_to_ask(peer))}
        rest = {peer_id: _peer_cluster_of(peer, source) for peer_id, peer in asked.items() if peer_id not in found}
        give_up = time.monotonic() + wait_seconds
        with self._lock:
            self._forget()
            for peer_id, peer_cluster in rest.items():
                self._begin(peer_cluster, asked[peer_id], source)
            while set(rest.values()) & self._asking and (left := give_up - time.monotonic()) > 0:
                self._lock.wait(left)
            return found | {peer_id: self._status(peer_cluster) for peer_id, peer_cluster in rest.items()}

    def _begin(self, peer_cluster: _PeerCluster, peer: Peer, source: SourceCluster) -> None:
        known = self._known.get(peer_cluster)
        fresh = known is not None and time.monotonic() - known[0] < KEEP_SECONDS
        if fresh or peer_cluster in self._asking or len(self._asking) >= MOST_AT_ONCE:
            return
        self._asking.add(peer_cluster)
        threading.Thread(
            target=self._look, args=(peer_cluster, peer, source), name="a look at a peer cluster", daemon=True
        ).start()

    def _look(self, peer_cluster: _PeerCluster, peer: Peer, source: SourceCluster) -> None:
        try:
            why = self._ask(peer, source, ASK_SECONDS)
            status = PeerClusterStatus(why is None, why, int(time.time() * 1000))
        except Exception as error:  # whatever the error is, this peer cluster must not stay marked as being asked
            status = PeerClusterStatus(None, f"it could not be asked: {error!r}"[:1000], int(time.time() * 1000))
        with self._lock:
            self._known[peer_cluster] = time.monotonic(), status
            self._asking.discard(peer_cluster)
            self._lock.notify_all()

    def _status(self, peer_cluster: _PeerCluster) -> PeerClusterStatus:
        known = self._known.get(peer_cluster)
        if known is not None and time.monotonic() - known[0] < STALE_SECONDS:
            return known[1]
        return PeerClusterStatus(
            None, "it is being asked" if peer_cluster in self._asking else "too many peer clusters are being asked"
        )

    def _forget(self) -> None:
        """Forget peer clusters that no caller has asked about for long."""
        old = time.monotonic() - 100 * KEEP_SECONDS
        for peer_cluster in [peer_cluster for peer_cluster, (at, _) in self._known.items() if at < old]:
            del self._known[peer_cluster]


def _peer_cluster_of(peer: Peer, source: SourceCluster) -> _PeerCluster:
    return peer.target, source.conn_id_of(peer.cluster_key, peer.peer_conn_id), source.login


def _not_to_ask(peer: Peer) -> PeerClusterStatus | None:
    """Return why the peer cluster is not asked; None if it is asked."""
    if peer.endpoint_impl not in INTER_CLUSTER_ENDPOINTS:
        return PeerClusterStatus(None, f"its endpoint {peer.endpoint_impl[:200]} is not HBase's own")
    if peer.lake:
        return PeerClusterStatus(None, f"its edits go to {peer.target}, which was not asked")
    if not peer.managed:
        who = "HBase" if peer.state == ENABLED else "nobody"
        return PeerClusterStatus(None, f"it was not asked: {who} ships this peer")
    return None
