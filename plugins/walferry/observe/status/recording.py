"""Records how the peers stand now, for plots of the last day."""

from __future__ import annotations

import time
from collections.abc import Sequence

from walferry.base.records import NotARecord
from walferry.base.zk.client import read_all
from walferry.observe.status.history import INTERVAL_SECONDS, Sample, read_histories, record_sample, sample_at
from walferry.observe.status.model import PeerStatus, SourceStatus
from walferry.observe.status.notes import checked_summary, newest_runs
from walferry.replication.source.session import Session


def record(session: Session, status: SourceStatus) -> int:
    """Add a sample of this interval to each peer's history, unless it has one. Returns how many were added.

    Raises Contention, ConnectError.
    """
    peers = status.peers or ()
    histories, _ = read_histories(session, [peer.id for peer in peers])
    return sum(_record(session, peer, histories.get(peer.id, ()), status.at_ms / 1000) for peer in peers)


def _record(session: Session, peer: PeerStatus, history: Sequence[Sample], at: float) -> bool:
    interval = int(at) // INTERVAL_SECONDS
    if history and history[-1].interval == interval:
        return False
    before = next((sample.interval for sample in reversed(history) if sample.interval < interval), interval - 1)
    since = time.time() - (interval - before) * INTERVAL_SECONDS
    left = None if peer.bytes_left is None else (peer.bytes_left.known, peer.bytes_left.unsure)
    shipped = shipped_since(session, peer.id, since) if peer.managed else None
    return record_sample(session, peer.id, sample_at(at, peer.replicationLag, left, shipped, peer.wals_left))


def shipped_since(session: Session, peer_id: str, since: float) -> int:
    """About how many bytes of cells the peer's newest runs have shipped since then, in seconds since the epoch.

    A run's note has its sum and for how long it has been at work. So what it has shipped counts as spread evenly over that time.
    """
    runs = newest_runs(session, [peer_id]).get(peer_id, [])
    paths = [f"{run.path}/{name}" for run in runs for name in run.names.values()]
    shipped = 0.0
    for znode in read_all(session.zk, paths):
        if znode is None or znode.stat.mtime <= since * 1000:
            continue
        try:
            summary = checked_summary(znode.value)
        except NotARecord:  # a pass tells of it
            continue
        seconds = max(summary.seconds, 0.001)
        shipped += summary.shippedBytes * min(1.0, (znode.stat.mtime / 1000 - since) / seconds)
    return int(shipped)
