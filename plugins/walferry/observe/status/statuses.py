"""The statuses of source clusters, kept for seconds and shared by all callers in this process."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kazoo.exceptions import KazooException

from walferry.base.errors import WalferryError
from walferry.base.texts import one_line
from walferry.base.zk.client import connected
from walferry.base.zk.errors import known
from walferry.hbase.files.store import WalStore
from walferry.hbase.layout import QueueLayout
from walferry.hbase.queue_table import QUEUE_TABLE
from walferry.observe.status.cached import Cached
from walferry.observe.status.describing import describe, unreachable
from walferry.observe.status.files import Files, FilesSeen
from walferry.observe.status.history import Sample, read_histories, record
from walferry.observe.status.model import SourceStatus
from walferry.observe.status.peer_clusters import PeerClusters
from walferry.observe.status.view import ZooKeeperView, view
from walferry.replication.retention.survey import OldWalSurvey, list_old_wals, surveyed
from walferry.replication.source.cluster import SourceCluster
from walferry.replication.source.session import Session, open_session

CONNECT_SECONDS = 6.0  # a page does not wait as long as a run
STATUS_SECONDS = 5.0  # how long a status is kept
FILES_SECONDS = 30.0
OLD_WALS_SECONDS = 300.0  # a listing of oldWALs costs a call that returns each of its files
TTL_SECONDS = 600.0  # the default of hbase.master.logcleaner.ttl
MAX_PROBLEM_CHARS = 1000
FIRST_SECONDS = 20.0  # how long the first caller waits for a pass
WATCH_SECONDS = 5.0  # for files and peer clusters; values that take longer are shown as unknown
WATCH_OLD_WALS_SECONDS = 60.0

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Pass:
    """The result of one pass over ZooKeeper. Without a view, `unreachable` says why there is none."""

    view: ZooKeeperView | None = None
    unreachable: str = ""
    histories: Mapping[str, Sequence[Sample]] = field(default_factory=dict)
    problems: Sequence[str] = ()  # of the histories


class Statuses:
    """Makes the statuses of sources. All looks at a source use the queues of one pass.

    Values that are not known after `files_seconds` and `peer_clusters_seconds` are shown as unknown, and are known the next time.
    With `from_begin` these seconds include the pass: a viewer who comes back soon does not wait longer after a slow pass.
    """

    def __init__(self, files_seconds: float = 1.0, peer_clusters_seconds: float = 1.0, *, from_begin: bool = False) -> None:
        self._from_begin = from_begin
        self._peer_clusters = PeerClusters()
        self._files_seconds = files_seconds
        self._peer_clusters_seconds = peer_clusters_seconds
        self._lock = threading.Lock()
        self._files: dict[SourceCluster, Files] = {}
        self._passes = Cached(_pass_over, STATUS_SECONDS, FIRST_SECONDS)
        self._statuses = Cached(self._make, STATUS_SECONDS, FIRST_SECONDS)
        self._looks = Cached(self._look, FILES_SECONDS, files_seconds)
        self._old_wals = Cached(self._list_old_wals, OLD_WALS_SECONDS, 0.0)

    def of(self, source: SourceCluster) -> SourceStatus:
        """Return the status of a source, a few seconds old at most, unless its ZooKeeper is silent."""
        return self._statuses.get(source) or unreachable(_silent(source), time.time())

    def histories(self, source: SourceCluster) -> Mapping[str, Sequence[Sample]]:
        """Return the histories of the source's peers from its last pass; none before the first pass."""
        last = self._passes.last(source)
        return last.histories if last else {}

    def old_wals(self, source: SourceCluster, wait_seconds: float) -> OldWalSurvey | None:
        """Return a survey of the source's oldWALs, minutes old at most; None while it is listed for the first time."""
        return self._old_wals.get(source, wait_seconds)

    def _make(self, source: SourceCluster) -> SourceStatus:
        began = time.monotonic()
        read = self._pass_of(source)
        if read.view is None:
            return unreachable(read.unreachable, time.time())
        if not self._from_begin:
            began = time.monotonic()
        waits = began + self._files_seconds > time.monotonic()
        if waits:
            self._looks.get(source, 0.0)  # the look runs while peer clusters are asked
        peers = [peer for peer in (read.view.peers or {}).values() if peer is not None]
        peer_clusters = self._peer_clusters.statuses(peers, source, began + self._peer_clusters_seconds - time.monotonic())
        files = self._looks.get(source, began + self._files_seconds - time.monotonic()) if waits else self._looks.last(source)
        status = describe(read.view, files, peer_clusters, read.histories, read.problems)
        self._looks.get(source, 0.0)  # a look that was not waited for begins now, when it slows down no caller
        return status

    def _pass_of(self, source: SourceCluster) -> _Pass:
        return self._passes.get(source) or _Pass(unreachable=_silent(source))

    def _look(self, source: SourceCluster) -> FilesSeen:
        with self._lock:
            for other in self._files.keys() - self._statuses.known() - self._looks.known():
                del self._files[other]
            files = self._files.setdefault(source, Files(source))
        read = self._pass_of(source)
        return FilesSeen(problem=read.unreachable) if read.view is None else files.look(read.view.queues or ())

    def _list_old_wals(self, source: SourceCluster) -> OldWalSurvey:
        read = self._pass_of(source)
        if read.view is None:
            return OldWalSurvey(time.time(), read.unreachable)
        return replace(look_at_old_wals(WalStore(source.wal_root, look_only=True), read.view), wals=())


def look_at_old_wals(store: WalStore, seen: ZooKeeperView, ttl_seconds: float = TTL_SECONDS) -> OldWalSurvey:
    """List oldWALs, and find in the queues of a pass what keeps its files. `problem` says what went wrong.

    A file that was archived since the pass was queued at the pass, because servers queue their WALs before they use them.
    """
    at = time.time()
    if seen.queues is None:
        return OldWalSurvey(at, "the queues cannot be read")
    try:
        files = list_old_wals(store)
    except (WalferryError, OSError) as error:
        return OldWalSurvey(at, one_line(str(error), MAX_PROBLEM_CHARS))
    peers = {peer_id: peer for peer_id, peer in (seen.peers or {}).items() if peer is not None}
    return surveyed(at, ttl_seconds, store, files, seen.queues, peers)


def _silent(source: SourceCluster) -> str:
    table = f", or hbase:meta or table {QUEUE_TABLE}," if source.queue_layout == QueueLayout.TABLE else ""
    return f"ZooKeeper at {source.quorum}{table} has not answered for {FIRST_SECONDS:g} s"


def _pass_over(source: SourceCluster) -> _Pass:
    try:
        with connected(source.quorum, CONNECT_SECONDS, login=source.login) as zk:
            session = Session(source, zk, look_only=True)
            seen = view(session)
            return _Pass(seen, "", *read_histories(session, list(seen.peers or ())))
    except WalferryError as error:
        return _Pass(unreachable=str(error))
    except KazooException as error:
        return _Pass(unreachable=f"ZooKeeper at {source.quorum} refuses to be read. {known(error)}")


def look(source: Callable[[], SourceCluster], with_old_wals: bool) -> tuple[SourceStatus, OldWalSurvey | None]:
    """Look at the source, and record how its peers stand. The status says what went wrong. None: oldWALs was not listed."""
    try:
        cluster = source()
    except WalferryError as error:
        return unreachable(str(error), time.time()), None
    statuses = Statuses(WATCH_SECONDS, WATCH_SECONDS)
    status = statuses.of(cluster)
    if status.unreachable is not None:
        return status, None
    try:
        with open_session(cluster, look_only=True) as session:
            record(session, status)
    except (WalferryError, KazooException) as error:
        log.warning("the history was not recorded: %s", str(error) or repr(error))
    if not with_old_wals:
        return status, None
    found = statuses.old_wals(cluster, WATCH_OLD_WALS_SECONDS)
    if found is None:
        found = OldWalSurvey(time.time(), f"oldWALs was not listed within {WATCH_OLD_WALS_SECONDS:g} s")
    if found.problem:
        log.warning("nothing is known of oldWALs: %s", found.problem)
    return status, found
