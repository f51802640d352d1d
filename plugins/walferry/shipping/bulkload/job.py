"""Describes a load, for all its tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from walferry.base.kernels.types import Flags, Ints
from walferry.hbase.files.quarantine import BrokenWals
from walferry.hbase.files.store import WalStore
from walferry.hbase.hfiles.stores import Stores
from walferry.hbase.tables.regions import Region
from walferry.hbase.wal.wal_batches import UnwrapKey
from walferry.load.earlier_loads import NOTHING_LOADED, LoadedBefore
from walferry.load.staging import PATIENCE_SECONDS
from walferry.replication.filters.rules import FilterRules
from walferry.replication.source.cluster import SourceCluster
from walferry.shipping.bulkload.targets import Targets
from walferry.shipping.bulkload.wals import LoadWal


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
    wals: Sequence[LoadWal] = field(default=(), hash=False)  # by their numbers
    broken_wals: BrokenWals = BrokenWals.STOP
    deadline: float  # seconds since the epoch; reading stops then, and no load begins
    also: tuple[LoadJob, ...] = field(default=(), hash=False)  # of other peers that get the same edits, without WALs of their own
    patience: float = PATIENCE_SECONDS  # for a region that moves, or a server that restarts

    @cached_property
    def store(self) -> WalStore:
        """The WALs' files."""
        return WalStore(self.source.wal_root)

    @cached_property
    def keys(self) -> UnwrapKey | None:
        """What opens encrypted WALs."""
        return self.source.keys()

    @cached_property
    def regions(self) -> list[PlannedRegion]:
        """The regions of all tables, by number."""
        return [PlannedRegion(name, region) for name, target in self.targets.tables.items() for region in target.regions]

    @cached_property
    def stores(self) -> Stores:
        """The stores of the tables. Raises BadBorders."""
        return Stores({name: target.stores for name, target in self.targets.tables.items()})

    @cached_property
    def all_stores(self) -> Flags:
        """A flag for each store."""
        return np.ones(len(self.stores.list), np.bool_)

    @cached_property
    def region_of_store(self) -> Ints:
        """The number of each store's region: regions have the order of their stores, too."""
        families = [len(target.families) for target in self.targets.tables.values() for _ in target.regions]
        return np.repeat(np.arange(len(families), dtype=np.int64), families)
