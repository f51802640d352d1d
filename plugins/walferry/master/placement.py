"""The balancer: places regions on servers, by the number of regions and the locations of their blocks.

A region goes back to its last host and port, as long as that server gets no more than its share; otherwise to the server whose
host holds most of its blocks, and otherwise to the server with the fewest regions. So a restart keeps regions near their files.

Moves are planned while no region is in transition, and `reconcile` finishes them. The first write of a move also stores its plan
in ZooKeeper, so the next holder of the role goes on with the plan.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from walferry.hbase.names import ServerName
from walferry.master.calls import CalledServers
from walferry.master.plans import Plan
from walferry.master.reconcile import ClusterView, PassOutcome, begin_to_close
from walferry.master.writes import MasterWrites
from walferry.master.znodes import META_ENCODED_NAME

SLOP = 0.2  # how far a server's regions may lie from the mean before the balancer moves any (hbase.regions.slop)
MAX_MOVES = 100  # a round; a region is offline while it moves


@dataclass(frozen=True)
class Placeable:
    """A region to be placed. `locality` is the part of its blocks that each host holds, from 0 to 1."""

    encoded_name: str
    last_server: ServerName | None
    locality: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Move:
    """A region's move from one server to another."""

    encoded_name: str
    source: ServerName
    destination: ServerName


def spread(regions: Sequence[Placeable], servers: Iterable[ServerName], load: Mapping[ServerName, int]) -> dict[str, ServerName]:
    """Choose a server for each region. `load` counts the servers' present regions; a missing server has none.

    Raises ValueError without servers.
    """
    counts = {server: load.get(server, 0) for server in sorted(servers)}
    if not counts:
        raise ValueError("there is no server to place regions on")
    share = math.ceil((sum(counts.values()) + len(regions)) / len(counts))
    by_address = {(server.host, server.port): server for server in counts}
    placed: dict[str, ServerName] = {}

    def place(region: Placeable, server: ServerName | None) -> bool:
        if server is None or counts[server] >= share:
            return False
        placed[region.encoded_name] = server
        counts[server] += 1
        return True

    rest = [region for region in regions if not place(region, _again(region, by_address))]
    rest = [region for region in rest if not any(place(region, server) for server in _by_locality(region, counts))]
    fewest = [(count, server) for server, count in counts.items()]
    heapq.heapify(fewest)
    for region in rest:
        count, server = fewest[0]
        placed[region.encoded_name] = server
        heapq.heapreplace(fewest, (count + 1, server))
    return placed


def moves(
    assigned: Mapping[str, ServerName],
    servers: Iterable[ServerName],
    locality: Mapping[str, Mapping[str, float]] | None = None,
    slop: float = SLOP,
) -> list[Move]:
    """Plan the moves that bring all servers to the rounded mean; none if no server is further from it than `slop` allows.

    `assigned` is by encoded name, `locality` by encoded name and host, from 0 to 1. From a server with too many regions, the
    regions of which its host holds the smallest part go first.
    """
    regions: dict[ServerName, list[str]] = {server: [] for server in sorted(servers)}
    for encoded, server in sorted(assigned.items()):
        if server in regions:
            regions[server].append(encoded)
    if len(regions) < 2:
        return []
    mean = sum(map(len, regions.values())) / len(regions)
    low, high = math.floor(mean), math.ceil(mean)
    if all(math.floor(mean * (1 - slop)) <= len(each) <= math.ceil(mean * (1 + slop)) for each in regions.values()):
        return []
    blocks = locality or {}
    surplus = [
        (encoded, server)
        for server, each in regions.items()
        for encoded in sorted(each, key=lambda name: blocks.get(name, {}).get(server.host, 0.0))[: max(0, len(each) - high)]
    ]
    needs = [server for server, each in regions.items() for _ in range(max(0, low - len(each)))]
    planned = []
    for encoded, source in surplus:
        takers = needs or [server for server, each in regions.items() if len(each) < high]
        if not takers:
            break
        destination = max(takers, key=lambda server: blocks.get(encoded, {}).get(server.host, 0.0))
        if destination in needs:
            needs.remove(destination)
        regions[source].remove(encoded)
        regions[destination].append(encoded)
        planned.append(Move(encoded, source, destination))
    return [*planned, *_fill(regions, needs, high)]


def why_not_balance(view: ClusterView, *, complete: bool) -> str:
    """Say why no region may be moved for balance now; empty if regions may be moved. `complete`: hbase:meta could be read."""
    if not complete:
        return "hbase:meta cannot be read"
    if view.unanswered is not None:
        return view.unanswered.why
    if view.servers.recovering:
        return f"the WALs of {min(view.servers.recovering)} are not split yet"
    in_transition = [encoded for encoded, region in view.regions.items() if region.znode is not None]
    if in_transition or view.broken:
        return f"{len(in_transition)} regions are in transition, and {len(view.broken)} cannot be read"
    return ""


def plan_moves(view: ClusterView, locality: Mapping[str, Mapping[str, float]] | None = None) -> list[Move]:
    """Plan the moves that balance the cluster, at most MAX_MOVES. hbase:meta stays where it is."""
    assigned = {
        encoded: next(iter(region.served_by))
        for encoded, region in view.regions.items()
        if len(region.served_by) == 1 and encoded != META_ENCODED_NAME
    }
    return moves(assigned, view.servers.takers, locality)[:MAX_MOVES]


def begin_moves(view: ClusterView, planned: Iterable[Move], writes: MasterWrites, servers: CalledServers) -> list[PassOutcome]:
    """Begin each move. Raises the role's errors."""
    plans = {move.encoded_name: Plan(move.destination, True, "balance") for move in planned}
    return begin_to_close(view, plans, writes, servers)


def _fill(regions: dict[ServerName, list[str]], needs: list[ServerName], high: int) -> list[Move]:
    """Move single regions from servers with the larger share to servers that still lack a region."""
    planned = []
    for destination in needs:
        source = max(regions, key=lambda server: (len(regions[server]), server))
        if len(regions[source]) < high or source == destination:
            break
        encoded = regions[source].pop()
        regions[destination].append(encoded)
        planned.append(Move(encoded, source, destination))
    return planned


def _again(region: Placeable, by_address: Mapping[tuple[str, int], ServerName]) -> ServerName | None:
    last = region.last_server
    return None if last is None else by_address.get((last.host, last.port))


def _by_locality(region: Placeable, servers: Iterable[ServerName]) -> list[ServerName]:
    """Return the servers whose hosts hold blocks of the region, the largest part first."""
    holding = [server for server in servers if region.locality.get(server.host, 0.0) > 0]
    return sorted(holding, key=lambda server: -region.locality[server.host])
