"""Loads the regions of one partition: the second half of a load, in one task.

The task reads all notes first. A WAL or table that a note excludes is not loaded at all, and is shipped later.
"""

from __future__ import annotations

import queue
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field

from walferry.base.errors import WalferryError
from walferry.base.records import Record, text_of
from walferry.base.texts import one_line
from walferry.hbase.files.errors import StoreError
from walferry.hbase.hfiles.errors import HFileError
from walferry.hbase.rpc.errors import RemoteError
from walferry.hbase.tables.errors import MissingTable, RegionUnavailable
from walferry.load.errors import NotLoaded, reason_of
from walferry.replication.peers.reading import read_peer
from walferry.replication.peers.slave_tables import slave_tables
from walferry.replication.source.session import open_session
from walferry.shipping.bulkload.job import LoadJob
from walferry.shipping.bulkload.region_load import Loaded, RegionLoader
from walferry.shipping.bulkload.rows import MAX_ERROR_CHARS, Note, ShuffleRow
from walferry.shipping.bulkload.spilled_runs import HeldRuns

# Bounds for one outcome, a text of at most a million characters. Reports are JSON within JSON.
REPORTS_BYTES, COUNTS_AT_ONCE = 256 << 10, 10_000
LOADED_AT_ONCE = 4  # regions: HDFS takes longer to end a small file than to write it
_OF_ONE_TABLE = (RemoteError, NotLoaded, HFileError, StoreError, MissingTable, RegionUnavailable)


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
        for reports in _in_parts(held.reports):
            yield PartitionOutcome(reports=reports)
        counts = sorted(held.counts.items())
        for start in range(0, len(counts), COUNTS_AT_ONCE):
            yield PartitionOutcome(runs=tuple(counts[start : start + COUNTS_AT_ONCE]))
        for note in held.notes:
            yield PartitionOutcome(notes=(note.to_json(),))
        if held.regions:
            yield from _load(held, job)


def _in_parts(reports: Iterable[bytes]) -> Iterator[tuple[str, ...]]:
    """Yield the reports in parts of some size, or of one report."""
    held: list[str] = []
    size = 0
    for report in reports:
        if held and size + len(report) > REPORTS_BYTES:
            yield tuple(held)
            held, size = [], 0
        held.append(report.decode())
        size += len(report)
    if held:
        yield tuple(held)


def wanted_wals(notes: Iterable[Note]) -> WantedRuns:
    """Return which WALs and tables are loaded, according to these notes."""
    ranges = list[range]()
    unfit = set[str]()
    for note in notes:
        if note.end > note.first:
            ranges.append(range(note.first, note.end))
        unfit |= note.unfit.keys()
    return WantedRuns(tuple(ranges), frozenset(unfit))


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
        self._lost: str | None = None  # why the slave is given up

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
                self._lost = why  # the slave does not answer, or this job must load nothing more
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
        peer = read_peer(session.zk, session.nodes, job.peer_id)
        loaders: queue.SimpleQueue[RegionLoader] = queue.SimpleQueue()
        for _ in range(count):
            slave = stack.enter_context(slave_tables(peer, job.source.login_to(peer)))
            loaders.put(RegionLoader(job, session.zk, slave))
        yield loaders
