"""Finds out whether the peers' slaves can be reached. It asks them in parallel, and waits no longer than the caller says.

A thread of its own asks each slave, with a deadline, and the answer is kept for some seconds. A slave is not asked again while a
look at it has not ended, so a silent slave takes one thread, however many viewers there are. Peers with the same cluster key have
one slave.
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

ASK_SECONDS = 4.0  # a slave has this time to answer
KEEP_SECONDS = 20.0
STALE_SECONDS = 60.0  # an older answer is not shown while the next one is awaited
MOST_AT_ONCE = 32  # slaves that are being asked

Ask = Callable[[Peer, SourceCluster, float], str | None]


@dataclass(frozen=True, slots=True)
class SlaveStatus:
    """Whether a slave can be shipped to; None if that is not known. `why` says why not, or why it is not known."""

    reachable: bool | None
    why: str | None
    asked_ms: int | None = None  # when this was found out


_Slave = tuple[str, str | None, Login]  # its cluster key, its connection, and the source's login, which it may inherit

NOT_ASKED = SlaveStatus(None, "it was not asked")


class Slaves:
    """The known statuses of all sources' slaves. Its methods may be called from any thread."""

    def __init__(self, ask: Ask = why_down) -> None:
        self._ask = ask
        self._lock = threading.Condition()
        self._asking: set[_Slave] = set()
        self._known: dict[_Slave, tuple[float, SlaveStatus]] = {}

    def statuses(self, peers: Iterable[Peer], source: SourceCluster, wait_seconds: float) -> dict[str, SlaveStatus]:
        """Return the slaves' statuses by peer. A slave that has not answered after `wait_seconds` keeps its last known status.

        Only slaves of managed peers are asked: a peer that is not managed never causes a connection to the cluster that it names.
        """
        asked = {peer.id: peer for peer in peers}
        found = {peer_id: why for peer_id, peer in asked.items() if (why := _not_to_ask(peer))}
        rest = {peer_id: _slave_of(peer, source) for peer_id, peer in asked.items() if peer_id not in found}
        give_up = time.monotonic() + wait_seconds
        with self._lock:
            self._forget()
            for peer_id, slave in rest.items():
                self._begin(slave, asked[peer_id], source)
            while set(rest.values()) & self._asking and (left := give_up - time.monotonic()) > 0:
                self._lock.wait(left)
            return found | {peer_id: self._status(slave) for peer_id, slave in rest.items()}

    def _begin(self, slave: _Slave, peer: Peer, source: SourceCluster) -> None:
        known = self._known.get(slave)
        fresh = known is not None and time.monotonic() - known[0] < KEEP_SECONDS
        if fresh or slave in self._asking or len(self._asking) >= MOST_AT_ONCE:
            return
        self._asking.add(slave)
        threading.Thread(target=self._look, args=(slave, peer, source), name="a look at a slave", daemon=True).start()

    def _look(self, slave: _Slave, peer: Peer, source: SourceCluster) -> None:
        try:
            why = self._ask(peer, source, ASK_SECONDS)
            status = SlaveStatus(why is None, why, int(time.time() * 1000))
        except Exception as error:  # whatever the error is, this slave must not stay marked as being asked
            status = SlaveStatus(None, f"it could not be asked: {error!r}"[:1000], int(time.time() * 1000))
        with self._lock:
            self._known[slave] = time.monotonic(), status
            self._asking.discard(slave)
            self._lock.notify_all()

    def _status(self, slave: _Slave) -> SlaveStatus:
        known = self._known.get(slave)
        if known is not None and time.monotonic() - known[0] < STALE_SECONDS:
            return known[1]
        return SlaveStatus(None, "it is being asked" if slave in self._asking else "too many slaves are being asked")

    def _forget(self) -> None:
        """Forget slaves that no caller has asked about for long."""
        old = time.monotonic() - 100 * KEEP_SECONDS
        for slave in [slave for slave, (at, _) in self._known.items() if at < old]:
            del self._known[slave]


def _slave_of(peer: Peer, source: SourceCluster) -> _Slave:
    return peer.cluster_key, source.conn_id_of(peer.cluster_key, peer.slave_conn_id), source.login


def _not_to_ask(peer: Peer) -> SlaveStatus | None:
    """Return why the peer's slave is not asked; None if it is asked."""
    if peer.endpoint_impl not in INTER_CLUSTER_ENDPOINTS:
        return SlaveStatus(None, f"its endpoint {peer.endpoint_impl[:200]} is not HBase's own")
    if not peer.managed:
        who = "HBase" if peer.state == ENABLED else "nobody"
        return SlaveStatus(None, f"it was not asked: {who} ships this peer")
    return None
