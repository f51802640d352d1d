"""Balancing: plans moves while no region is in transition, and begins each of them. `reconcile` brings them to their end.

A plan lies in ZooKeeper with the first write of its move, so the next holder of the role goes on with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from walferry.master.closing import begin_to_close
from walferry.master.placement import SLOP, Move, moves
from walferry.master.plans import Plan
from walferry.master.reconcile import ClusterView, PassOutcome, RegionServers
from walferry.master.writes import MasterWrites
from walferry.master.znodes import META_ENCODED_NAME

MAX_MOVES = 100  # a round; a region is offline while it moves


def why_not_balance(view: ClusterView) -> str:
    """Say why no region may be moved for balance now; empty if regions may be moved."""
    if view.unanswered is not None:
        return view.unanswered.why
    if view.servers.recovering:
        return f"the WALs of {min(view.servers.recovering)} are not split yet"
    in_transition = [encoded for encoded, region in view.regions.items() if region.znode is not None]
    if in_transition or view.broken:
        return f"{len(in_transition)} regions are in transition, and {len(view.broken)} cannot be read"
    return ""


def plan_moves(view: ClusterView, locality: Mapping[str, Mapping[str, float]] | None = None, slop: float = SLOP) -> list[Move]:
    """Plan the moves that balance the cluster, MAX_MOVES at most. hbase:meta stays where it is."""
    assigned = {
        encoded: next(iter(region.served_by))
        for encoded, region in view.regions.items()
        if len(region.served_by) == 1 and encoded != META_ENCODED_NAME
    }
    return moves(assigned, view.servers.takers, locality, slop)[:MAX_MOVES]


def begin_moves(view: ClusterView, planned: Iterable[Move], writes: MasterWrites, servers: RegionServers) -> list[PassOutcome]:
    """Begin each move. Raises the role's errors."""
    plans = {move.encoded_name: Plan(move.destination, True, "balance") for move in planned}
    return begin_to_close(view, plans, writes, servers)
