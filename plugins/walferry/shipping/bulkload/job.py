"""What all tasks of a load are given."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from walferry.hbase.files.quarantine import BrokenWals
from walferry.hbase.hfiles.stores import Store, TargetTable
from walferry.hbase.tables.regions import Region
from walferry.load.earlier_loads import NOTHING_LOADED, LoadedBefore
from walferry.replication.filters.rules import FilterRules
from walferry.replication.source.cluster import SourceCluster
from walferry.shipping.bulkload.targets import Target, Targets


@dataclass(frozen=True)
class PlannedRegion:
    """A region of the slave as it was when the job began."""

    table: bytes
    region: Region


@dataclass(frozen=True, kw_only=True)
class LoadJob:
    """One load of a peer's WALs: from which cluster, what of it, into which regions."""

    source: SourceCluster
    peer_id: str
    record: str  # the znode of its record: see load/records.py
    peer_state: tuple[str, int]  # a znode and its version: once it is another, the peer was enabled, and nothing may be loaded
    rules: FilterRules
    before: LoadedBefore = field(default=NOTHING_LOADED, hash=False)  # initial snapshots, which have what older WALs have
    targets: Targets = field(hash=False)
    broken_wals: BrokenWals = BrokenWals.STOP
    partitions: int  # into which the regions are dealt out, as cards are
    deadline: float  # seconds since the epoch; then no more is read, and no load is begun

    @cached_property
    def tables(self) -> dict[bytes, TargetTable]:
        """The tables, as sorting needs them."""
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
        """The numbers of a store's region, and of its family in the table."""
        families = self.tables[store.table].families
        return self.number_of[store.table, store.region_start], families.index(store.family)

    def target(self, table: bytes) -> Target:
        """What is known of one of the tables."""
        return self.targets.tables[table]
