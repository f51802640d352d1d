"""A trigger that fires when batches have something to do. The DAG replicate_peer runs when it fires:

    Asset("hbase-closed-wals", watchers=[AssetWatcher(name="hbase_source", trigger=ClosedWalsEventTrigger())])

One trigger, with one ZooKeeper session, serves all peers of a source, also those that become managed later. It remembers nothing
beyond its own life: a WAL leaves its queue when it is shipped, and what is queued after a restart of the triggerer is announced
again. `NewWalsEventTrigger` is for DAGs that do not ship: it keeps a cursor of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from walferry.airflow.triggers.base import RepeatingTrigger

if TYPE_CHECKING:  # DAG files name the trigger, and are parsed without kazoo
    from walferry.replication.queues.closed_wals import BatchDue, ClosedWalsStream


class ClosedWalsEventTrigger(RepeatingTrigger):
    """Fires for managed peers with closed WALs, once for all that come within some seconds, and when servers are to roll.

    It fires again, after a minute and then after longer and longer pauses of at most ten, while a peer's WALs stay and no run
    ships the peer. A peer that a run ships is announced once that run has ended, if closed WALs are left by then.

    Servers are to roll once in half the `max_lag` of the peer with the smallest one (without any, every 5 minutes), if any of
    them may have written something for a managed peer.
    """

    async def open_stream(self) -> ClosedWalsStream:
        """Return the stream of the connection's cluster, which goes on where the one before has ended. Raises SourceError."""
        from walferry.replication.queues.closed_wals import ClosedWalsStream

        return ClosedWalsStream(await self.source(), self._stream)

    def payload(self, found: BatchDue) -> dict[str, Any]:
        """Return {"peers": {peer: how many closed WALs}, "roll": whether servers are to roll}."""
        return {"peers": dict(found.peers), "roll": found.roll}
