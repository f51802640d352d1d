"""Dead RegionServers as they come, for an event loop."""

from kazoo.client import KazooClient

from walferry.source import SourceCluster
from walferry.zk.client import Watch
from walferry.zk.dead_servers import DeadServer, find_dead
from walferry.zk.watcher import Watcher


class DeadServersStream(Watcher):
    """Watches for servers that are gone and have left queues of managed peers; tells of each once while these are there.

    It looks at what there is, so it finds servers that died while nobody watched, and takes no lost session of its own for a
    death.
    """

    def __init__(self, source: SourceCluster, told: frozenset[str] = frozenset()) -> None:
        super().__init__(source.quorum)
        self.told = told  # names of the servers that were there at the last look, or that an earlier stream has told of
        self._nodes = source.nodes

    async def next(self) -> tuple[DeadServer, ...]:
        """Wait for dead servers that were not told of yet.

        A lost session, or an ensemble that is away, is waited for. Raises ClusterError, ZNodeValueError.
        """
        return await self.first(self._look)

    def _look(self, zk: KazooClient, watch: Watch) -> tuple[DeadServer, ...] | None:
        dead = find_dead(zk, self._nodes, watch)
        new = tuple(server for server in dead if server.name not in self.told)
        self.told = frozenset(server.name for server in dead)
        return new or None
