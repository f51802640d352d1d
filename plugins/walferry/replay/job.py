"""The data that all Spark tasks of a run share, and the rules for a peer's edits of an interval."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from functools import partial
from uuid import UUID

from walferry.base.errors import WalferryError
from walferry.base.zk.right import Right
from walferry.hbase.errors import PeerError
from walferry.hbase.wal.windows import UnwrapKey
from walferry.replay.interval import Interval
from walferry.replay.store import StoreWithArchive
from walferry.replication.filters.rules import Families, FilterRules, PeerTables
from walferry.replication.peers.reading import Peer
from walferry.replication.peers.settings import PeerSettings
from walferry.replication.sinks.of_peer import open_sink
from walferry.replication.sinks.sink import Sink
from walferry.replication.source.cluster import SourceCluster
from walferry.replication.source.session import Session
from walferry.shipping.deleted import Deleted
from walferry.shipping.pausing import check_not_paused


@dataclass(frozen=True, kw_only=True)
class ReplayJob:
    """One interval to ship again to one peer."""

    source: SourceCluster
    peer_id: str
    interval: Interval
    run_id: str
    deadline: float  # seconds since the epoch; then reading stops, and retries end
    tables: frozenset[str] = frozenset()  # empty: all tables that the peer gets
    what_is_there: bool = False  # ship the rest of an interval that is partly gone
    senders: int = 2
    settings: PeerSettings = field(default_factory=PeerSettings)
    begun: int = -1  # the version of the run's znode since this try of the run began; -1: any

    @property
    def store(self) -> StoreWithArchive:
        """The cluster's WALs, and the WALs in the archive."""
        return StoreWithArchive(self.source)

    @property
    def keys(self) -> UnwrapKey | None:
        """The function that unwraps the keys of encrypted WALs."""
        return self.source.keys()


class HFilesGone(WalferryError):
    """HFiles of a bulk load are gone: the source keeps them only until the peer has got them."""

    retry_helps = False


@dataclass(frozen=True)
class ChosenTables(PeerTables):
    """The peer's choice of tables, narrowed to some of them."""

    only: frozenset[bytes] = frozenset()

    def families_of(self, table: bytes) -> tuple[Families, frozenset[bytes]]:
        """Return which families of `table` are shipped: the kind of choice, and the families that it names."""
        return super().families_of(table) if table in self.only else (Families.NONE, frozenset())


def rules_of(peer: Peer, source_id: UUID, slave_id: UUID, tables: Collection[str], deleted: Deleted | None = None) -> FilterRules:
    """Return the rules for what the peer gets; only of `tables`, if there are any, and without `deleted`. Raises PeerError."""
    rules = FilterRules.of_peer(peer, source_id, slave_id, deleted)
    if not tables:
        return rules
    chosen = ChosenTables(**vars(rules.tables), only=frozenset(table.encode() for table in tables))
    return replace(rules, tables=chosen)


def check_tables(peer: Peer, tables: Collection[str]) -> None:
    """Raise PeerError for a table that the peer never gets."""
    choice = PeerTables.of_peer(peer)
    for table in sorted(tables):
        if choice.families_of(table.encode())[0] in (Families.NONE, Families.SYSTEM):
            raise PeerError(peer.id, f"its configuration leaves out table {table}", "Correct the tables of the run, or the peer")


def slave_id_of(session: Session, peer: Peer, job: ReplayJob) -> UUID:
    """Return the cluster id of the peer's slave, which the filters need. Raises SlaveUnreachable, WalferryError."""
    on_failure = partial(check_not_paused, session, job.peer_id)
    # This sink sends nothing.
    with sink_of(session, peer, job, threading.Event(), Right(), lambda count: None, on_failure) as sink:
        return sink.id


def sink_of(
    session: Session, peer: Peer, job: ReplayJob, stop: threading.Event, right: Right, on_missing_hfiles: Callable[[int], None],
    on_failure: Callable[[], None],
) -> Sink:  # fmt: skip
    """Return the peer's sink, not yet entered. `on_failure` is called as long as the slave is not reached."""
    deadline = time.monotonic() + job.deadline - time.time()
    return open_sink(
        peer, session, job.settings, deadline, stop=stop, right=right, lease=None, on_missing_hfiles=on_missing_hfiles,
        on_failure=on_failure,
    )  # fmt: skip
