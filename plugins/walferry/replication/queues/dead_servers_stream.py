"""Announces dead RegionServers as they are found, for an event loop."""

import time
from collections.abc import Mapping
from dataclasses import dataclass

from kazoo.client import KazooClient

from walferry.base.zk.client import Watch
from walferry.base.zk.fenced_lock import is_held
from walferry.base.zk.watcher import Watcher
from walferry.replication.queues.dead_servers import DeadServer, find_dead
from walferry.replication.source.cluster import SourceCluster
from walferry.replication.source.session import Session

AGAIN_SECONDS = 600.0  # before a server whose queues have not changed is announced again
MAX_AGAIN_SECONDS = 4 * 3600.0  # the pause doubles up to this: a queue that cannot be shipped starts a few runs a day


@dataclass(frozen=True)
class ServersTold:
    """A dead server that was announced: when it is due again (time.monotonic), the pause after that, and its queues."""

    due: float
    pause: float
    dead: DeadServer


class DeadServersStream(Watcher):
    """Announces servers that are gone and have left queues of managed peers, while the queues are there.

    It looks at what is there. So it also finds servers that died while it was not running, and it does not take the loss of its
    own session for a death. It announces a server again after ever longer pauses while no run claims or drains its queues: the
    run that the first announcement started may have failed.
    """

    def __init__(self, source: SourceCluster, told: Mapping[str, ServersTold] | None = None) -> None:
        super().__init__(source.quorum, source.login)
        self.told = told or {}  # the servers found by the last look, or announced by an earlier stream
        self._source = source

    async def next(self) -> tuple[DeadServer, ...]:
        """Wait for dead servers that were not announced yet, or are due again.

        It waits through lost sessions and while the ensemble is away. Raises ClusterError, ZNodeValueError.
        """
        return await self.first(self._look, self._pause)

    def _look(self, zk: KazooClient, watch: Watch) -> tuple[DeadServer, ...] | None:
        session = Session(self._source, zk)
        there = find_dead(session, watch)
        now = time.monotonic()  # after the look, however long it took: pauses count from the announcement
        found, told = [], {}
        for dead in there:
            before = self.told.get(dead.name)
            if before is None:
                found.append(dead)
                told[dead.name] = ServersTold(now + AGAIN_SECONDS, AGAIN_SECONDS, dead)
            elif dead != before.dead:  # a run or HBase moves the queues, or takes WALs out
                told[dead.name] = ServersTold(now + before.pause, before.pause, dead)
            elif now < before.due:
                told[dead.name] = before
            elif _is_held(session, dead):
                told[dead.name] = ServersTold(now + AGAIN_SECONDS, before.pause, dead)
            else:
                pause = min(2 * before.pause, MAX_AGAIN_SECONDS)
                found.append(dead)
                told[dead.name] = ServersTold(now + pause, pause, dead)
        self.told = told
        return tuple(found) or None

    def _pause(self) -> float | None:
        """Seconds until the next server is due; None if there is none."""
        return max(0.0, min(told.due for told in self.told.values()) - time.monotonic()) if self.told else None


def _is_held(session: Session, dead: DeadServer) -> bool:
    """Whether a run claims the server, or holds a WAL group of its queues."""
    leases = (session.own.lease(queue.peer_id, group) for queue in dead.queues for group in queue.groups)
    return is_held(session.zk, session.own.claim(dead.name)) or any(is_held(session.zk, lease) for lease in leases)
