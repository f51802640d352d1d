"""The data that all Spark tasks of a run share, and the rules for a peer's edits of an interval."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import partial
from uuid import UUID

from walferry.base.errors import WalferryError
from walferry.base.zk.right import Right
from walferry.hbase.cluster import cluster_id
from walferry.hbase.errors import PeerError
from walferry.hbase.wal.wal_batches import UnwrapKey
from walferry.replay.interval import Interval
from walferry.replay.store import StoreWithArchive
from walferry.replication.filters.rules import Families, FilterRules, PeerTables
from walferry.replication.peers.reading import Peer
from walferry.replication.queues.reading import kept_hfiles
from walferry.replication.sinks.of_peer import open_sink
from walferry.replication.source.session import Session
from walferry.shipping.attempt import check_not_stopped
from walferry.shipping.group_job import ShippingJob


@dataclass(frozen=True, kw_only=True)
class ReplayJob(ShippingJob):
    """One interval to ship again to one peer."""

    interval: Interval
    tables: frozenset[str] = frozenset()  # empty: all tables that the peer gets
    what_is_there: bool = False  # ship the rest of an interval that is partly gone
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


def narrowed(rules: FilterRules, tables: Collection[str]) -> FilterRules:
    """Return the rules for what the peer gets of `tables`; as they are if there are none."""
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


def peer_cluster_id_of(session: Session, peer: Peer, job: ReplayJob) -> UUID:
    """Return the cluster id of the peer cluster, which the filters need. Raises PeerClusterUnreachable, WalferryError."""
    deadline = time.monotonic() + job.deadline - time.time()
    # This sink sends nothing.
    with open_sink(
        peer, session.source, job.settings, deadline, source_id=cluster_id(session.zk, session.nodes), group=None,
        stop=threading.Event(), right=Right(), lease=None,
        kept_hfiles=partial(kept_hfiles, session, peer.id),
        on_missing_hfiles=lambda count: None, on_failure=partial(check_not_stopped, session, job.peer_id),
    ) as sink:  # fmt: skip
        return sink.id
