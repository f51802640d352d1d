"""Announces to an event loop that a cluster has had no master for a while. It uses ZooKeeper's watches and does not poll."""

from __future__ import annotations

import time

from kazoo.client import KazooClient

from walferry.base.zk.client import Watch, has_znode
from walferry.base.zk.watcher import Watcher
from walferry.hbase.cluster import cluster_id
from walferry.replication.source.cluster import SourceCluster


class NoMasterStream(Watcher):
    """Waits until no HMaster is active, and no run has the master's role, for some seconds.

    A cluster that was shut down has no master, and wants none: HBase deletes its znode `running` then.
    """

    def __init__(self, source: SourceCluster, patience_seconds: float) -> None:
        super().__init__(source.quorum, source.login)
        self._nodes = source.nodes
        self._patience_seconds = patience_seconds
        self._since: float | None = None  # since when there is none (time.monotonic)
        self._next: float | None = None  # seconds from the last look until the patience is over

    async def next(self) -> float:
        """Wait, and return for how many seconds there was no master. Raises ClusterError."""
        return await self.first(self._look, lambda: self._next)

    def _look(self, zk: KazooClient, watch: Watch) -> float | None:
        running = has_znode(zk, self._nodes.running, watch)
        if has_znode(zk, self._nodes.master, watch) or not running:
            if not running:
                cluster_id(zk, self._nodes)  # raises a clear error if there is no cluster
            self._since = self._next = None
            return None
        now = time.monotonic()
        self._since = now if self._since is None else self._since
        self._next = self._patience_seconds - (now - self._since)
        return now - self._since if self._next <= 0 else None
