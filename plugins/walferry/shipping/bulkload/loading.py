"""Loads the regions of one partition: the second half of a load, in one task.

The task reads all notes first. A WAL or table that a note excludes is not loaded at all, and is shipped later. Of each region it
merges the runs, writes one file per family, and has the peer cluster load the files in one call (walferry.load.file_loader). The
peer cluster's regions that contain the rows are looked up each time: a region may have been split or merged since the job began.
"""

from __future__ import annotations

import logging
import queue
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial

from walferry.base.errors import WalferryError
from walferry.base.records import Record, text_of
from walferry.base.texts import one_line
from walferry.hbase.files.errors import StoreError
from walferry.hbase.files.systems import NewFile
from walferry.hbase.hfiles.cutting import RunPart, cut
from walferry.hbase.hfiles.errors import HFileError
from walferry.hbase.hfiles.merge import merge_runs
from walferry.hbase.hfiles.metadata import Origin
from walferry.hbase.hfiles.writer import write_file
from walferry.hbase.rpc.errors import RemoteError, RpcError
from walferry.hbase.tables.errors import MissingTable, RegionUnavailable
from walferry.hbase.tables.regions import Region
from walferry.hbase.tables.tables import Tables
from walferry.hbase.wal.wal_batches import RandomAccess
from walferry.load.errors import NotLoaded, reason_of
from walferry.load.file_loader import FileLoader, Tries
from walferry.load.numbered import StagedFile
from walferry.load.records import LoadFolder
from walferry.replication.peers.peer_tables import peer_tables
from walferry.replication.source.peers import read_peer
from walferry.replication.source.session import Session, open_session
from walferry.shipping.bulkload.job import LoadJob, PlannedRegion
from walferry.shipping.bulkload.rows import MAX_ERROR_CHARS, Note, ShuffleRow, in_parts
from walferry.shipping.bulkload.spilled_runs import HeldRuns

# Bounds for one outcome, a text of at most a million characters. Reports are JSON within JSON.
REPORTS_BYTES, COUNTS_AT_ONCE = 256 << 10, 10_000
LOADED_AT_ONCE = 4  # regions: HDFS takes longer to end a small file than to write it
_OF_ONE_TABLE = (RemoteError, NotLoaded, HFileError, StoreError, MissingTable, RegionUnavailable)
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
    session: Session  # with the source
    peer_cluster: Tables

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
        """Return the peer cluster's region that contains the row `at` now. Raises TooLate, RpcError, RegionUnavailable."""
        if time.time() > self.job.deadline:
            raise TooLate(f"the job's deadline came before region {planned.region.encoded_name} was loaded")
        return self.peer_cluster.place(planned.table.decode()).locate(at)

    def _load_part(self, planned: PlannedRegion, target: Region, start: bytes, runs: Runs) -> list[StagedFile]:
        """Load the rows from `start` on that belong into `target`."""
        parts = {family: _between(some, planned.region, start, target.end) for family, some in runs.items()}
        writers = [partial(self._write, planned, family, some) for family, some in parts.items() if any(run.size for run in some)]
        if not writers:
            return []

        def check_region() -> None:
            if self._target(planned, start) != target:
                raise RegionUnavailable(f"region {target.encoded_name} was moved, split or merged while it was loaded")

        job, place = self.job, self.peer_cluster.place(planned.table.decode())
        loader = FileLoader(place, self.peer_cluster.login, job.source.hbase_root, str(job.rules.source_id))
        return loader.load(target, LoadFolder(self.session, job.peer_id, job.record, job.peer_state), [writers], check_region)

    def _write(self, planned: PlannedRegion, number: int, runs: Sequence[RandomAccess], url: str) -> StagedFile:
        """Write a file of a family's cells, of which there is at least one."""
        family, settings = list(self.job.targets.tables[planned.table].families.items())[number]
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


@dataclass(frozen=True)
class PartitionOutcome(Record):
    """A partition's message to the driver: about a region, or about the rows that came through the shuffle."""

    table: str = ""
    region: str = ""  # encoded name
    loaded: Loaded = field(default_factory=Loaded)
    error: str = ""
    reports: tuple[str, ...] = ()  # WalReports
    notes: tuple[str, ...] = ()
    runs: tuple[tuple[int, int], ...] = ()  # WALs, and how many of their runs arrived

    def to_json(self) -> str:
        """Return this outcome for `from_json`, with an error of bounded length."""
        return text_of(asdict(self) | {"error": one_line(self.error, MAX_ERROR_CHARS)})


def load_partition(rows: Iterable[ShuffleRow], job: LoadJob) -> Iterator[PartitionOutcome]:
    """Take all rows of a partition, load its regions, and yield their outcomes. Never raises errors that Walferry reports."""
    with HeldRuns() as held:
        held.take(rows)
        for reports in in_parts(held.reports, len, REPORTS_BYTES):
            yield PartitionOutcome(reports=tuple(map(bytes.decode, reports)))
        counts = sorted(held.counts.items())
        for start in range(0, len(counts), COUNTS_AT_ONCE):
            yield PartitionOutcome(runs=tuple(counts[start : start + COUNTS_AT_ONCE]))
        for notes in in_parts([note.to_json() for note in distinct(held.notes)], len, REPORTS_BYTES):
            yield PartitionOutcome(notes=tuple(notes))
        if held.regions:
            yield from _load(held, job)


def distinct(notes: Iterable[Note]) -> list[Note]:
    """Return the notes that say the same: one per group, about its first WAL that is not loaded, and all unfit tables.

    Each part that has unread WALs of a group notes them. The driver gets the notes from all partitions.
    """
    of_group: dict[int, Note] = {}  # by the end of the group
    unfit: dict[str, str] = {}
    for note in notes:
        unfit = note.unfit | unfit
        if note.end > note.first and (note.end not in of_group or note.first < of_group[note.end].first):
            of_group[note.end] = replace(note, unfit={})
    parts = in_parts(unfit.items(), lambda item: sum(map(len, item)), REPORTS_BYTES)
    return [*of_group.values(), *(Note(unfit=dict(part)) for part in parts)]


def wanted_wals(notes: Iterable[Note]) -> WantedRuns:
    """Return which WALs and tables are loaded, according to these notes."""
    notes = distinct(notes)
    ranges = tuple(range(note.first, note.end) for note in notes if note.end > note.first)
    return WantedRuns(ranges, frozenset(name for note in notes for name in note.unfit))


@dataclass(frozen=True)
class WantedRuns:
    """The WALs and tables to load: all but some."""

    not_wals: tuple[range, ...]
    not_tables: frozenset[str]

    def wal(self, number: int) -> bool:
        """Return whether a WAL is loaded."""
        return not any(number in some for some in self.not_wals)

    def table(self, name: bytes) -> bool:
        """Return whether a table is loaded."""
        return name.decode(errors="backslashreplace") not in self.not_tables


def _load(held: HeldRuns, job: LoadJob) -> Iterator[PartitionOutcome]:
    wanted = wanted_wals(held.notes)
    regions = [number for number in held.regions if wanted.table(job.regions[number].table)]
    if not regions:
        return
    try:
        with _loaders(job, min(LOADED_AT_ONCE, len(regions))) as loaders:
            loads = _Loads(held, job, wanted, loaders)
            with ThreadPoolExecutor(loaders.qsize(), "load") as pool:
                for done in as_completed([pool.submit(loads.load, number) for number in regions]):
                    yield done.result()
    except WalferryError as error:  # a cluster cannot be reached at all
        for number in regions:
            yield _outcome(job, number, error=reason_of(error))


class _Loads:
    """Loads regions side by side. Once a region of a table fails, no more regions of the table are loaded."""

    def __init__(self, held: HeldRuns, job: LoadJob, wanted: WantedRuns, loaders: queue.SimpleQueue[RegionLoader]) -> None:
        self._held = held
        self._job = job
        self._wanted = wanted
        self._loaders = loaders
        self._given_up: dict[bytes, str] = {}  # tables, and why
        self._lost: str | None = None  # why the peer cluster is given up

    def load(self, number: int) -> PartitionOutcome:
        """Load a region."""
        table = self._job.regions[number].table
        if why := self._lost or self._given_up.get(table):
            return _outcome(self._job, number, error=why)
        loader = self._loaders.get()
        try:
            loaded = loader.load(self._job.regions[number], self._held.runs(number, self._wanted.wal))
            return _outcome(self._job, number, loaded=loaded)
        except (WalferryError, OSError) as error:
            why = self._given_up[table] = reason_of(error)
            if not isinstance(error, _OF_ONE_TABLE):
                self._lost = why  # the peer cluster does not answer, or this job must load nothing more
            return _outcome(self._job, number, error=why)
        finally:
            self._loaders.put(loader)


def _outcome(job: LoadJob, number: int, *, loaded: Loaded | None = None, error: str = "") -> PartitionOutcome:
    planned = job.regions[number]
    return PartitionOutcome(
        planned.table.decode(errors="backslashreplace"), planned.region.encoded_name, loaded or Loaded(), error
    )


@contextmanager
def _loaders(job: LoadJob, count: int) -> Iterator[queue.SimpleQueue[RegionLoader]]:
    """Yield loaders that share a ZooKeeper session. Raises WalferryError."""
    with ExitStack() as stack:
        session = stack.enter_context(open_session(job.source))
        peer = read_peer(session, job.peer_id)
        loaders: queue.SimpleQueue[RegionLoader] = queue.SimpleQueue()
        for _ in range(count):
            peer_cluster = stack.enter_context(peer_tables(peer, job.source.login_to(peer)))
            loaders.put(RegionLoader(job, session, peer_cluster))
        yield loaders
