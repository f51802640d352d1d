"""Looks at all queues of a peer, and at the files of their WALs, again and again, and remembers violations."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Iterable

from kazoo.client import KazooClient

from tests.sessions import session_of
from walferry.base.zk.client import children, connected
from walferry.hbase.files.store import WalStore
from walferry.hbase.names import parse_queue_id, parse_wal_name
from walferry.replication.queues.consistent import consistent
from walferry.replication.queues.errors import QueuesMoving
from walferry.replication.queues.reading import queue_paths
from walferry.replication.source.cluster import SourceCluster

PAUSE_SECONDS = 0.2


class QueueWatch:
    """Checks at each look: a WAL is in one queue, its file exists, and it leaves only if its group may be shipped."""

    def __init__(self, source: SourceCluster, peer_id: str) -> None:
        self.wrong: list[str] = []
        self.looks = 0
        self.seen: set[str] = set()  # all WALs that have been in a queue
        self.queued: set[str] = set()  # the WALs queued at the last look
        self.longest_chain = 0  # dead servers that a queue came through
        self._pinned: dict[str, float] = {}  # WALs that were queued while their file lay in oldWALs: since when
        self.longest_pinned_s = 0.0
        self._source = source
        self._peer_id = peer_id
        self._store = WalStore(source.wal_root)
        self._shipped: frozenset[str] = frozenset()  # groups
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="queue watch", daemon=True)

    def shipping(self, groups: Iterable[str]) -> None:
        """From now on WALs of these groups may leave their queues."""
        self._shipped |= set(groups)

    def __enter__(self) -> QueueWatch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            with connected(self._source.quorum) as zk:
                while not self._stop.wait(PAUSE_SECONDS):
                    with contextlib.suppress(QueuesMoving):  # the queues change too fast for one look: look again
                        self._look(zk)
        except Exception as error:  # otherwise a watch that died would pass for a watch without complaints
            self.wrong.append(f"the watch itself ended: {error!r}")

    def _look(self, zk: KazooClient) -> None:
        paths = self._paths(zk)
        may_leave = self._shipped  # read after the queues: tests set it before any WAL leaves
        self.looks += 1
        count = Counter(path.rpartition("/")[2] for path in paths)
        self._note(f"{wal} is in {times} queues: {paths}" for wal, times in count.items() if times > 1)
        left = self.queued - count.keys()
        self._note(f"{wal} is in no queue, and nobody has shipped it" for wal in left if _group(wal) not in may_leave)
        self.queued = set(count)
        self.seen |= self.queued
        chains = (parse_queue_id(path.split("/")[-2]).dead_servers for path in paths)
        self.longest_chain = max(self.longest_chain, *(len(chain) for chain in chains), 0)
        self._look_at_files(zk)

    def _paths(self, zk: KazooClient) -> list[str]:
        """Return the znodes of all queued WALs at one moment."""
        session, peer_id = session_of(zk, self._source), self._peer_id
        return consistent(
            session, lambda: [f"{path}/{wal}" for path in queue_paths(session, peer_id) for wal in children(zk, path) or ()]
        )

    def _look_at_files(self, zk: KazooClient) -> None:
        places = {wal: self._store.locate(parse_wal_name(wal)) for wal in self.queued}
        archived = {wal for wal, at in places.items() if at and at.archived}
        now = time.monotonic()
        self._pinned = {wal: self._pinned.get(wal, now) for wal in archived}
        self.longest_pinned_s = max(self.longest_pinned_s, *(now - since for since in self._pinned.values()), 0.0)
        missing = {wal for wal, at in places.items() if at is None}
        if missing:  # perhaps shipped since, and deleted
            still = {path.rpartition("/")[2] for path in self._paths(zk)} & missing
            self._note(f"{wal} is queued, and has no file" for wal in still if not self._store.locate(parse_wal_name(wal)))

    def _note(self, wrong: Iterable[str]) -> None:
        self.wrong += [text for text in wrong if text not in self.wrong]


def _group(wal: str) -> str:
    return parse_wal_name(wal).group
