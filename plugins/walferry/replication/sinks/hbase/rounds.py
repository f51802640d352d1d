"""Chooses the actions of a shipment that go out in a round: for each server, one Multi, or several that may go side by side.

A shipment goes out in rounds. A round takes, for each server, the remaining actions for its regions. If one Multi cannot carry
them, a hash of the row decides which Multi carries an action, so all actions of a row are in the same Multi. Actions without room
in it wait for the next round, which begins when all answers have arrived. So the actions of a row keep their order, even if its
region moves: while one request with actions of a row is under way, no other is. Actions of different rows need no order.

If an action fails, the later actions of its row in the same request count as failed too, and are sent again after it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from walferry.base.kernels.types import Flags, Ints
from walferry.hbase.names import ServerName
from walferry.hbase.tables.regions import Region
from walferry.replication.sinks.hbase.actions import ActionRow, Actions, in_row_order
from walferry.replication.sinks.hbase.locations import NOWHERE, RegionMap
from walferry.replication.sinks.hbase.multi import ActionOutcome, Multi, MultiResult, RegionActions

MAX_ACTIONS = 5000  # HBase warns of more (hbase.rpc.rows.warning.threshold)
MAX_BYTES = 4 << 20  # of cells and cluster ids. Sizes from 0.5 to 4 MB make no difference to the peer cluster; 8 MB cost it more
_FULL = 0.9  # how full the Multis that go side by side are planned: a hash never gives each of them exactly the same share


@dataclass(frozen=True)
class Places:
    """The places of the regions of some actions."""

    maps: Sequence[RegionMap]  # the tables' maps, by the tables' numbers
    region: Ints  # each action's region, by its number in all maps together; NOWHERE if no open region contains the row

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
        """Return the places of the actions that are not `gone`."""
        return Places(self.maps, self.region[~gone])

    def homeless(self) -> Flags:
        """Flag the actions whose region is at no server."""
        without = [number for number, region in self.regions().items() if region.server is None]
        return np.isin(self.region, [NOWHERE, *without])

    def regions(self) -> dict[int, Region]:
        """Return the regions of the actions, by the regions' numbers."""
        all_regions = [region for m in self.maps for region in m.regions]
        return {int(number): all_regions[int(number)] for number in np.unique(self.region) if number != NOWHERE}


@dataclass(frozen=True)
class Most:
    """The limits of a Multi. Only a single row of an entry may exceed them."""

    actions: int
    bytes: int


@dataclass(frozen=True)
class Call:
    """The contents of a Multi, and the server that it goes to."""

    server: ServerName
    groups: Sequence[RegionActions]

    @property
    def actions(self) -> Ints:
        """The actions of all groups."""
        return np.concatenate([group.actions for group in self.groups])


def calls_of_round(actions: Actions, left: Ints, places: Places, most: Most) -> list[Call]:
    """Return the calls of a round. `left` lists the actions to send, in their order; actions without a server are left out.

    No row is in two of the calls, so they may be made side by side.
    """
    regions = places.regions()
    servers: dict[ServerName, list[int]] = {}
    for number, region in regions.items():
        if region.server is not None:
            servers.setdefault(region.server, []).append(number)
    calls = []
    for server, numbers in sorted(servers.items()):
        here = np.isin(places.region, numbers)
        those, region_of = left[here], places.region[here]
        for some in side_by_side(actions, those, most):
            calls.append(Call(server, _groups(actions, some, region_of[np.searchsorted(those, some)], regions)))
    return calls


def side_by_side(actions: Actions, some: Ints, most: Most) -> Iterator[Ints]:
    """Yield parts of `some` actions (ascending, at least one), each of which fits into a Multi. A row's actions go into one part,
    which may contain only the first of them.
    """
    sizes = _sizes(actions, some)
    count = 1
    if some.size > most.actions or int(sizes.sum()) > most.bytes:
        count = 1 + int(max(some.size / most.actions, int(sizes.sum()) / most.bytes) / _FULL)
    for which in _alike(actions.of(ActionRow.ROW_HASH)[some] % count):
        part = some[which]
        yield part[: how_many_fit(actions, part, most)]


def _groups(actions: Actions, some: Ints, region_of: Ints, regions: dict[int, Region]) -> list[RegionActions]:
    return [
        RegionActions(regions[int(region_of[which[0]])].name, in_row_order(actions, group))
        for which in _alike(region_of)
        for group in by_cluster_ids(actions, some[which])
    ]


def _alike(values: Ints) -> list[Ints]:
    """Return the positions of each distinct value, ascending."""
    order = np.argsort(values, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(values[order])) + 1)


def how_many_fit(actions: Actions, some: Ints, most: Most) -> int:
    """Return how many of `some` actions (ascending, at least one) fit into one Multi. A row of an entry is never cut: a row that
    is too large goes alone.
    """
    fit = min(int(np.searchsorted(np.cumsum(_sizes(actions, some)), most.bytes, side="right")), most.actions)
    if fit >= some.size:
        return int(some.size)
    begins = (actions.of(ActionRow.BEGINS)[some] == 1) | (np.diff(some, prepend=-2) != 1)
    places = np.append(np.flatnonzero(begins), some.size)
    before = places[(places > 0) & (places <= fit)]
    return int(before[-1] if before.size else places[places > 0][0])


def _sizes(actions: Actions, some: Ints) -> Ints:
    """Return the bytes of the cells and cluster ids of `some` actions."""
    ids = np.array([len(ids) for ids in actions.cluster_ids], np.int64)
    ends, starts = actions.of(ActionRow.END)[some], actions.of(ActionRow.START)[some]
    return cast(Ints, ends - starts + ids[actions.of(ActionRow.IDS)[some]])


def by_cluster_ids(actions: Actions, some: Ints) -> Iterator[Ints]:
    """Yield actions of one region, in groups with the same cluster ids each.

    If a row is in several groups, the actions keep their order, however many groups that takes. Otherwise the groups may take
    effect in any order, so there are few groups: the peer cluster writes to its WAL for each group.
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
    """Return the actions that were carried out, without those that follow a failed action of the same row."""
    done = result.outcome == ActionOutcome.DONE
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
