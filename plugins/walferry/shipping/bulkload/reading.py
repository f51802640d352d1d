"""Reads WALs, filters them, and sorts the edits for files: the first half of a load, one task per part.

A WAL that cannot be read ends its group's load. A table whose edits do not belong into files is left out of the whole load. Both
facts are noted for all partitions, which read the notes before they load anything. Edits that are left out go by requests.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from walferry.base.errors import WalferryError
from walferry.base.kernels.compiled import unmanaged
from walferry.base.kernels.types import Bytes, Ints, OutFlags
from walferry.engine.summary import shown_ms
from walferry.hbase.files.store import WalStore
from walferry.hbase.names import parse_wal_name
from walferry.hbase.wal.cells import TagType, cell_end, has_tag
from walferry.hbase.wal.errors import WalTornError, WalTruncatedError
from walferry.hbase.wal.wal_batches import UnwrapKey, WalBatch
from walferry.load.errors import reason_of
from walferry.replication.filters.entry_filter import KeptEdits, distinct_tables, filter_batch, filtered_by_reason, table_name
from walferry.replication.filters.rules import FilterRules
from walferry.replication.sinks.of_peer import bulk_loads_in
from walferry.replication.source.cluster import VisibilityLabels
from walferry.shipping.bulkload.job import LoadJob
from walferry.shipping.bulkload.rows import NOTE, REPORT, Note, ShuffleRow, WalReport
from walferry.shipping.bulkload.runs import Edits, sorted_runs
from walferry.shipping.bulkload.wals import LoadWal
from walferry.shipping.closed_wal import ReadProgress, batches_of_closed, may_end_with, seconds_to_close

MAX_LET_GO_CHARS = 800_000  # of file names in one WAL's report, a text of at most a million characters: some 16,000 names
QUOTES_CHARS = 8  # around a name: the report is JSON within JSON


class OutOfTime(Exception):
    """The job's deadline came. A signal, not an error."""


def read_wals(wals: Sequence[LoadWal], job: LoadJob) -> Iterator[ShuffleRow]:
    """Yield the runs of some WALs, and notes about them. An error of a WAL becomes a note, and is never raised."""
    store, keys = WalStore(job.source.wal_root), job.source.keys()
    left_out = 0  # WALs with smaller numbers are left out
    noted = set[str]()  # unfit tables
    for wal in wals:
        if wal.number < left_out:
            continue
        reading = _Reading(job, wal, store, keys)
        try:
            yield from reading.rows()
        except (WalferryError, OSError, OutOfTime) as error:
            left_out = wal.end_of_group
            yield from _to_all(job, wal, Note(wal.number, wal.end_of_group, reason_of(error)))
        if unfit := {name: why for name, why in reading.unfit.items() if name not in noted}:
            noted |= unfit.keys()
            yield from _to_all(job, wal, Note(unfit=unfit))


def _to_all(job: LoadJob, wal: LoadWal, note: Note) -> Iterator[ShuffleRow]:
    for partition in range(job.partitions):
        yield ShuffleRow(partition, NOTE, 0, wal.number, 0, memoryview(note.to_json().encode()))


@dataclass
class _Reading:
    """The reading of one WAL."""

    job: LoadJob
    wal: LoadWal
    store: WalStore
    keys: UnwrapKey | None
    unfit: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.report = WalReport(self.wal.number)

    @cached_property
    def rules(self) -> FilterRules:
        """The peer's rules, without the edits of this WAL that are loaded already."""
        return self.job.before.rest(self.wal.name, self.job.rules)

    def rows(self) -> Iterator[ShuffleRow]:
        progress, number = ReadProgress(), -1
        for number, run in enumerate(sorted_runs(self._edits(progress), self.job.tables)):
            region, family = self.job.place_of(run.store)
            yield ShuffleRow(region % self.job.partitions, region, family, self.wal.number, number, run.data.data)
        self.report.end, self.report.clean, self.report.runs = progress.end, progress.clean, number + 1
        data = memoryview(self.report.to_json().encode())
        yield ShuffleRow(self.wal.number % self.job.partitions, REPORT, 0, self.wal.number, 0, data)

    def _edits(self, progress: ReadProgress) -> Iterable[Edits]:
        wal = self.wal
        batches = batches_of_closed(
            self.store, self.keys, parse_wal_name(wal.name), wal.dead_servers, wal.position,
            close_seconds=lambda: seconds_to_close(self.job.deadline - time.time(), live=wal.live), progress=progress,
        )  # fmt: skip
        try:
            for batch, path in batches:
                if time.time() > self.job.deadline:
                    raise OutOfTime("the job's deadline came before the WAL was read")
                kept = filter_batch(batch, self.rules, path)
                entries = self._chosen(batch, kept, path)
                self._count(batch, kept)
                if entries.size:
                    yield Edits(batch, kept, entries, path)
        except (WalTruncatedError, WalTornError) as error:
            if not may_end_with(error, self.job.broken_wals, live=wal.live, newest=wal.newest):
                raise
            progress.clean, self.report.ignored = False, error.have

    def _chosen(self, batch: WalBatch, kept: KeptEdits, path: str) -> Ints:
        """Return the entries that go into files."""
        bulk_loads, let_go = bulk_loads_in(batch, kept, self.rules, self.job.source, path)
        report = self.report
        report.let_go += let_go
        if sum(len(ascii(name)) + QUOTES_CHARS for name in report.let_go) > MAX_LET_GO_CHARS:  # then requests remove them
            report.others, report.let_go = True, []
        table_of, first_of = distinct_tables(batch)
        names = [table_name(batch, int(entry)) for entry in first_of]
        for entry in bulk_loads:
            self._leave_out(names[table_of[entry]], "some of its edits are bulk loads, whose order among them counts")
        if self.job.source.visibility_labels != VisibilityLabels.SHIP:
            for table in np.unique(table_of[kept.labelled]):
                self._leave_out(names[table], "it has cells with visibility labels")
        for table in np.unique(table_of[with_expressions(batch, kept)]):
            self._leave_out(
                names[table], "it has cells with visibility expressions, which the peer cluster reads only if they are put"
            )
        fit = np.array([name in self.job.tables for name in names], np.bool_)
        wanted = kept.cells > 0
        wanted[bulk_loads] = False
        chosen = wanted & fit[table_of]
        report.others |= bool(bulk_loads) or bool(np.any(wanted & ~fit[table_of]))
        for table in np.unique(table_of[chosen]):
            of_table = np.flatnonzero(chosen & (table_of == table))
            counts = [of_table.size, *(int(column[of_table].sum()) for column in (kept.cells, kept.size, kept.rows))]
            name = names[table].decode(errors="backslashreplace")
            report.tables[name] = [a + b for a, b in zip(report.tables.get(name, [0] * 4), counts, strict=True)]
        return np.flatnonzero(chosen)

    def _leave_out(self, table: bytes, why: str) -> None:
        if table not in self.job.tables:  # the table is left out already
            return
        self.unfit.setdefault(table.decode(errors="backslashreplace"), why)

    def _count(self, batch: WalBatch, kept: KeptEdits) -> None:
        report = self.report
        report.read_edits += len(batch.index)
        report.read_bytes += int(batch.next_positions[-1] - batch.positions[0])
        report.last_written = shown_ms(int(batch.index.write_time[-1]))
        report.filtered = dict(Counter(report.filtered) + Counter(filtered_by_reason(kept)))


def with_expressions(batch: WalBatch, kept: KeptEdits) -> npt.NDArray[np.bool_]:
    """Return for each entry whether one of its kept cells has a visibility expression in words.

    Only a put turns such expressions into a peer cluster's own labels. A cluster without VisibilityController that gets edits
    from a cluster with VisibilityReplication has such cells in its WALs. Loaded as they are, they would be visible to all.
    """
    found = np.zeros(len(batch.index), np.bool_)
    _find(batch.buf, kept.span_first, kept.span_start, kept.span_end, found)
    return found


@unmanaged
def _find(buf: Bytes, span_first: Ints, span_start: Ints, span_end: Ints, found: OutFlags) -> None:
    for entry in range(found.size):
        for span in range(span_first[entry], span_first[entry + 1]):
            pos = span_start[span]
            while pos < span_end[span]:
                if has_tag(buf, pos, TagType.VISIBILITY_EXPRESSION):
                    found[entry] = True
                pos = cell_end(buf, pos)
