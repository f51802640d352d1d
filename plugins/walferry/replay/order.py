"""Keeps the order of regions that were at several servers within an interval.

The WAL groups of an interval are shipped side by side, and the files of a group one after the other. So a region's edits keep
their order unless the region changed its server. In that case HBase's own replication, unless it is serial, leaves the order to
the cells' timestamps. A replay can do better: all of the interval is there, and sequence ids show the order, because HBase gives
a region that it opens higher ids than the region had before. So a region that was at several servers is shipped in stages, one
for each time at a server. A stage begins when the one before it has been acknowledged. Most regions need only the first one.

Regions that are split or merged go on under other names. As in HBase, their order is left to the cells' timestamps.
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from walferry.base.errors import WalferryError
from walferry.hbase.wal.wal_batches import WalBatch
from walferry.replay.scan import Stay, region_key

MAX_STAGES = 1000  # each stage takes a Spark job, and all groups wait for it


class TooManyStages(WalferryError):
    """A region moved to and fro so often that its order would take very many stages."""

    retry_helps = False

    def __init__(self, stages: int) -> None:
        super().__init__(
            f"a region was at other servers {stages:,} times in the interval, and at most {MAX_STAGES:,} stages are shipped one "
            "after the other. Nothing was shipped",
            "Ship shorter intervals, one after the other",
        )


@dataclass(frozen=True)
class Stages:
    """The stages in which a group's edits are shipped. All edits of regions that are not in `regions` are in stage 0.

    A region has (firsts, stages): its edits from the sequence id `firsts[i]` on are shipped in the stage `stages[i]`.
    """

    regions: Mapping[bytes, tuple[tuple[int, ...], tuple[int, ...]]] = field(default_factory=dict)

    @property
    def needed(self) -> frozenset[int]:
        """The stages in which the group surely has edits to ship."""
        return frozenset(stage for _, stages in self.regions.values() for stage in stages)

    def digest(self, wals: str) -> str:
        """Return a short text that differs for other stages; empty if all edits are in stage 0.

        It also differs for other `wals`: the `digest_of_names` of all groups' WALs with edits of regions that have several
        stages. If such a WAL is found late, the stages after its own stage must follow it again.
        """
        what = sorted(self.regions.items()), wals
        return hashlib.sha256(repr(what).encode()).hexdigest()[:16] if self.regions else ""

    def entries_of(self, batch: WalBatch, stage: int) -> npt.NDArray[np.bool_]:
        """Return for each entry of a WAL batch whether it is shipped in this stage."""
        hashes = batch.index.region_hash
        chosen = np.full(len(hashes), stage == 0)
        if not self.regions:
            return chosen
        for region in np.unique(hashes).tolist():
            if (known := self.regions.get(region_key(region))) is not None:
                mine = hashes == region
                place = np.searchsorted(known[0], batch.index.sequence_id[mine], side="right") - 1
                chosen[mine] = np.array(known[1])[np.maximum(place, 0)] == stage
        return chosen


def digest_of_names(names: Iterable[str]) -> str:
    """Return a short text that differs for other names, and for another order of them."""
    digest = hashlib.sha256()
    for name in names:
        digest.update(f"{name}\n".encode())
    return digest.hexdigest()


def stages_of(stays: Iterable[tuple[str, Stay]]) -> dict[str, Stages]:
    """Return the stages of the groups that share a region with another group, from all groups' stays. Raises TooManyStages."""
    of_region: dict[bytes, list[tuple[int, int, str]]] = {}
    for group, stay in stays:
        of_region.setdefault(stay.region, []).append((stay.first, stay.last, group))
    found: dict[str, dict[bytes, tuple[tuple[int, ...], tuple[int, ...]]]] = {}
    for region, of_groups in of_region.items():
        if len({group for _, _, group in of_groups}) > 1:
            for group, parts in _in_order(of_groups).items():
                found.setdefault(group, {})[region] = parts
    last = max((stages[-1] for regions in found.values() for _, stages in regions.values()), default=0)
    if last >= MAX_STAGES:
        raise TooManyStages(last + 1)
    return {group: Stages(regions) for group, regions in found.items()}


def _in_order(stays: list[tuple[int, int, str]]) -> dict[str, tuple[tuple[int, ...], tuple[int, ...]]]:
    """Return the first sequence ids and the stages of each group's parts of one region.

    If a stay goes on after another group's stay has begun, it is really two stays: they were read as one because no entry between
    them showed that the region was away.
    """
    heap = list(stays)
    heapq.heapify(heap)
    runs: list[tuple[int, int, str]] = []
    while heap:
        first, last, group = heapq.heappop(heap)
        if not runs:
            runs.append((first, last, group))
            continue
        if runs[-1][2] == group:
            runs[-1] = (runs[-1][0], max(runs[-1][1], last), group)
            continue
        before_first, before_last, before = runs[-1]
        if before_last > last:
            heapq.heappush(heap, (last + 1, before_last, before))
        runs[-1] = (before_first, min(before_last, first - 1), before)
        runs.append((first, last, group))
    parts: dict[str, list[tuple[int, int]]] = {}
    for stage, (first, _, group) in enumerate(runs):
        parts.setdefault(group, []).append((first, stage))
    return {
        group: (tuple(first for first, _ in of_group), tuple(stage for _, stage in of_group)) for group, of_group in parts.items()
    }
