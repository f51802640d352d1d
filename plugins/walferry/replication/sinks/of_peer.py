"""Chooses the sink that a peer needs. Only this module knows which kinds of sinks there are.

Sinks need numpy and numba. They are imported when a sink is opened, because drivers and Airflow's tasks import this module too.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import UUID

from walferry.base.errors import WalferryError
from walferry.base.texts import visible
from walferry.base.zk.right import Right
from walferry.hbase.errors import NoPeerCluster
from walferry.hbase.names import TABLE, WalName
from walferry.replication.peers.reading import Peer
from walferry.replication.peers.settings import PeerSettings, SinkHooks, SinkKind
from walferry.replication.sinks.errors import OnlyCells
from walferry.replication.sinks.hbase import reachable
from walferry.replication.sinks.hbase.hooks import Hooks, hooks_of_peer
from walferry.replication.source.cluster import SourceCluster, SourceError, VisibilityLabels

if TYPE_CHECKING:
    from walferry.hbase.wal.wal_batches import WalBatch
    from walferry.replication.filters.entry_filter import KeptEdits
    from walferry.replication.filters.rules import FilterRules
    from walferry.replication.sinks.hbase.bulk_loads import HFileRefs
    from walferry.replication.sinks.sink import Sink

__all__ = ["bulk_loads_in", "check_only_cells", "hooks_of_peer", "open_sink", "shipping_settings", "why_down"]

REACHABLE_SECONDS = 10.0
MAX_SHOWN_CHARS = 200
A_BULK_LOAD = (
    "it is a bulk load, whose cells are in HFiles and not in the WAL; skip_bulk_loads in the source's connection leaves such out"
)
LABELLED = (
    "it has visibility labels, which nobody there heeds; with visibility_labels = ship in the source's connection it goes there "
    "as it is"
)

log = logging.getLogger(__name__)


def shipping_settings(peer: Peer, source: SourceCluster, sink: SinkKind | None = None, *, look: bool = True) -> PeerSettings:
    """Return how the peer is shipped, by a run that asks for `sink` or for no particular one. Raises PeerError.

    If the peer cluster has classes that see only replicated edits, `auto` becomes `replicate`. With `look` their names are looked
    for there, once a call, if the peer's settings do not say whether there are any. An unreadable peer cluster counts as one
    without them.
    """
    settings = PeerSettings.of(source.replication, peer).chosen(sink)
    if not peer.in_hbase:
        return settings.chosen(SinkKind.DIRECT)  # no files are made for it
    if settings.sink is not SinkKind.AUTO or settings.sink_hooks is SinkHooks.NONE:
        return settings
    if settings.sink_hooks is SinkHooks.PRESENT:
        return settings.chosen(SinkKind.REPLICATE)
    hooks = hooks_of_peer(peer, source) if look else Hooks()
    if hooks.names:
        log.warning("peer %s: all edits go by replicate, as the peer cluster has %s", peer.id, hooks)
        return settings.chosen(SinkKind.REPLICATE)
    if hooks.unknown:
        log.warning("peer %s: whether the peer cluster has classes for replicated edits is not known: %s", peer.id, hooks.unknown)
    return settings


def open_sink(
    peer: Peer, source: SourceCluster, settings: PeerSettings, deadline: float, *, source_id: UUID, group: str | None,
    stop: threading.Event, right: Right, lease: HFileRefs | None, kept_hfiles: Callable[[Sequence[str]], Sequence[str]],
    on_missing_hfiles: Callable[[int], None], on_failure: Callable[[], None], queued: Collection[WalName] = (),
) -> Sink:  # fmt: skip
    """Return the sink of a peer, not yet entered. `deadline` is on time.monotonic; `stop`, once set, ends all waiting in the
    sink. `right` is asked before each request to the peer cluster.

    `group` is the WAL group whose position the target may keep, and `queued` are its WALs; without it, as in a replay, none is
    kept. `source_id` is the source's cluster id.

    `lease` is the lease on the group's queue, for a sink's writes at the source. Without a lease nothing is written there:
    references to HFiles belong to the queues, and stay as they are. `kept_hfiles` returns the places of the references that are
    still there to HFiles of these names. `on_missing_hfiles` is called with the number of files that were gone and not needed,
    and `on_failure` after each failed try to reach the peer cluster's ZooKeeper.
    """
    if peer.lake:
        raise NoPeerCluster(peer.id, peer.target)
    if peer.kafka:
        from walferry.replication.sinks.kafka.sink import KafkaSink

        def check(batch: WalBatch, kept: KeptEdits, rules: FilterRules, path: str) -> None:
            let_go, _ = check_only_cells(batch, kept, rules, source, path)
            if let_go and lease is not None:
                lease.remove_hfile_refs(let_go)

        return KafkaSink(
            peer, source, settings, deadline, source_id=source_id, group=group, queued=queued, check=check, stop=stop,
            right=right, on_failure=on_failure,
        )  # fmt: skip
    from walferry.replication.sinks.hbase.bulk_loads import HFileSender, HFileSource
    from walferry.replication.sinks.hbase.sink import HBaseSink

    hfiles = HFileSender(kept_hfiles, lease, HFileSource.of(source), on_missing_hfiles, settings.call_timeout_seconds)
    return HBaseSink(
        peer, settings, deadline, source=source, hfiles=hfiles, login=source.login_to(peer), stop=stop, on_failure=on_failure,
        right=right,
    )  # fmt: skip


def why_down(peer: Peer, source: SourceCluster, timeout_seconds: float = REACHABLE_SECONDS) -> str | None:
    """Return why the cluster of `peer` cannot be shipped to, in one line; None if no obstacle is known.

    Takes at most about `timeout_seconds`. Never raises because of the peer cluster, its ZooKeeper or the peer's cluster key. Of
    a lake only the job finds out.
    """
    if peer.lake:
        return None
    if peer.kafka:
        return _why_kafka_is_down(peer, source, timeout_seconds)
    try:
        login = source.login_to(peer)
    except SourceError as error:
        return str(error)
    return reachable.why_down(peer, login=login, timeout_seconds=timeout_seconds)


def _why_kafka_is_down(peer: Peer, source: SourceCluster, timeout_seconds: float) -> str | None:
    from walferry.replication.sinks.kafka.clients import KafkaFailed, answers

    try:
        answers(peer, source, timeout_seconds)
    except KafkaFailed as error:
        return str(error)
    except WalferryError as error:
        log.info("peer %s: %s", peer.id, error)  # some of its edits may arrive, or its client is not installed here
    return None


def bulk_loads_in(
    batch: WalBatch, kept: KeptEdits, rules: FilterRules, source: SourceCluster, path: str
) -> tuple[list[int], list[str]]:
    """Return the WAL batch's entries with bulk loads that the peer gets, and the files of its other bulk loads, to which
    references may be left. Notes the fate of the others in `kept`.

    Raises WalCorruptError or BulkLoadRefused, naming `path`, at the first entry that cannot be shipped.
    """
    from walferry.replication.sinks.hbase.bulk_loads import take_bulk_loads

    found = take_bulk_loads(batch, kept, rules, source, path)
    let_go = [name for each in found.values() if not each.entry_count and each.bulk_load for name in each.bulk_load.names]
    return sorted(entry for entry, each in found.items() if each.entry_count), let_go


def check_only_cells(
    batch: WalBatch, kept: KeptEdits, rules: FilterRules, source: SourceCluster, path: str
) -> tuple[list[str], dict[str, int]]:
    """Check a WAL batch for a target that takes cells. Returns the files of bulk loads that the peer does not get, to which
    references may be left, and the tables of the cells that the filters kept, with the first entry of each one.

    Notes the fate of these bulk loads in `kept`. Raises OnlyCells, WalCorruptError or BulkLoadRefused, naming `path`, at the
    first entry that cannot be shipped.
    """
    from walferry.replication.sinks.changes import tables_in
    from walferry.replication.sinks.hbase.bulk_loads import BulkLoadRefused

    # Where other peers of the source get bulk loads, skip_bulk_loads holds for these targets alone.
    try:
        if source.replication_cluster_id is not None:
            source = replace(source, replication_cluster_id=None)
        bulk_loads, let_go = bulk_loads_in(batch, kept, rules, source, path)
    except BulkLoadRefused as error:
        raise OnlyCells(path, error.offset, A_BULK_LOAD) from error
    for entry in bulk_loads:
        raise OnlyCells(path, batch.entry_offset(entry), A_BULK_LOAD)
    if source.visibility_labels != VisibilityLabels.SHIP:
        for labelled in kept.labelled.nonzero()[0]:
            raise OnlyCells(path, batch.entry_offset(int(labelled)), LABELLED)
    tables = tables_in(batch, kept, path)
    for name, entry in sorted(tables.items(), key=lambda pair: pair[1]):
        if not TABLE.fullmatch(name):
            raise OnlyCells(path, batch.entry_offset(entry), f"{visible(name, MAX_SHOWN_CHARS)} is not the name of a table")
    return let_go, tables


def target_answers(peer: Peer, source: SourceCluster) -> str:
    """Return that the brokers of a peer of Kafka answer, and have the topics that its rules name. Raises WalferryError."""
    from walferry.replication.sinks.kafka.clients import answers

    return answers(peer, source)
