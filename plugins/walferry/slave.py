"""The slave of a peer while a group is shipped to it: its id, its live RegionServers, one shipper a lane."""

from __future__ import annotations

import logging
import threading
import time
from types import TracebackType
from typing import Self
from uuid import UUID

from kazoo.client import KazooClient

from walferry.sinks.manager import SinkManager
from walferry.sinks.replicate import Shipper, SlaveUnreachable
from walferry.wal.names import ServerName
from walferry.zk.client import CONNECT_TIMEOUT_S, connect, disconnect
from walferry.zk.cluster import cluster_id, live_servers
from walferry.zk.errors import ConnectError
from walferry.zk.layout import ZNodes
from walferry.zk.peers import ClusterKey

log = logging.getLogger(__name__)

CONNECT_SLEEP_S = 2.0
SHORTEST_TRY_S = 2.0


class Slave:
    """A connection to the slave's ZooKeeper, tried until `deadline` (time.monotonic); a context manager.

    Entering raises SlaveUnreachable at the deadline, ClusterError or ZNodeValueError if the cluster key leads to no HBase.
    """

    def __init__(self, key: ClusterKey, ratio: float, deadline: float, *, user: str | None, stop: threading.Event) -> None:
        self._key = key
        self._nodes = ZNodes(key.znode_parent)
        self._deadline = deadline
        self._user = user
        self._stop = stop
        self._zk: KazooClient | None = None
        self._shippers: list[Shipper] = []
        self._sinks = SinkManager(self._live_servers, ratio)

    def __enter__(self) -> Self:
        tries = 0
        while True:
            tries += 1
            left = self._deadline - time.monotonic()
            try:
                self._zk = connect(self._key.connect_string, timeout=min(CONNECT_TIMEOUT_S, max(left, SHORTEST_TRY_S)))
                break
            except ConnectError as e:
                left = self._deadline - time.monotonic()
                if left <= 0 or self._stop.wait(min(CONNECT_SLEEP_S, left)):
                    raise SlaveUnreachable(str(self._key), tries, str(e)) from e
                log.warning("%s; trying again", e)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for shipper in self._shippers:
            shipper.close()
        if self._zk:
            disconnect(self._zk)

    @property
    def id(self) -> UUID:
        """The slave's cluster id."""
        return cluster_id(self._client(), self._nodes)

    def shipper(self) -> Shipper:
        """A shipper for one lane; all of a task share the subset of sinks."""
        shipper = Shipper(str(self._key), self._sinks, stop=self._stop, user=self._user)
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

    def _client(self) -> KazooClient:
        if self._zk is None:
            raise RuntimeError("a Slave is used within its with-block")
        return self._zk

    def _live_servers(self) -> frozenset[ServerName]:
        return live_servers(self._client(), self._nodes)
