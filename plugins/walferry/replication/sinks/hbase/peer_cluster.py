"""The cluster of a peer while a group is shipped to it: its id, its live RegionServers, and a shipper for each sender."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Self
from uuid import UUID

from kazoo.client import KazooClient

from walferry.base.security.login import Login
from walferry.base.zk.client import CONNECT_TIMEOUT_SECONDS, connect, disconnect
from walferry.base.zk.errors import ConnectError
from walferry.base.zk.right import Right
from walferry.hbase.cluster import cluster_id, live_servers
from walferry.hbase.layout import ZNodes
from walferry.hbase.names import ServerName
from walferry.hbase.rpc.admin import why_silent
from walferry.hbase.tables.tables import Tables
from walferry.replication.peers.reading import Peer, peer_cluster_of
from walferry.replication.peers.settings import PeerSettings
from walferry.replication.sinks.answers import Answers
from walferry.replication.sinks.errors import PeerClusterRefusesLogin, PeerClusterUnreachable, Stopped
from walferry.replication.sinks.hbase.connections import Share
from walferry.replication.sinks.hbase.direct import DirectShipper
from walferry.replication.sinks.hbase.locations import Locations
from walferry.replication.sinks.hbase.manager import SinkManager
from walferry.replication.sinks.hbase.replicate import Shipper
from walferry.replication.sinks.tries import SendTerms

CONNECT_SLEEP_SECONDS = 2.0
FIRST_CONNECT_SECONDS = 5.0  # later tries take longer: an outage is reported soon, and a slow ensemble is still reached
SHORTEST_TRY_SECONDS = 2.0
CALL_TIMEOUT_SECONDS = 5.0  # for the peer cluster's ZooKeeper, which is asked again after that
PING_SECONDS = 3.0
MAX_PINGS = 64  # in one look; the other servers have their turn at a later look
_PINGS_AT_ONCE = 16
LOOKUP_SECONDS = 10.0  # for a server of hbase:meta to return a part of a table's regions, which takes it milliseconds


class PeerCluster:
    """A connection to the ZooKeeper of the peer cluster, and through it the peer cluster. A context manager.

    Entering it tries to connect until `deadline` (time.monotonic) or until the settings' patience is over, and calls `on_failure`
    after each failed try. Then it raises PeerClusterUnreachable. It raises ClusterError or ZNodeValueError if the cluster key
    does not lead to HBase. All its shippers ask `right` before each request.
    """

    def __init__(
        self, peer: Peer, settings: PeerSettings, deadline: float, *, login: Login, stop: threading.Event,
        on_failure: Callable[[], None] = lambda: None, right: Right | None = None,
    ) -> None:  # fmt: skip
        key = peer.peer_cluster
        self._key = key
        self._whose = peer_cluster_of(peer.id, key)
        self._nodes = ZNodes(key.znode_parent)
        self._deadline = deadline
        self._login = login
        self._stop = stop
        self._on_failure = on_failure
        self._zk: KazooClient | None = None
        self._id: UUID | None = None
        self._shippers: list[Shipper | DirectShipper] = []
        self._settings = settings
        self._sinks = SinkManager(self._live_servers, settings.ratio, bad_sink_threshold=settings.bad_sink_threshold)
        self._locations = Locations(self._tables)
        self._share = Share()
        self.answers = Answers()
        self._terms = SendTerms(str(key), stop, login, settings, self.answers, right or Right())

    def __enter__(self) -> Self:
        tries = 0
        while True:
            tries += 1
            try:
                self.answers.trying()
                timeout = min(CONNECT_TIMEOUT_SECONDS, tries * FIRST_CONNECT_SECONDS, max(self._left, SHORTEST_TRY_SECONDS))
                self._connect(timeout)
            except ConnectError as error:
                self.answers.failed(str(error))
                if not error.retry_helps:
                    self.answers.given_up()
                    raise PeerClusterRefusesLogin(str(self._key), str(error)) from error
                self._check_hope(tries, error)
                if self._stop.wait(min(CONNECT_SLEEP_SECONDS, max(0.0, self._left))):
                    raise Stopped(f"asked to stop before peer cluster {self._key} was reached") from error
                self._on_failure()
            except BaseException:
                self.answers.given_up()
                raise
            else:
                self.answers.answered()
                return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for shipper in self._shippers:
            shipper.close()
        self._locations.close()
        if self._zk:
            disconnect(self._zk)

    @property
    def id(self) -> UUID:
        """The peer cluster's cluster id."""
        if self._id is None:
            raise RuntimeError("a PeerCluster is used within its with-block")
        return self._id

    def shipper(self) -> Shipper:
        """Return a shipper for one sender. All shippers of a task share the subset of sinks."""
        shipper = Shipper(self._sinks, self._terms)
        self._shippers.append(shipper)
        return shipper

    def direct_shipper(self) -> DirectShipper:
        """Return a direct shipper for one sender. A task's shippers share the regions' locations and the limit of calls."""
        shipper = DirectShipper(self._locations, self._terms, self._share)
        self._shippers.append(shipper)
        return shipper

    @property
    def failed_requests(self) -> int:
        """The number of requests that had to be sent again."""
        return sum(s.failed_batches for s in self._shippers)

    def interrupt(self) -> None:
        """End the calls under way. The stop event has been set."""
        for shipper in self._shippers:
            shipper.interrupt()
        self._locations.interrupt()

    def look_after_calls(self, deadline: float) -> None:
        """Make a second call to servers whose calls take long, and end the calls of servers that do not answer this either.

        A server that answers is at work on its call, so the peer cluster is not silent, and the call is left alone. This asks
        servers with overdue calls, and all servers with calls once the peer cluster has been silent for a third of the patience
        or the deadline has passed. If there are more servers than one look has time for, it asks some at a time.
        """
        late, patience = time.monotonic() > deadline, self._settings.patience_seconds
        suspect = late or self.answers.silent_seconds >= patience / 3
        calls = [(s, server) for s in self._shippers if suspect or s.overdue for server in s.calls]
        if not calls:
            return
        servers = sorted({server for _, server in calls})
        servers = random.sample(servers, min(len(servers), MAX_PINGS))
        with ThreadPoolExecutor(min(len(servers), _PINGS_AT_ONCE)) as pool:
            alive = dict(zip(servers, pool.map(self._answers_ping, servers), strict=True))
        if any(alive.values()):
            self.answers.heard()
        silent = self.answers.silent_seconds >= patience
        for shipper, server in calls:
            if not alive.get(server, True) and (late or silent or shipper.overdue):
                why = f"{server.host}:{server.port} took the call and answers nothing else within {PING_SECONDS:g} s"
                shipper.interrupt(why, server)

    @property
    def _left(self) -> float:
        """Return the seconds for which connecting may go on."""
        return min(self._deadline - time.monotonic(), self._settings.patience_seconds - self.answers.silent_seconds)

    def _check_hope(self, tries: int, error: ConnectError) -> None:
        if self._left <= 0:
            patience = self._settings.patience_seconds
            waited = patience if self.answers.silent_seconds >= patience else None
            raise PeerClusterUnreachable(
                str(self._key), self.answers.since, tries, str(error), patience_seconds=waited
            ) from error

    def _answers_ping(self, server: ServerName) -> bool:
        return why_silent(server, login=self._login, timeout=PING_SECONDS) is None

    def _connect(self, timeout: float) -> None:
        zk = connect(self._key.connect_string, timeout, call_timeout=CALL_TIMEOUT_SECONDS, whose=self._whose, login=self._login)
        try:
            self._id = cluster_id(zk, self._nodes)
        except BaseException:
            disconnect(zk)
            raise
        self._zk = zk

    def _tables(self) -> Tables:
        """Return the peer cluster's tables, which try no failed call again: a sender's tries have their own end and pauses."""
        if self._zk is None:
            raise RuntimeError("a PeerCluster is used within its with-block")
        return Tables(self._zk, self._nodes, login=self._login, patience_seconds=0.0, call_seconds=LOOKUP_SECONDS)

    def _live_servers(self) -> frozenset[ServerName]:
        if self._zk is None:
            raise RuntimeError("a PeerCluster is used within its with-block")
        return live_servers(self._zk, self._nodes)
