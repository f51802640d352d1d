"""The slave of a peer while a group is shipped to it: its id, its live RegionServers, one shipper a lane."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Self
from uuid import UUID

from kazoo.client import KazooClient

from walferry.hbase.cluster import cluster_id, live_servers
from walferry.hbase.layout import ZNodes
from walferry.hbase.peers import Peer, slave_of
from walferry.names import ServerName
from walferry.rpc.admin import answers
from walferry.sinks.hbase.answers import Answers
from walferry.sinks.hbase.manager import SinkManager
from walferry.sinks.hbase.replicate import Shipper, SlaveUnreachable
from walferry.zk.client import CONNECT_TIMEOUT_S, connect, disconnect
from walferry.zk.errors import ConnectError

CONNECT_SLEEP_S = 2.0
FIRST_CONNECT_S = 5.0  # the next tries take longer: what is down is said soon, and a slow ensemble is reached all the same
SHORTEST_TRY_S = 2.0
CALL_TIMEOUT_S = 5.0  # of the slave's ZooKeeper; it is asked again
PING_S = 3.0


class Slave:
    """A connection to the ZooKeeper of the peer's slave, tried until `deadline` (time.monotonic); a context manager.

    `on_failure` is called after each try to connect that failed. Entering raises SlaveUnreachable at the deadline, and
    ClusterError or ZNodeValueError if the cluster key leads to no HBase.
    """

    def __init__(
        self, peer: Peer, ratio: float, deadline: float, *, user: str | None, stop: threading.Event,
        on_failure: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        key = peer.slave
        self._key = key
        self._whose = slave_of(peer.id, key)
        self._nodes = ZNodes(key.znode_parent)
        self._deadline = deadline
        self._user = user
        self._stop = stop
        self._on_failure = on_failure
        self._zk: KazooClient | None = None
        self._id: UUID | None = None
        self._shippers: list[Shipper] = []
        self._sinks = SinkManager(self._live_servers, ratio)
        self.answers = Answers()

    def __enter__(self) -> Self:
        tries = 0
        while True:
            tries += 1
            left = self._deadline - time.monotonic()
            try:
                self.answers.trying()
                self._connect(min(CONNECT_TIMEOUT_S, tries * FIRST_CONNECT_S, max(left, SHORTEST_TRY_S)))
            except ConnectError as e:
                self.answers.failed(str(e))
                left = self._deadline - time.monotonic()
                if left <= 0 or self._stop.wait(min(CONNECT_SLEEP_S, left)):
                    raise SlaveUnreachable(str(self._key), tries, str(e)) from e
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
        if self._zk:
            disconnect(self._zk)

    @property
    def id(self) -> UUID:
        """The slave's cluster id."""
        if self._id is None:
            raise RuntimeError("a Slave is used within its with-block")
        return self._id

    def shipper(self) -> Shipper:
        """A shipper for one lane; all of a task share the subset of sinks."""
        shipper = Shipper(str(self._key), self._sinks, stop=self._stop, user=self._user, answers=self.answers)
        self._shippers.append(shipper)
        return shipper

    @property
    def failed_batches(self) -> int:
        """Requests that had to be sent again."""
        return sum(s.failed_batches for s in self._shippers)

    def interrupt(self) -> None:
        """After the stop event was set: end the calls under way."""
        for shipper in self._shippers:
            shipper.interrupt()

    def interrupt_unanswered(self) -> None:
        """End the calls under way of servers that do not answer anything else either; those that do are at work on them."""
        servers = sorted({server for s in self._shippers if (server := s.calling) is not None})
        if not servers:
            return
        with ThreadPoolExecutor(len(servers)) as pool:
            alive = dict(zip(servers, pool.map(self._answers_ping, servers), strict=True))
        for shipper in self._shippers:
            server = shipper.calling
            if server is not None and not alive.get(server, True):
                shipper.interrupt(f"{server.host}:{server.port} took the call, and answers nothing else within {PING_S:g} s")

    def _answers_ping(self, server: ServerName) -> bool:
        return answers(server, user=self._user, timeout=PING_S)

    def _connect(self, timeout: float) -> None:
        zk = connect(self._key.connect_string, timeout, call_timeout=CALL_TIMEOUT_S, whose=self._whose)
        try:
            self._id = cluster_id(zk, self._nodes)
        except BaseException:
            disconnect(zk)
            raise
        self._zk = zk

    def _live_servers(self) -> frozenset[ServerName]:
        if self._zk is None:
            raise RuntimeError("a Slave is used within its with-block")
        return live_servers(self._zk, self._nodes)
