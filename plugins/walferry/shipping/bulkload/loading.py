"""Loads the regions of one share: the second half of a load, in one task.

The task reads the share's WALs, and sorts the edits of its regions into runs. Of each region it merges the runs, writes one file
per family, and has the peer cluster load the files in one call (walferry.load.file_loader). The peer cluster's regions that
contain the rows are looked up each time: a region may have been split or merged since the job began.

If the load is for several peers, the task loads its regions for one peer after the other. The files that it has made for one are
copied for the others, as far as they are alike. No peer waits for those after it.
"""

from __future__ import annotations

import json
import logging
import queue
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from walferry.base.errors import WalferryError
from walferry.base.records import Record
from walferry.base.texts import one_line
from walferry.hbase.files.errors import StoreError
from walferry.hbase.files.systems import NewFile
from walferry.hbase.hfiles.cutting import RunPart, cut
from walferry.hbase.hfiles.errors import HFileError
from walferry.hbase.hfiles.merge import merge_runs
from walferry.hbase.hfiles.metadata import Origin
from walferry.hbase.rpc.errors import RemoteError, RpcError
from walferry.hbase.tables.errors import MissingTable, RegionUnavailable
from walferry.hbase.tables.regions import Region
from walferry.hbase.tables.tables import Tables
from walferry.hbase.wal.wal_batches import RandomAccess
from walferry.load.errors import EditsDiffer, NotLoaded, reason_of
from walferry.load.file_loader import FileLoader, Tries
from walferry.load.numbered import StagedFile
from walferry.load.records import LoadFolder
from walferry.replication.peers.peer_tables import peer_tables
from walferry.replication.source.peers import read_peer
from walferry.replication.source.session import Session, open_session
from walferry.shipping.bulkload.job import LoadJob, PlannedRegion
from walferry.shipping.bulkload.reading import OutOfTime, WalReading
from walferry.shipping.bulkload.region_files import LocalFile, RegionFiles
from walferry.shipping.bulkload.runs import Edits, sorted_runs
from walferry.shipping.bulkload.shares import Share
from walferry.shipping.bulkload.spilled_runs import HeldRuns
from walferry.shipping.bulkload.survey import MAX_ERROR_CHARS, shown

REASONS_CHARS = 256 << 10  # of all reasons in one outcome, for all peers: a text of at most a million characters
ADVICE = "Nothing leaves the queues. Run again; if it comes back, ship by sink=direct and report this message"
LOADED_AT_ONCE = 4  # regions: HDFS takes longer to end a small file than to write it
_OF_ONE_TABLE = (RemoteError, NotLoaded, HFileError, StoreError, MissingTable, RegionUnavailable)
_OF_ONE_TABLE_OF_A_PARTNER = (RemoteError, NotLoaded, HFileError, MissingTable)  # others keep the first peer waiting
MERGE_BYTES = 32 << 20

log = logging.getLogger(__name__)

Runs = Mapping[bytes, Sequence[RandomAccess]]
"""A region's runs, by their families."""


@dataclass(frozen=True)
class Loaded:
    """What a load brought into a region: files, bytes, cells."""

    files: int = 0
    bytes: int = 0
    cells: int = 0

    @classmethod
    def all_of(cls, some: Iterable[Loaded]) -> Loaded:
        """Return the sum."""
        some = list(some)
        return cls(sum(each.files for each in some), sum(each.bytes for each in some), sum(each.cells for each in some))


class TooLate(WalferryError):
    """The job's deadline came before a region was loaded."""


@dataclass(frozen=True)
class RegionLoader:
    """Loads regions for the job's peer, one at a time, with connections of its own."""

    job: LoadJob
    session: Session  # with the source
    peer_cluster: Tables
    disk: LocalFile = field(default_factory=LocalFile)  # for the files that other peers get, too

    def load(self, planned: PlannedRegion, runs: Runs, made: RegionFiles) -> Loaded:
        """Load a region's edits. The region may be another peer's: what is alike of the files is `made` once.

        Raises WalferryError once another try would not help.
        """
        tries, at, done = Tries(StoreError, seconds=self.job.patience), planned.region.start, Loaded()
        while True:
            try:
                target = self._target(planned, at)
                files = self._load_part(planned, target, at, runs, made)
            except (RpcError, RegionUnavailable, NotLoaded, StoreError) as error:
                if not tries.again(error):
                    raise
                log.warning("region %s is loaded again: %s", planned.region.encoded_name, error)
                continue
            tries.progress()
            done = Loaded.all_of([done, *(Loaded(1, file.end.size, file.cells) for file in files)])
            if not target.end or (planned.region.end and target.end >= planned.region.end):
                return done
            at = target.end

    def _target(self, planned: PlannedRegion, at: bytes) -> Region:
        """Return the peer cluster's region that contains the row `at` now. Raises TooLate, RpcError, RegionUnavailable."""
        if time.time() > self.job.deadline:
            raise TooLate(f"the job's deadline came before region {planned.region.encoded_name} was loaded")
        return self.peer_cluster.place(planned.table.decode()).locate(at)

    def _load_part(self, planned: PlannedRegion, target: Region, start: bytes, runs: Runs, made: RegionFiles) -> list[StagedFile]:
        """Load the rows from `start` on that belong into `target`."""
        parts = {family: _between(some, planned.region, start, target.end) for family, some in runs.items()}
        if not _is_whole(planned.region, start, target.end):
            made = RegionFiles()
        writers = [
            partial(self._write, planned, family, some, made) for family, some in parts.items() if any(run.size for run in some)
        ]
        if not writers:
            return []

        def check_region() -> None:
            if self._target(planned, start) != target:
                raise RegionUnavailable(f"region {target.encoded_name} was moved, split or merged while it was loaded")

        job, place = self.job, self.peer_cluster.place(planned.table.decode())
        loader = FileLoader(place, self.peer_cluster.login, job.source.hbase_root, str(job.rules.source_id))
        return loader.load(target, LoadFolder(self.session, job.peer_id, job.record, job.peer_state), [writers], check_region)

    def _write(
        self, planned: PlannedRegion, family: bytes, runs: Sequence[RandomAccess], made: RegionFiles, url: str
    ) -> StagedFile:
        """Write a file of a family's cells, of which there is at least one."""
        settings, peer_id = self.job.targets.tables[planned.table].families[family], self.job.peer_id
        # numbered.py recognizes the file by this name.
        origin = Origin(int(time.time() * 1000), f"walferry {peer_id} {uuid.uuid4().hex}")
        with NewFile(url) as file:
            done = made.write(
                file.write, peer_id, family, settings, merge_runs(runs, memory_bytes=MERGE_BYTES), origin, self.disk
            )
        assert done is not None
        return StagedFile(family, url, done.end, done.cells)


def _is_whole(region: Region, start: bytes, end: bytes) -> bool:
    """Return whether all rows of a region are between the row `start` and `end` (empty: no limit)."""
    return start == region.start and (not end or bool(region.end and end >= region.end))


def _between(runs: Sequence[RandomAccess], region: Region, start: bytes, end: bytes) -> list[RandomAccess]:
    """Return the parts of a region's runs from the row `start` to before `end` (empty: no limit)."""
    if _is_whole(region, start, end):
        return list(runs)
    found: list[RandomAccess] = []
    for run in runs:
        first = 0 if start == region.start else cut(run, start)
        last = run.size if not end or (region.end and end >= region.end) else cut(run, end)
        found.append(RunPart(run, first, last))
    return found


@dataclass(frozen=True)
class ShareOutcome(Record):
    """A task's message to the driver: how many of its regions it has loaded, and tables that are not loaded, by the reasons.

    `first` is the number of the share's first region. `changed` says which edits differ from those of the survey: then nothing of
    the whole load counts. `others` has the outcomes of the job's other peers.
    """

    first: int
    regions: int = 0
    loaded: Loaded = field(default_factory=Loaded)
    failed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    changed: str = ""
    others: tuple[ShareOutcome, ...] = ()

    def of_peer(self, number: int) -> ShareOutcome:
        """Return the outcome of the job's own peer, 0, or of one of its others."""
        return self.others[number - 1] if number else self


def load_share(job: LoadJob, share: Share) -> ShareOutcome:
    """Read the WALs of a share, and load its regions for each of the job's peers. Raises no errors that Walferry reports."""
    wanted = np.isin(job.region_of_store, [region for region, _ in share.regions])
    peers = (job, *job.also)
    with HeldRuns() as held, ExitStack() as stack:
        try:
            held.take(sorted_runs(_same_edits(job, share), job.stores, wanted))
            _check_cells(job, share, held)
            session = stack.enter_context(open_session(job.source))
        except EditsDiffer as error:
            return ShareOutcome(share.first, changed=one_line(str(error), MAX_ERROR_CHARS))
        except (WalferryError, OSError, OutOfTime) as error:  # a WAL cannot be read any more, or the source cannot be reached
            return _none_loaded(job, share, error)
        own, *others = [_loads_of(peer, job, share, held, session, stack) for peer in peers]
        reached = [loads for loads in (own, *others) if isinstance(loads, _Loads)]

        largest_first = sorted(share.regions, key=lambda region: region[1], reverse=True)
        made = {number: RegionFiles() for number, _ in share.regions}
        for count, loads in enumerate(reached, start=1):  # one peer after the other: none waits for those after it
            with ThreadPoolExecutor(loads.at_once, "load") as pool:
                list(pool.map(partial(loads.load, made, keep=count < len(reached)), largest_first))
    own_outcome, *of_others = [_outcome(share, loads, REASONS_CHARS // len(peers)) for loads in (own, *others)]
    return replace(own_outcome, others=tuple(of_others))


def _loads_of(
    peer: LoadJob, job: LoadJob, share: Share, held: HeldRuns, session: Session, stack: ExitStack
) -> _Loads | ShareOutcome:
    """Return the loads of a share for one of the peers, or its outcome if its cluster cannot be reached at all."""
    try:
        loaders = stack.enter_context(_loaders(peer, session, min(LOADED_AT_ONCE, len(share.regions))))
    except (WalferryError, OSError) as error:
        return _none_loaded(job, share, error)
    return _Loads(held, job, loaders, _OF_ONE_TABLE if peer is job else _OF_ONE_TABLE_OF_A_PARTNER)


def _outcome(share: Share, loads: _Loads | ShareOutcome, most_chars: int) -> ShareOutcome:
    if isinstance(loads, ShareOutcome):
        return loads
    return ShareOutcome(share.first, len(loads.done), Loaded.all_of(loads.done), _bounded(loads.given_up, most_chars))


def _none_loaded(job: LoadJob, share: Share, error: Exception) -> ShareOutcome:
    """Return the outcome of a share of which nothing is loaded."""
    reasons = dict.fromkeys(sorted({shown(job.regions[number].table) for number, _ in share.regions}), reason_of(error))
    return ShareOutcome(share.first, failed=_bounded(reasons))


def _same_edits(job: LoadJob, share: Share) -> Iterator[Edits]:
    """Yield the edits of a share's WALs. Raises EditsDiffer if a WAL has other entries than the survey has read."""
    for number, crc in share.wals:
        reading = WalReading(job, job.wals[number])
        yield from reading.edits()
        if reading.report.crc != crc:
            raise EditsDiffer(f"WAL {job.wals[number].name} has other entries than when it was read first", ADVICE)


def _check_cells(job: LoadJob, share: Share, held: HeldRuns) -> None:
    """Check that each region has as many cells as the survey has counted. Raises EditsDiffer."""
    for number, cells in share.regions:
        found = sum(held.cells[store] for store in _stores(job, number))
        if found != cells:
            name = job.regions[number].region.encoded_name
            raise EditsDiffer(f"the WALs had {cells:,} cells for region {name}, and {found:,} when they were read again", ADVICE)


def _stores(job: LoadJob, region: int) -> range:
    """Return the numbers of a region's stores, in the order of their families."""
    return range(*np.searchsorted(job.region_of_store, (region, region + 1)).tolist())


class _Loads:
    """Loads regions of the `job` for one peer, side by side. Once a region of a table fails, no more of the table are loaded."""

    def __init__(
        self, held: HeldRuns, job: LoadJob, loaders: queue.SimpleQueue[RegionLoader], of_one_table: tuple[type[Exception], ...]
    ) -> None:
        self._held = held
        self._job = job
        self._loaders = loaders
        self.at_once = loaders.qsize()
        self._of_one_table = of_one_table
        self.done: list[Loaded] = []
        self.given_up: dict[str, str] = {}  # tables, and why
        self._lost = ""  # why the peer cluster is given up

    def load(self, made: Mapping[int, RegionFiles], region: tuple[int, int], *, keep: bool) -> None:
        """Load a region with so many cells, and `keep` its files for the other peers. Raises no error of the load."""
        number, _ = region
        made[number].wanted = keep
        planned = self._job.regions[number]
        table = shown(planned.table)
        if self._lost or table in self.given_up:
            self.given_up.setdefault(table, self._lost)
            return
        loader = self._loaders.get()
        try:
            stores = zip(self._job.targets.tables[planned.table].families, _stores(self._job, number), strict=True)
            self.done.append(
                loader.load(planned, {family: runs for family, store in stores if (runs := self._held.of(store))}, made[number])
            )
        except (WalferryError, OSError) as error:
            self.given_up.setdefault(table, reason_of(error))
            if not isinstance(error, self._of_one_table):
                self._lost = reason_of(error)  # the peer cluster does not answer, or this job must load nothing more
        finally:
            self._loaders.put(loader)


def _bounded(why: Mapping[str, str], most_chars: int = REASONS_CHARS) -> dict[str, tuple[str, ...]]:
    """Return tables by the reasons why they are not loaded. The reasons have a bounded length in all."""
    found, left = dict[str, tuple[str, ...]](), most_chars
    for table, reason in why.items():
        text = one_line(reason, MAX_ERROR_CHARS)
        if text not in found:
            text = text if (left := left - len(json.dumps(text))) > 0 else "the task's log says why"
        found[text] = (*found.get(text, ()), table)
    return found


@contextmanager
def _loaders(job: LoadJob, session: Session, count: int) -> Iterator[queue.SimpleQueue[RegionLoader]]:
    """Yield loaders that share the session with the source. Raises WalferryError."""
    with ExitStack() as stack:
        peer = read_peer(session, job.peer_id)
        loaders: queue.SimpleQueue[RegionLoader] = queue.SimpleQueue()
        for _ in range(count):
            peer_cluster = stack.enter_context(peer_tables(peer, job.source.login_to(peer)))
            loaders.put(RegionLoader(job, session, peer_cluster, stack.enter_context(LocalFile())))
        yield loaders
