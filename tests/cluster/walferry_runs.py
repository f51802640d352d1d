"""Batches of the library on real clusters, in this process: roll, plan, ship each group."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

from embedded.hbase import ClusterAddress
from walferry.airflow import batch
from walferry.lanes import LaneLimits
from walferry.plan import PeerPlan, plan_peer
from walferry.shipping import GroupJob, ship_group
from walferry.source import SourceCluster
from walferry.storage import WalStore
from walferry.summary import GroupSummary
from walferry.zk.client import connected
from walferry.zk.layout import ZNodes


def source_of(address: ClusterAddress) -> SourceCluster:
    return SourceCluster(quorum=address.quorum, wal_root=address.wal_root, znode_parent=address.znode_parent)


def plan(source: SourceCluster, peer_id: str) -> PeerPlan:
    with connected(source.quorum) as zk:
        return plan_peer(zk, ZNodes(source.znode_parent), WalStore(source.wal_root), peer_id)


def ship(
    source: SourceCluster, peer_id: str, *, roll: bool = True, deadline: float = 120.0, run_id: str = "test",
    limits: LaneLimits | None = None, lanes: int = 2, groups: list[str] | None = None,
) -> list[GroupSummary]:  # fmt: skip
    """One batch of a peer: the summaries of its groups."""
    if roll:
        rolled = batch.roll(source, peer_id)
        assert not rolled.failures
    names = [g.group for g in plan(source, peer_id).groups] if groups is None else groups
    jobs = [
        GroupJob(
            source=source, peer_id=peer_id, group=name, run_id=run_id, holder=f"run {run_id}", deadline=time.time() + deadline,
            lanes=lanes, limits=limits or LaneLimits(),
        )
        for name in names
    ]  # fmt: skip
    with ThreadPoolExecutor(max(1, len(jobs))) as pool:
        return list(pool.map(ship_group, jobs))
