"""Announces new closed WALs of a peer as they come, for an event loop."""

from walferry.base.zk.watcher import Watcher
from walferry.replication.queues.new_wals import NewWals, Timestamps, commit, find_new
from walferry.replication.source.cluster import SourceCluster
from walferry.replication.source.session import Session, writing_session


class NewWalsStream(Watcher):
    """Watches one peer for one mark. Use `async with`, or `close` it in the end, so that no session or thread is left."""

    def __init__(self, source: SourceCluster, peer_id: str, key: str) -> None:
        super().__init__(source.quorum, source.login)
        self.peer_id = peer_id
        self.key = key
        self._source = source

    async def next(self, beside: Timestamps | None = None) -> NewWals:
        """Wait for closed WALs that neither the mark nor `beside` covers; `commit` is what moves the mark.

        It waits through lost sessions and while the ensemble is away. Raises PeerError if the peer must not be shipped,
        StorageError, ZNodeValueError.
        """
        return await self.first(lambda zk, watch: find_new(Session(self._source, zk), self.peer_id, self.key, beside, watch))

    async def commit(self, newest: Timestamps) -> bool:
        """Let the mark cover `newest`; returns whether it did not before. Raises ConnectError, WalferryError."""
        return await self.call(lambda zk: commit(writing_session(self._source, zk), self.peer_id, self.key, newest))
