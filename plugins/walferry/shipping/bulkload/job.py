"""Describes a load, for all its tasks."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from walferry.hbase.files.quarantine import BrokenWals
from walferry.hbase.hfiles.stores import Store, TargetTable
from walferry.hbase.tables.regions import Region
from walferry.load.earlier_loads import NOTHING_LOADED, LoadedBefore
from walferry.replication.filters.rules import FilterRules
from walferry.replication.source.cluster import SourceCluster
from walferry.shipping.bulkload.targets import Targets


@dataclass(frozen=True)
class PlannedRegion:
    """A region of the peer cluster as it was when the job began."""

    table: bytes
    region: Region


@dataclass(frozen=True, kw_only=True)
class LoadJob:
    """One load of a peer's WALs: the source cluster, the edits, and the regions that they go to."""

    source: SourceCluster
    peer_id: str
    record: str  # the znode of the load's record: see load/records.py
    peer_state: tuple[str, int]  # a znode and its version: if it changes, the peer was enabled, and loading must stop
    rules: FilterRules
    before: LoadedBefore = field(default=NOTHING_LOADED, hash=False)  # initial snapshots, which contain the edits of older WALs
    targets: Targets = field(hash=False)
    broken_wals: BrokenWals = BrokenWals.STOP
    partitions: int  # the regions are dealt out to them like cards
    deadline: float  # seconds since the epoch; reading stops then, and no load begins

    @cached_property
    def tables(self) -> dict[bytes, TargetTable]:
        """The tables, in the form that sorting needs."""
        return {
            name: TargetTable(tuple(target.families), tuple(region.start for region in target.regions))
            for name, target in self.targets.tables.items()
        }

    @cached_property
    def regions(self) -> list[PlannedRegion]:
        """The regions of all tables, by number."""
        return [PlannedRegion(name, region) for name, target in self.targets.tables.items() for region in target.regions]

    @cached_property
    def number_of(self) -> dict[tuple[bytes, bytes], int]:
        """The number of each region, by its table and first row."""
        return {(each.table, each.region.start): number for number, each in enumerate(self.regions)}

    def place_of(self, store: Store) -> tuple[int, int]:
        """Return the numbers of a store's region, and of its family in the table."""
        families = self.tables[store.table].families
        return self.number_of[store.table, store.region_start], families.index(store.family)
