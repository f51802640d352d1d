"""Finds the hours that peer clusters have complete, and that nobody was told of yet.

    valid    per peer: the time up to which its cluster has all edits (observe/status/valid_through.py)
    mark     per peer: up to which hour events say so

A mark moves in two steps, because a task's events count only once Airflow has stored them, with the task's success. A run writes
the hour that it announces beside its own name, and the next run looks how that run has ended. So hours are announced again if a
run was killed, and none is left out. A peer that was never seen begins with its next whole hour: its cluster need not have what
was written before the peer was made.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import quote

from walferry.base.errors import WalferryError
from walferry.hbase.cluster import master as active_master
from walferry.hbase.rpc import master
from walferry.load.copy_records import under_way
from walferry.observe.status.statuses import Statuses
from walferry.replication.filters.rules import PeerTables
from walferry.replication.source.cluster import SourceCluster
from walferry.replication.source.peers import read_peers
from walferry.replication.source.session import Session, open_session

HOUR_MS = 3_600_000
MOST_HOURS = 24 * 14  # that one run announces of a peer; the next run goes on
AHEAD_MS = 2 * HOUR_MS  # a new peer's mark is the end of the present hour, by the source's clock
NO_RUN = ""
FILES_SECONDS = 5.0  # for files; a WAL that takes longer counts as not shipped

log = logging.getLogger(__name__)


class NothingValid(WalferryError):
    """The source cannot be read, so nothing is known of complete hours."""


@dataclass(frozen=True)
class Mark:
    """Up to when a peer's hours are announced, in ms since the epoch: surely, and if the events of the run `by` were stored."""

    sure_ms: int
    told_ms: int = 0
    by: str = NO_RUN

    def settled(self, stored: Collection[str]) -> Mark:
        """Return the mark, now that it is known of which runs the events were `stored`."""
        return Mark(max(self.sure_ms, self.told_ms)) if self.by in stored else Mark(self.sure_ms)

    def checked(self, now_ms: int) -> Mark:
        """Return the mark. Raises ValueError if it names no hour's end, or one that is far ahead."""
        for ms in (self.sure_ms, self.told_ms):
            if ms % HOUR_MS or not 0 <= ms <= now_ms + AHEAD_MS:
                raise ValueError(f"{ms} is not the end of an hour in the past, in ms since the epoch")
        return self


def next_hour(ms: int) -> int:
    """Return the end of the hour that contains a time."""
    return (ms // HOUR_MS + 1) * HOUR_MS


def new_hours(mark: Mark, valid_ms: int) -> range:
    """Return the begins of the hours to announce, oldest first. Times are in ms since the epoch."""
    last = min(valid_ms // HOUR_MS * HOUR_MS, mark.sure_ms + MOST_HOURS * HOUR_MS)
    return range(mark.sure_ms, last, HOUR_MS)


def hour_text(ms: int) -> str:
    """Return the key of an hour's partition, such as 2026-11-27T18:00:00, in UTC, as Airflow's mappers of time read it."""
    return datetime.fromtimestamp(ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def table_uri(conn_id: str, peer_id: str, table: str) -> str:
    """Return the URI of the asset that stands for a table ("table" or "namespace:table") at a peer's cluster."""
    full = table if ":" in table else f"default:{table}"
    return f"hbase://{quote(peer_id, safe='')}.{quote(conn_id, safe='')}/{quote(full, safe=':')}"


def valid_peers(source: SourceCluster) -> dict[str, int]:
    """Return the managed peers, and up to when each one's cluster has all edits, in ms since the epoch.

    Peers are left out of which that is not known, or whose initial snapshot is not complete. Raises WalferryError.
    """
    status = Statuses(FILES_SECONDS, 0.0).of(source)
    if status.unreachable is not None or status.peers is None:
        why = status.unreachable or next(iter(status.problems), "the peers cannot be read")
        raise NothingValid(f"which hours are complete is not known: {why}", "`walferry check` says more")
    found = {peer.id: peer.valid_through_ms for peer in status.peers if peer.managed}
    with open_session(source, look_only=True) as session:
        return {peer_id: ms for peer_id, ms in found.items() if ms is not None and _is_copied(session, peer_id)}


def _is_copied(session: Session, peer_id: str) -> bool:
    try:
        copying = under_way(session, peer_id)
    except WalferryError as error:  # the peer is gone, or its record makes no sense
        log.warning("peer %s is left out: %s", peer_id, error)
        return False
    if copying is not None:
        log.info("%s", copying)
    return copying is None


def tables_of(source: SourceCluster, peer_ids: Collection[str]) -> dict[str, list[str]]:
    """Return the tables that each of these peers gets now, by the source's Master. Raises WalferryError."""
    with open_session(source, look_only=True) as session:
        peers = [peer for peer in read_peers(session).peers if peer.id in peer_ids]
        with master.connect(active_master(session.zk, session.nodes), login=source.login) as connection:
            replicated = master.families_in_wals(connection)
    return {peer.id: _wanted(PeerTables.of_peer(peer), replicated) for peer in peers}


def _wanted(choice: PeerTables, replicated: Mapping[str, Collection[bytes]]) -> list[str]:
    return [
        table
        for table, families in sorted(replicated.items())
        if any(choice.wants(table.encode(), family) for family in families)
    ]
