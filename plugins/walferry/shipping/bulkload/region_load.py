"""Loads one region's edits: merges its runs, writes a file a family, and has the slave load them in one call.

    look up which regions of the slave have its rows now        a region may have been split or merged since the job began
    PrepareBulkLoad                                             makes <staging>/<token>, into which all may write
    note the folder                                             see load/records.py
    write <token>/<family>/<file>                               HBase renames nothing that lies so
    look whether another run has taken over
    BulkLoadHFile, all families at once                         see load/numbered.py
    CleanupBulkLoad, and forget the note

A load that fails is begun anew, with another folder: whether its files were loaded or not, the same cells come again.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kazoo.client import KazooClient

from walferry.base.errors import WalferryError
from walferry.hbase.files.errors import StoreError
from walferry.hbase.files.systems import NewFile
from walferry.hbase.hfiles.cutting import RunPart, cut
from walferry.hbase.hfiles.merge import merge_runs
from walferry.hbase.hfiles.metadata import Origin
from walferry.hbase.hfiles.writer import WrittenFile, write_file
from walferry.hbase.names import family_folder
from walferry.hbase.rpc.errors import RpcError
from walferry.hbase.tables.errors import RegionUnavailable
from walferry.hbase.tables.regions import Region
from walferry.hbase.tables.scan import Patience
from walferry.hbase.tables.tables import Tables
from walferry.hbase.wal.windows import RandomAccess
from walferry.load.cleanup import noted_folder
from walferry.load.errors import NotLoaded, is_refusal
from walferry.load.numbered import Destination, StagedFile, load_numbered
from walferry.load.records import check_folder
from walferry.load.staging import PATIENCE_SECONDS
from walferry.shipping.bulkload.job import LoadJob, PlannedRegion

MERGE_BYTES = 32 << 20
LOADS = 5  # times that files are written, if the slave does not load them

log = logging.getLogger(__name__)

Runs = Mapping[int, Sequence[RandomAccess]]
"""A region's runs, by the number of the family."""


@dataclass(frozen=True)
class Loaded:
    """What was loaded of a region."""

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
        """Load a region's edits. Raises WalferryError when trying again does not help any more."""
        patience, tries, at, done = Patience(PATIENCE_SECONDS), 0, planned.region.start, Loaded()
        while True:
            if time.time() > self.job.deadline:
                raise TooLate(f"the job's deadline came before region {planned.region.encoded_name} was loaded")
            try:
                target = self.slave.place(planned.table.decode()).locate(at)
                files = self._load_part(planned, target, at, runs)
            except (RpcError, RegionUnavailable, NotLoaded, StoreError) as error:
                tries += isinstance(error, NotLoaded | StoreError)
                if is_refusal(error) or not error.retry_helps or tries == LOADS or not patience.wait():
                    raise
                log.warning("region %s is loaded again: %s", planned.region.encoded_name, error)
                continue
            patience.progress()
            size, cells = sum(file.end.size for file in files), sum(file.cells for file in files)
            done = Loaded(done.files + len(files), done.bytes + size, done.cells + cells)
            if not target.end or (planned.region.end and target.end >= planned.region.end):
                return done
            at, tries = target.end, 0

    def _load_part(self, planned: PlannedRegion, target: Region, start: bytes, runs: Runs) -> list[WrittenFile]:
        """Load what goes into `target`, from the row `start` on."""
        parts = {family: _between(some, planned.region, start, target.end) for family, some in runs.items()}
        if not any(run.size for some in parts.values() for run in some):
            return []
        table = planned.table.decode()
        with noted_folder(self.zk, self.job.record, self.slave, table, target, self.job.source) as (server, token, note):
            written = self._write(planned, token, parts)
            check_folder(self.zk, self.job.record, note, self.job.peer_state)
            files = [StagedFile(family, url, done.end) for family, (url, done) in written.items()]
            load_numbered(server, Destination(table, target, token, self.slave.login), files, str(self.job.rules.source_id))
        return [file for _, file in written.values()]

    def _write(self, planned: PlannedRegion, token: str, parts: Runs) -> dict[bytes, tuple[str, WrittenFile]]:
        """Write a file for each family that has cells."""
        families = list(self.job.target(planned.table).families.items())
        written = {}
        for number, runs in parts.items():
            if not any(run.size for run in runs):
                continue
            family, settings = families[number]
            name = uuid.uuid4().hex
            origin = Origin(int(time.time() * 1000), f"walferry {self.job.peer_id} {name}")  # by which numbered.py knows it again
            url = f"{token}/{family_folder(family)}/{name}"
            with NewFile(url) as file:
                done = write_file(file.write, merge_runs(runs, memory_bytes=MERGE_BYTES), settings, origin)
            assert done is not None
            written[family] = (url, done)
        return written


def _between(runs: Sequence[RandomAccess], region: Region, start: bytes, end: bytes) -> list[RandomAccess]:
    """What the runs of a region have from the row `start` to before `end` (empty: no limit)."""
    if start == region.start and (not end or (region.end and end >= region.end)):
        return list(runs)
    found: list[RandomAccess] = []
    for run in runs:
        first = 0 if start == region.start else cut(run, start)
        last = run.size if not end or (region.end and end >= region.end) else cut(run, end)
        found.append(RunPart(run, first, last))
    return found
