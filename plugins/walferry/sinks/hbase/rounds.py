"""What of a shipment goes out at once: one Multi for each server that has rows of it.

A shipment goes out in rounds. A round takes, for each server, the first actions that are left for its regions. The next round
begins when all answers are there. So what a region is sent keeps its order, wherever the region is by then: while anything is
under way to a region, nothing else of it is.

If an action fails, the later ones of its row in the same request count as failed too, and are sent again behind it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt

from walferry.kernels.read import Ints
from walferry.names import ServerName
from walferry.sinks.hbase.actions import ActionRow, Actions
from walferry.sinks.hbase.locations import NOWHERE, RegionMap
from walferry.sinks.hbase.multi import Multi, MultiResult, Outcome, RegionActions, assemble_multi
from walferry.tables.regions import Region

MAX_ACTIONS = 5000  # HBase warns of more (hbase.rpc.rows.warning.threshold)
MAX_BYTES = 4 << 20  # of cells and cluster ids. From 0.5 to 4 MB make no difference to the slave; 8 MB cost it more

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Places:
    """Where the regions of some actions are."""

    maps: Sequence[RegionMap]  # of the tables, by their numbers
    region: Ints  # of each action, its number in all maps together; NOWHERE if no open region has its row

    @classmethod
    def of(cls, actions: Actions, some: Ints, maps: Sequence[RegionMap]) -> Places:
        """Look up `some` of the actions."""
        region = np.empty(some.size, np.int64)
        tables, parts = actions.of(ActionRow.TABLE)[some], actions.of(ActionRow.PART)[some]
        starts, lengths = actions.of(ActionRow.ROW_START)[some], actions.of(ActionRow.ROW_LEN)[some]
        firsts = np.cumsum([0, *(len(m.regions) for m in maps)])
        for which in _alike(tables * len(actions.cells) + parts):
            table, part = int(tables[which[0]]), int(parts[which[0]])
            found = maps[table].find(actions.cells[part], starts[which], lengths[which])
            region[which] = np.where(found == NOWHERE, NOWHERE, found + firsts[table])
        return cls(maps, region)

    def but(self, gone: Flags) -> Places:
        """The places of the actions that are not `gone`."""
        return Places(self.maps, self.region[~gone])

    def homeless(self) -> Flags:
        """Which actions no server has the region of."""
        without = [number for number, region in self.regions().items() if region.server is None]
        return np.isin(self.region, [NOWHERE, *without])

    def regions(self) -> dict[int, Region]:
        """The regions of the actions, by their numbers."""
        all_regions = [region for m in self.maps for region in m.regions]
        return {int(number): all_regions[int(number)] for number in np.unique(self.region) if number != NOWHERE}


@dataclass(frozen=True)
class Call:
    """A Multi, and the server that it goes to."""

    server: ServerName
    multi: Multi


def calls_of_round(actions: Actions, left: Ints, places: Places, most: int) -> list[Call]:
    """The Multis of a round, of `most` actions each. `left` are the actions that are to be sent, in their order; those without a
    server are left out."""
    regions = places.regions()
    servers: dict[ServerName, list[int]] = {}
    for number, region in regions.items():
        if region.server is not None:
            servers.setdefault(region.server, []).append(number)
    return [
        Call(server, _multi_of(actions, left, places.region, numbers, regions, most))
        for server, numbers in sorted(servers.items())
    ]


def _multi_of(
    actions: Actions, left: Ints, region: Ints, numbers: list[int], regions: dict[int, Region], most: int
) -> Multi:
    here = np.isin(region, numbers)
    count = how_many_fit(actions, left[here], most)
    some, region_of = left[here][:count], region[here][:count]
    groups = [
        RegionActions(regions[int(region_of[which[0]])].name, group)
        for which in _alike(region_of)
        for group in by_cluster_ids(actions, some[which])
    ]
    return assemble_multi(actions, groups)


def _alike(values: Ints) -> list[Ints]:
    """The places of each value, ascending."""
    order = np.argsort(values, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(values[order])) + 1)


def how_many_fit(actions: Actions, some: Ints, most: int) -> int:
    """How many of `some` actions, ascending and at least one, go into one Multi of at most `most`. A row of an entry is never
    cut: one that is larger goes alone."""
    id_sizes = np.array([len(ids) for ids in actions.cluster_ids], np.int64)
    sizes = (actions.of(ActionRow.END) - actions.of(ActionRow.START) + id_sizes[actions.of(ActionRow.IDS)])[some]
    fit = min(int(np.searchsorted(np.cumsum(sizes), MAX_BYTES, side="right")), most)
    if fit >= some.size:
        return int(some.size)
    begins = (actions.of(ActionRow.BEGINS)[some] == 1) | (np.diff(some, prepend=-2) != 1)
    places = np.append(np.flatnonzero(begins), some.size)
    before = places[(places > 0) & (places <= fit)]
    return int(before[-1] if before.size else places[places > 0][0])


def by_cluster_ids(actions: Actions, some: Ints) -> Iterator[Ints]:
    """Actions of one region, in groups with the same cluster ids each.

    If a row is in several groups, the actions keep their order, however many groups that takes. Otherwise nothing tells in which
    order the groups take effect, so there are few: the slave writes its WAL for each.
    """
    ids = actions.of(ActionRow.IDS)[some]
    lists = np.unique(ids)
    if lists.size == 1:
        yield some
        return
    rows = [{actions.key(int(action)) for action in some[ids == one]} for one in lists]
    if len(set.union(*rows)) == sum(map(len, rows)):
        yield from (some[ids == one] for one in lists)
    else:
        yield from np.split(some, np.flatnonzero(np.diff(ids)) + 1)


def done_in(actions: Actions, multi: Multi, result: MultiResult) -> Ints:
    """The actions that were carried out, and that no earlier action of the same row has to be sent again before."""
    done = result.outcome == Outcome.DONE
    if done.all():
        return multi.order
    failed = {actions.key(int(action)) for action in multi.order[~done]}
    first: dict[bytes, int] = {}
    kept = done.copy()
    for place, action in enumerate(multi.order.tolist()):
        key = actions.key(action)
        if key not in failed:
            continue
        if not done[place]:
            first.setdefault(key, place)
        kept[place] = key not in first
    return cast(Ints, multi.order[kept])
