"""Chooses the sink that a peer needs. Only this module knows which kinds of sinks there are.

Sinks need numpy and numba. They are imported when a sink is opened, because drivers and Airflow's tasks import this module too.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from walferry.base.zk.right import Right
from walferry.hbase.errors import LakePeer
from walferry.replication.peers.reading import Peer
from walferry.replication.peers.settings import PeerSettings, SinkHooks, SinkKind
from walferry.replication.sinks.hbase import reachable
from walferry.replication.sinks.hbase.hooks import Hooks, hooks_of_peer
from walferry.replication.source.cluster import SourceCluster, SourceError

if TYPE_CHECKING:
    from walferry.hbase.wal.wal_batches import WalBatch
    from walferry.replication.filters.entry_filter import KeptEdits
    from walferry.replication.filters.rules import FilterRules
    from walferry.replication.sinks.hbase.bulk_loads import HFileRefs
    from walferry.replication.sinks.sink import Sink

__all__ = ["bulk_loads_in", "hooks_of_peer", "open_sink", "shipping_settings", "why_down"]

REACHABLE_SECONDS = 10.0

log = logging.getLogger(__name__)


def shipping_settings(peer: Peer, source: SourceCluster, sink: SinkKind | None = None, *, look: bool = True) -> PeerSettings:
    """Return how the peer is shipped, by a run that asks for `sink` or for no particular one. Raises PeerError.

    If the peer cluster has classes that see only replicated edits, `auto` becomes `replicate`. With `look` their names are looked
    for there, once a call, if the peer's settings do not say whether there are any. An unreadable peer cluster counts as one
    without them.
    """
    settings = PeerSettings.of(source.replication, peer).chosen(sink)
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
    peer: Peer, source: SourceCluster, settings: PeerSettings, deadline: float, *, stop: threading.Event,
    right: Right, lease: HFileRefs | None, kept_hfiles: Callable[[Sequence[str]], Sequence[str]],
    on_missing_hfiles: Callable[[int], None], on_failure: Callable[[], None],
) -> Sink:  # fmt: skip
    """Return the sink of a peer, not yet entered. `deadline` is on time.monotonic; `stop`, once set, ends all waiting in the
    sink. `right` is asked before each request to the peer cluster.

    `lease` is the lease on the group's queue, for a sink's writes at the source. Without a lease nothing is written there:
    references to HFiles belong to the queues, and stay as they are. `kept_hfiles` returns the places of the references that are
    still there to HFiles of these names. `on_missing_hfiles` is called with the number of files that were gone and not needed,
    and `on_failure` after each failed try to reach the peer cluster's ZooKeeper.
    """
    if peer.lake:
        raise LakePeer(peer.id, peer.lake)
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
    try:
        login = source.login_to(peer)
    except SourceError as error:
        return str(error)
    return reachable.why_down(peer, login=login, timeout_seconds=timeout_seconds)


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
