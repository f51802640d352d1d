"""Dead RegionServers as they come, for an event loop."""

import time
from collections.abc import Mapping
from dataclasses import dataclass

from kazoo.client import KazooClient

from walferry.queues.dead_servers import DeadServer, find_dead
from walferry.source.cluster import SourceCluster
from walferry.source.session import Session
from walferry.zk.client import Watch
from walferry.zk.hold import is_held
from walferry.zk.watcher import Watcher

AGAIN_S = 600.0  # from telling of a server to telling of it again, when nothing of its queues has moved for so long
MAX_AGAIN_S = 4 * 3600.0  # the pause doubles until then: a queue that nobody can ship begins a few runs a day


@dataclass(frozen=True)
class Told:
    """A dead server that was told of: when it is looked at again (time.monotonic), the pause after that, and its queues."""

    due: float
    pause: float
    dead: DeadServer


class DeadServersStream(Watcher):
    """Watches for servers that are gone and have left queues of managed peers, and tells of each while these are there.

    It looks at what there is, so it finds servers that died while nobody watched, and takes no lost session of its own for a
    death. It tells of a server again after a while, and then after longer and longer ones, if nobody claims or drains its queues:
    whoever was told before may have failed.
    """

    def __init__(self, source: SourceCluster, told: Mapping[str, Told] | None = None) -> None:
        super().__init__(source.quorum)
        self.told = told or {}  # the servers that were there at the last look, or that an earlier stream has told of
        self._source = source

    async def next(self) -> tuple[DeadServer, ...]:
        """Wait for dead servers that were not told of yet, or are to be told of again.

        A lost session, or an ensemble that is away, is waited for. Raises ClusterError, ZNodeValueError.
        """
        return await self.first(self._look, self._pause)

    def _look(self, zk: KazooClient, watch: Watch) -> tuple[DeadServer, ...] | None:
        session, now = Session(self._source, zk), time.monotonic()
        found, told = [], {}
        for dead in find_dead(session, watch):
            before = self.told.get(dead.name)
            if before is None:
                found.append(dead)
                told[dead.name] = Told(now + AGAIN_S, AGAIN_S, dead)
            elif dead != before.dead:  # somebody moves them or takes WALs out
                told[dead.name] = Told(now + before.pause, before.pause, dead)
            elif now < before.due:
                told[dead.name] = before
            elif _in_hand(session, dead):
                told[dead.name] = Told(now + AGAIN_S, before.pause, dead)
            else:
                pause = min(2 * before.pause, MAX_AGAIN_S)
                found.append(dead)
                told[dead.name] = Told(now + pause, pause, dead)
        self.told = told
        return tuple(found) or None

    def _pause(self) -> float | None:
        """Seconds until one of them is to be looked at again; None if there are none."""
        return max(0.0, min(told.due for told in self.told.values()) - time.monotonic()) if self.told else None


def _in_hand(session: Session, dead: DeadServer) -> bool:
    """Whether a run claims the server or has one of its queues' WAL groups now."""
    leases = (session.own.lease(queue.peer_id, group) for queue in dead.queues for group in queue.groups)
    return is_held(session.zk, session.own.claim(dead.name)) or any(is_held(session.zk, lease) for lease in leases)
