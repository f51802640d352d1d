"""Announces regions that stay in one state for too long to an event loop. It uses ZooKeeper's watches and does not poll."""

from __future__ import annotations

import time
from dataclasses import dataclass

from kazoo.client import KazooClient

from walferry.base.texts import one_line
from walferry.base.zk.client import Watch, ZNode, children, read_all
from walferry.base.zk.errors import ZNodeValueError
from walferry.base.zk.watcher import Watcher
from walferry.hbase.cluster import cluster_id
from walferry.hbase.names import ServerName
from walferry.master.states import OF_SPLITS
from walferry.master.znodes import decode_region
from walferry.replication.source.cluster import SourceCluster

MAX_NAME_CHARS = 300
BROKEN = "broken"


@dataclass(frozen=True)
class StuckRegion:
    """A region whose znode has not changed for `seconds`. Its state is BROKEN, without a server, if the znode cannot be read."""

    region: str
    state: str
    server: ServerName | None
    seconds: float


class StuckRegionsStream(Watcher):
    """Waits for regions that stay in one state longer than a limit.

    A region stays in its state while its znode does not change. A server that splits or merges a region writes its znode again
    and again until the master answers, so there the time since the znode was created counts.
    """

    def __init__(self, source: SourceCluster, limit_seconds: float) -> None:
        super().__init__(source.quorum, source.login)
        self._nodes = source.nodes
        self._limit_seconds = limit_seconds
        self._next: float | None = None  # seconds from the last look until a region passes the limit

    async def next(self) -> tuple[StuckRegion, ...]:
        """Wait for stuck regions, and return all of them. Raises ClusterError, ZNodeValueError."""
        return await self.first(self._look, lambda: self._next)

    def _look(self, zk: KazooClient, watch: Watch) -> tuple[StuckRegion, ...] | None:
        names = children(zk, self._nodes.in_transition, watch)
        if names is None:
            cluster_id(zk, self._nodes)  # raises a clear error if there is no cluster
            names = []
        paths = [self._nodes.region_in_transition(name) for name in names]
        now = time.time()
        there = [
            _region(name, path, found, now)
            for name, path, found in zip(names, paths, read_all(zk, paths), strict=True)
            if found is not None
        ]
        stuck = tuple(each for each in there if each.seconds >= self._limit_seconds)
        waits = [self._limit_seconds - each.seconds for each in there]
        self._next = max(0.0, min(waits)) if waits else None
        return stuck or None


def _region(name: str, path: str, found: ZNode, now: float) -> StuckRegion:
    changed = found.stat.mtime
    try:
        region = decode_region(found, path)
    except ZNodeValueError:
        state, server = BROKEN, None
    else:
        state, server = region.state.name, region.server
        changed = region.created_ms if region.state in OF_SPLITS else region.changed_ms
    return StuckRegion(one_line(name, MAX_NAME_CHARS), state, server, max(0.0, now - changed / 1000))
