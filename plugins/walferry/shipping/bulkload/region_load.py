"""Loads one region's edits: merges its runs, writes one file per family, and has the slave load the files in one call
(walferry.load.file_loader).

The slave's regions that contain the rows are looked up each time: a region may have been split or merged since the job began.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from kazoo.client import KazooClient

from walferry.base.errors import WalferryError
from walferry.hbase.files.errors import StoreError
from walferry.hbase.files.systems import NewFile
from walferry.hbase.hfiles.cutting import RunPart, cut
from walferry.hbase.hfiles.merge import merge_runs
from walferry.hbase.hfiles.metadata import Origin
from walferry.hbase.hfiles.writer import write_file
from walferry.hbase.rpc.errors import RpcError
from walferry.hbase.tables.errors import RegionUnavailable
from walferry.hbase.tables.regions import Region
from walferry.hbase.tables.tables import Tables
from walferry.hbase.wal.windows import RandomAccess
from walferry.load.errors import NotLoaded
from walferry.load.file_loader import FileLoader, Tries
from walferry.load.numbered import StagedFile
from walferry.load.records import LoadFolder
from walferry.shipping.bulkload.job import LoadJob, PlannedRegion

MERGE_BYTES = 32 << 20

log = logging.getLogger(__name__)

Runs = Mapping[int, Sequence[RandomAccess]]
"""A region's runs, by the number of the family."""


@dataclass(frozen=True)
class Loaded:
    """What a load brought into a region: files, bytes, cells."""

    files: int = 0
    bytes: int = 0
    cells: int = 0


class TooLate(WalferryError):
    """The job's deadline came before a region was loaded."""


@dataclass(frozen=True)
class RegionLoader:
    """Loads regions, one at a time, with connections of its own."""

    job: LoadJob
    zk: KazooClient  # of the source
    slave: Tables

    def load(self, planned: PlannedRegion, runs: Runs) -> Loaded:
        """Load a region's edits. Raises WalferryError once another try would not help."""
        tries, at, done = Tries(StoreError), planned.region.start, Loaded()
        while True:
            try:
                target = self._target(planned, at)
                files = self._load_part(planned, target, at, runs)
            except (RpcError, RegionUnavailable, NotLoaded, StoreError) as error:
                if not tries.again(error):
                    raise
                log.warning("region %s is loaded again: %s", planned.region.encoded_name, error)
                continue
            tries.progress()
            size, cells = sum(file.end.size for file in files), sum(file.cells for file in files)
            done = Loaded(done.files + len(files), done.bytes + size, done.cells + cells)
            if not target.end or (planned.region.end and target.end >= planned.region.end):
                return done
            at = target.end

    def _target(self, planned: PlannedRegion, at: bytes) -> Region:
        """Return the slave's region that contains the row `at` now. Raises TooLate, RpcError, RegionUnavailable."""
        if time.time() > self.job.deadline:
            raise TooLate(f"the job's deadline came before region {planned.region.encoded_name} was loaded")
        return self.slave.place(planned.table.decode()).locate(at)

    def _load_part(self, planned: PlannedRegion, target: Region, start: bytes, runs: Runs) -> list[StagedFile]:
        """Load the rows from `start` on that belong into `target`."""
        parts = {family: _between(some, planned.region, start, target.end) for family, some in runs.items()}
        writers = [partial(self._write, planned, family, some) for family, some in parts.items() if any(run.size for run in some)]
        if not writers:
            return []

        def check_region() -> None:
            if self._target(planned, start) != target:
                raise RegionUnavailable(f"region {target.encoded_name} was moved, split or merged while it was loaded")

        job, place = self.job, self.slave.place(planned.table.decode())
        loader = FileLoader(place, self.slave.login, job.source.hbase_root, str(job.rules.source_id))
        return loader.load(target, LoadFolder(self.zk, job.record, job.peer_state), [writers], check_region)

    def _write(self, planned: PlannedRegion, number: int, runs: Sequence[RandomAccess], url: str) -> StagedFile:
        """Write a file of a family's cells, of which there is at least one."""
        family, settings = list(self.job.target(planned.table).families.items())[number]
        # numbered.py recognizes the file by this name.
        origin = Origin(int(time.time() * 1000), f"walferry {self.job.peer_id} {uuid.uuid4().hex}")
        with NewFile(url) as file:
            done = write_file(file.write, merge_runs(runs, memory_bytes=MERGE_BYTES), settings, origin)
        assert done is not None
        return StagedFile(family, url, done.end, done.cells)


def _between(runs: Sequence[RandomAccess], region: Region, start: bytes, end: bytes) -> list[RandomAccess]:
    """Return the parts of a region's runs from the row `start` to before `end` (empty: no limit)."""
    if start == region.start and (not end or (region.end and end >= region.end)):
        return list(runs)
    found: list[RandomAccess] = []
    for run in runs:
        first = 0 if start == region.start else cut(run, start)
        last = run.size if not end or (region.end and end >= region.end) else cut(run, end)
        found.append(RunPart(run, first, last))
    return found
