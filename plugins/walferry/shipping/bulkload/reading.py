"""Reads a WAL of a load, and chooses the edits that go into files."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt
from zlib_ng import zlib_ng

from walferry.base.kernels.compiled import unmanaged
from walferry.base.kernels.types import Bytes, Ints, OutFlags
from walferry.base.records import Record
from walferry.engine.summary import shown_ms
from walferry.hbase.names import parse_wal_name
from walferry.hbase.wal.cells import TagType, cell_end, has_tag
from walferry.hbase.wal.errors import WalTornError, WalTruncatedError
from walferry.hbase.wal.wal_batches import WalBatch
from walferry.replication.filters.entry_filter import KeptEdits, filter_batch, filtered_by_reason, table_name
from walferry.replication.filters.rules import FilterRules
from walferry.replication.sinks.of_peer import bulk_loads_in
from walferry.replication.source.cluster import VisibilityLabels
from walferry.shipping.bulkload.job import LoadJob
from walferry.shipping.bulkload.runs import Edits
from walferry.shipping.bulkload.wals import LoadWal
from walferry.shipping.closed_wal import ReadProgress, batches_of_closed, may_end_with, seconds_to_close

MAX_LET_GO_CHARS = 800_000  # of file names in one WAL's report, a text of at most a million characters: some 16,000 names
QUOTES_CHARS = 8  # around a name: the report is JSON within JSON


class OutOfTime(Exception):
    """The job's deadline came. A signal, not an error."""


@dataclass
class WalReport(Record):
    """What the peer gets from a WAL. `tables` contains [edits, cells, bytes, operations] of each table that goes into files."""

    wal: int
    end: int = 0  # the offset after the last entry; 0: no entry behind the position
    clean: bool = True
    read_edits: int = 0
    read_bytes: int = 0
    filtered: dict[str, int] = field(default_factory=dict)
    last_written: int = 0  # ms since the epoch
    tables: dict[str, list[int]] = field(default_factory=dict)
    others: bool = False  # whether some edits do not go into files
    ignored: int = 0  # bytes behind the last whole entry
    let_go: list[str] = field(default_factory=list)  # files of bulk loads that the peer does not get
    crc: int = 0  # CRC-32 of all entries that were read


@dataclass
class WalReading:
    """The reading of one WAL. `report` and `unfit`, the tables whose edits do not belong into files, are complete after it.

    So are `differs`, the numbers of those of the `others`, the job's other peers, that get other edits.
    """

    job: LoadJob
    wal: LoadWal
    others: Sequence[LoadJob] = ()
    unfit: dict[str, str] = field(default_factory=dict)
    differs: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.report = WalReport(self.wal.number)
        self._rules_of_others = {number: _rules(other, self.wal) for number, other in enumerate(self.others)}

    @cached_property
    def rules(self) -> FilterRules:
        """The peer's rules, without the edits of this WAL that are loaded already."""
        return _rules(self.job, self.wal)

    def edits(self) -> Iterator[Edits]:
        """Yield the edits that go into files. Raises OutOfTime, WalMissing, WalError, StoreError, OSError."""
        wal, progress = self.wal, ReadProgress()
        batches = batches_of_closed(
            self.job.store, self.job.keys, parse_wal_name(wal.name), wal.dead_servers, wal.position,
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
        self.report.end, self.report.clean = progress.end, progress.clean

    def _compare(self, batch: WalBatch, kept: KeptEdits, has_bulk_loads: bool, path: str) -> None:
        """Note which of the other peers get other edits of a batch, or may get other bulk loads."""
        for number, rules in self._rules_of_others.items():
            if number not in self.differs and (has_bulk_loads or not kept.has_same_spans(filter_batch(batch, rules, path))):
                self.differs.add(number)

    def _chosen(self, batch: WalBatch, kept: KeptEdits, path: str) -> Ints:
        """Return the entries that go into files."""
        bulk_loads, let_go = bulk_loads_in(batch, kept, self.rules, self.job.source, path)
        self._compare(batch, kept, bool(bulk_loads or let_go), path)
        report = self.report
        report.let_go += let_go
        if sum(len(ascii(name)) + QUOTES_CHARS for name in report.let_go) > MAX_LET_GO_CHARS:  # then requests remove them
            report.others, report.let_go = True, []
        table_of = kept.table_of
        names = [table_name(batch, int(entry)) for entry in kept.first_of]
        for entry in bulk_loads:
            self._leave_out(names[table_of[entry]], "some of its edits are bulk loads, whose order among them counts")
        if self.job.source.visibility_labels != VisibilityLabels.SHIP:
            for table in np.unique(table_of[kept.labelled]):
                self._leave_out(names[table], "it has cells with visibility labels")
        for table in np.unique(table_of[with_expressions(batch, kept)]):
            self._leave_out(
                names[table], "it has cells with visibility expressions, which the peer cluster reads only if they are put"
            )
        fit = np.array([name in self.job.targets.tables for name in names], np.bool_)
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
        if table not in self.job.targets.tables:  # the table is left out already
            return
        self.unfit.setdefault(table.decode(errors="backslashreplace"), why)

    def _count(self, batch: WalBatch, kept: KeptEdits) -> None:
        report = self.report
        report.read_edits += len(batch.index)
        report.read_bytes += int(batch.next_positions[-1] - batch.positions[0])
        report.crc = zlib_ng.crc32(batch.buf[batch.index.entry_start[0] : batch.index.cells_end[-1]], report.crc)
        report.last_written = shown_ms(int(batch.index.write_time[-1]))
        report.filtered = dict(Counter(report.filtered) + Counter(filtered_by_reason(kept)))


def _rules(job: LoadJob, wal: LoadWal) -> FilterRules:
    return job.before.rest(wal.name, job.rules)


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
