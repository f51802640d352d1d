"""Checks quickly whether a peer cluster can be shipped to, before a job is started for it."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait

from walferry.base.errors import WalferryError
from walferry.base.security.login import Login
from walferry.base.texts import one_line
from walferry.base.zk.client import connected
from walferry.hbase.cluster import cluster_id, live_servers
from walferry.hbase.layout import ZNodes
from walferry.hbase.names import ServerName
from walferry.hbase.rpc.admin import why_silent
from walferry.hbase.rpc.errors import AccessDenied, NotAuthenticated, RpcError
from walferry.replication.peers.reading import Peer, peer_cluster_of

ASKED_SERVERS = 16  # one answer is enough, but a rack may have failed whose servers are still in ZooKeeper
MAX_REASON_CHARS = 1000
LEAST_SECONDS = 0.5


def why_down(peer: Peer, *, login: Login, timeout_seconds: float) -> str | None:
    """Return why the peer cluster cannot be shipped to, in one line; None if its ZooKeeper and one of some servers answer."""
    give_up = time.monotonic() + timeout_seconds
    try:
        servers = _servers(peer, login, 0.6 * timeout_seconds)
    except WalferryError as error:
        return one_line(str(error), MAX_REASON_CHARS)
    except Exception as error:  # kazoo's errors are of many kinds: NoAuthError, or struct.error for an answer that makes no sense
        return one_line(f"ZooKeeper of peer cluster {peer.peer_cluster} cannot be read: {error!r}", MAX_REASON_CHARS)
    if not servers:
        return f"peer cluster {peer.peer_cluster} has no live RegionServer"
    asked = random.sample(servers, min(ASKED_SERVERS, len(servers)))
    errors = _ask(asked, login, max(LEAST_SECONDS, give_up - time.monotonic()))
    if errors is None:
        return None
    for why in errors:
        if isinstance(why, NotAuthenticated | AccessDenied):  # the peer cluster is there, and rejects our login or access
            return one_line(f"peer cluster {peer.peer_cluster} does not let us in: {why}", MAX_REASON_CHARS)
    names = ", ".join(f"{server.host}:{server.port}" for server in asked)
    of_all = f"{len(asked)} of its {len(servers)} RegionServers" if len(asked) < len(servers) else "its RegionServers"
    return one_line(f"peer cluster {peer.peer_cluster}: of {of_all} none answers ({names})", MAX_REASON_CHARS)


def _servers(peer: Peer, login: Login, timeout_seconds: float) -> Sequence[ServerName]:
    """Return the peer cluster's live RegionServers, as listed in its ZooKeeper. Raises WalferryError."""
    key = peer.peer_cluster
    nodes = ZNodes(key.znode_parent)
    whose = peer_cluster_of(peer.id, key)
    with connected(key.connect_string, timeout_seconds, whose, login, call_timeout=timeout_seconds / 2) as zk:
        cluster_id(zk, nodes)
        return sorted(live_servers(zk, nodes))


def _ask(servers: Sequence[ServerName], login: Login, timeout_seconds: float) -> list[RpcError] | None:
    """Return the errors of these servers if none of them answers in time; None if one answers.

    A call that hangs, e.g. at a name look-up, is abandoned.
    """
    errors: list[RpcError] = []
    give_up = time.monotonic() + timeout_seconds
    pool = ThreadPoolExecutor(len(servers))
    try:
        asked = [pool.submit(why_silent, server, login=login, timeout=timeout_seconds) for server in servers]
        while asked:
            done, pending = wait(asked, max(0.0, give_up - time.monotonic()), return_when="FIRST_COMPLETED")
            for error in [future.result() for future in done]:
                if error is None:
                    return None
                errors.append(error)
            if not done:
                break
            asked = list(pending)
        return errors
    finally:
        pool.shutdown(wait=False)
