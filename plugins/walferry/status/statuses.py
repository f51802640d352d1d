"""The statuses of source clusters, kept for seconds and shared by all that ask in this process."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence

from kazoo.exceptions import KazooException

from walferry.errors import WalferryError
from walferry.source.cluster import SourceCluster
from walferry.source.session import Session
from walferry.status.cached import Cached
from walferry.status.describing import describe, unreachable
from walferry.status.files import Files, FilesSeen
from walferry.status.history import Sample, read_histories
from walferry.status.model import SourceStatus
from walferry.status.old_wals import OldWalsStatus, look_at_old_wals
from walferry.status.slaves import Slaves
from walferry.status.view import View, view
from walferry.zk.client import connected

CONNECT_SECONDS = 6.0  # a page does not wait as long as a run
STATUS_SECONDS = 5.0  # for which a status is kept
FILES_SECONDS = 30.0
OLD_WALS_SECONDS = 300.0
FIRST_SECONDS = 20.0  # that the first one to ask waits for a pass


class Statuses:
    """Makes the statuses of sources. What takes longer than these seconds is told as unknown, and is known the next time."""

    def __init__(self, files_seconds: float = 1.0, slaves_seconds: float = 1.0, old_wals_seconds: float = 1.0) -> None:
        self._slaves = Slaves()
        self._slaves_seconds = slaves_seconds
        self._lock = threading.Lock()
        self._views: dict[SourceCluster, View] = {}
        self._histories: dict[SourceCluster, Mapping[str, Sequence[Sample]]] = {}
        self._files: dict[SourceCluster, Files] = {}
        self._statuses = Cached(self._make, STATUS_SECONDS, FIRST_SECONDS)
        self._looks = Cached(self._look, FILES_SECONDS, files_seconds)
        self._old_wals = Cached(_old_wals, OLD_WALS_SECONDS, old_wals_seconds)

    def of(self, source: SourceCluster) -> SourceStatus:
        """The status of a source, a few seconds old at most, unless its ZooKeeper is silent."""
        found = self._statuses.get(source)
        return found or unreachable(f"ZooKeeper at {source.quorum} has not answered for {FIRST_SECONDS:g} s", time.time())

    def histories(self, source: SourceCluster) -> Mapping[str, Sequence[Sample]]:
        """The histories of the source's peers, as its last status was made with; none before there was one."""
        with self._lock:
            return self._histories.get(source, {})

    def old_wals(self, source: SourceCluster) -> OldWalsStatus | None:
        """What lies in the source's oldWALs, minutes old at most; None while it is listed for the first time."""
        return self._old_wals.get(source)

    def _make(self, source: SourceCluster) -> SourceStatus:
        try:
            with connected(source.quorum, CONNECT_SECONDS) as zk:
                session = Session(source, zk, look_only=True)
                seen = view(session)
                histories, problems = read_histories(session, list(seen.peers or ()))
        except WalferryError as error:
            return unreachable(str(error), time.time())
        except KazooException as error:
            return unreachable(f"ZooKeeper at {source.quorum} refuses to be read: {error!r}", time.time())
        with self._lock:
            self._views[source] = seen
            self._histories[source] = histories
            self._forget()
        files = self._looks.get(source)
        peers = [peer for peer in (seen.peers or {}).values() if peer is not None]
        slaves = self._slaves.statuses(peers, source, self._slaves_seconds)
        return describe(seen, files, slaves, histories, problems)

    def _forget(self) -> None:
        """Drop what is known of sources whose statuses and looks are not kept any more. The lock is held."""
        shown = self._statuses.known() | self._looks.known()
        for kept in (self._views, self._histories, self._files):
            for source in kept.keys() - shown:
                del kept[source]

    def _look(self, source: SourceCluster) -> FilesSeen:
        with self._lock:
            seen = self._views[source]
            files = self._files.setdefault(source, Files(source))
        return files.look(seen.queues or ())


def _old_wals(source: SourceCluster) -> OldWalsStatus:
    try:
        with connected(source.quorum, CONNECT_SECONDS) as zk:
            return look_at_old_wals(Session(source, zk, look_only=True))
    except (WalferryError, KazooException) as error:
        return OldWalsStatus(int(time.time() * 1000), str(error) or repr(error))
