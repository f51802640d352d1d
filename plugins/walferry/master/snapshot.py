"""Takes one look at a cluster, and decides for each of its regions. It changes nothing, and needs no role."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from walferry.base.zk.fenced_lock import is_held, read_record
from walferry.hbase.names import ServerName
from walferry.master.beside_active_master import decide_beside
from walferry.master.catalog import CatalogRead
from walferry.master.decide import Decision, Region, Step
from walferry.master.reconcile import LIMIT_SECONDS, ClusterView
from walferry.master.role import active_hmaster
from walferry.master.role_loop import Cluster, decide_for
from walferry.master.znodes import META_ENCODED_NAME, encoded_name


@dataclass(frozen=True)
class ClusterSnapshot:
    """One look at a cluster, with the decision for each region. `hmaster` is the active HMaster, if there is one."""

    view: ClusterView
    read: CatalogRead
    hmaster: ServerName | None
    master: str
    decided: Sequence[tuple[Region, Decision]]
    limit_seconds: float


def look_and_decide(cluster: Cluster, limit_seconds: float = LIMIT_SECONDS) -> ClusterSnapshot:
    """Look at all regions, and decide as the active master's kind allows. Raises StoreError, ClusterError, ConnectError."""
    hmaster = active_hmaster(cluster.zk, cluster.nodes)
    master = f"HMaster {hmaster}" if hmaster is not None else ""
    if not master and is_held(cluster.zk, cluster.own.master_role):
        master = f"Walferry ({read_record(cluster.zk, cluster.own.master_role).get('holder', 'an unknown run')})"
    view, read = cluster.look()
    decided = decide_for(view, read, limit_seconds)
    if hmaster is not None:
        unread = Decision(Step.WAIT, "hbase:meta cannot be read", hmaster)
        decided = [
            (region, decide_beside(view, region, hmaster, limit_seconds) if read.complete or _is_meta(region) else unread)
            for region, _ in decided
        ]
    return ClusterSnapshot(view, read, hmaster, master, decided, limit_seconds)


def _is_meta(region: Region) -> bool:
    return encoded_name(region.name) == META_ENCODED_NAME
