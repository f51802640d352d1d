"""A task of a batch for a lake: reads the closed WALs of one group, and writes their changes as files that nobody sees yet.

The driver holds the group's lease meanwhile. What the task has written counts only once the driver has committed it, together
with the position up to which the task has read. So a task that fails or dies leaves files behind, and nothing else.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial

from walferry.base.errors import WalferryError, text_of
from walferry.base.records import Record
from walferry.engine.counters import Counters
from walferry.engine.summary import GroupSummary, Status, shown_ms
from walferry.hbase.names import WalName
from walferry.hbase.wal.errors import WalError
from walferry.hbase.wal.wal_batches import WalBatch
from walferry.load.earlier_loads import initial_snapshots
from walferry.replication.filters.entry_filter import filter_batch
from walferry.replication.filters.rules import FilterRules
from walferry.replication.sinks.changes import Changes, Wal, changes_of, days_in
from walferry.replication.sinks.errors import OnlyCells
from walferry.replication.sinks.iceberg.commits import FirstCopy
from walferry.replication.sinks.iceberg.data_files import ChangeFile, DataFiles, Target
from walferry.replication.sinks.iceberg.tables import LakeError
from walferry.replication.sinks.of_peer import check_only_cells
from walferry.replication.sinks.positions import Position, is_behind
from walferry.replication.source.session import Session, open_session
from walferry.shipping.attempt import why_stopped
from walferry.shipping.candidates import Candidate
from walferry.shipping.giving_up import permission_for
from walferry.shipping.group_job import GroupJob
from walferry.shipping.lake.copied import Fences, fences_of
from walferry.shipping.queued_wals import GroupWals, QueuedWals
from walferry.shipping.runs import write_group

PUBLISH_SECONDS = 2.0  # between two summaries
MOST_UNKNOWN = 1000  # tables that are made before the group is read again
UNKNOWN_SECONDS = 10.0  # for which a task looks for further tables to be made
MOST_LET_GO = 5000  # names of files in one answer, and those of one WAL batch
MOST_DAYS = 500  # on which the entries of a WAL batch may have been written: each becomes a file
MOST_FILES = 800  # of one answer, and those of one WAL batch: their figures are some 750 bytes each
MAX_SHOWN_CHARS = 200

log = logging.getLogger(__name__)


class _Void(Exception):
    """Files could not be written: nothing of what the task has read counts. A signal, not an error."""


@dataclass(frozen=True, kw_only=True)
class LakeJob:
    """One WAL group for a task. `behind` are the positions of tables that already have edits behind the queue's position."""

    job: GroupJob
    server: str
    queue_id: str
    queued: int
    wals: tuple[Candidate, ...]
    rules: FilterRules
    behind: Mapping[str, Position]  # by table
    refused: Mapping[str, str] = field(default_factory=dict, hash=False)  # why tables cannot get edits
    peer_cluster: str
    before: str = ""  # the group's summary so far, as JSON, if the job has shipped some of it already


@dataclass
class LakeGroup(Record):
    """What a task has done. The files have the changes of the first `wals` WALs, and of the next one up to `offset`.

    If the WALs have edits of tables that were not among the targets, it names these, and has no files and no position.
    """

    group: str
    summary: str = ""  # a GroupSummary, as JSON
    wals: int = 0
    offset: int = 0
    ends: dict[str, int] = field(default_factory=dict)  # by the WAL's number: the offset after its last entry
    unclean: dict[str, int] = field(default_factory=dict)  # by the WAL's number: bytes behind the last whole entry
    lost: list[int] = field(default_factory=list)  # numbers of WALs whose bytes are lost
    files: list[ChangeFile] = field(default_factory=list)
    more: bool = False  # whether it has stopped because of many files: the rest can be read once these are committed
    unknown: list[str] = field(default_factory=list)
    let_go: list[str] = field(default_factory=list)  # files of bulk loads that the peer does not get


def read_lake_group(targets: Mapping[str, Target], copied: Mapping[str, FirstCopy], lake_job: LakeJob) -> LakeGroup:
    """Read a group, and write files, without what first copies contain (`copied`, by table).

    An error ends the reading; what was read before it counts. None is raised.
    """
    job = lake_job.job
    before = lake_job.before
    counters = Counters(GroupSummary.from_json(before) if before else GroupSummary(group=job.group))
    try:
        with open_session(job.source) as session:
            return _Reading(targets, copied, lake_job, session, counters).run()
    except Exception as error:  # the other groups go on
        log.exception("WAL group %s of peer %s", job.group, job.peer_id)
        passing = isinstance(error, WalferryError) and error.retry_helps
        counters.end(Status.FAILED, text_of(error), passing=passing)
        return LakeGroup(job.group, counters.summary().to_json())


class _Reading:
    """The reading of one group."""

    def __init__(
        self, targets: Mapping[str, Target], copied: Mapping[str, FirstCopy], lake_job: LakeJob, session: Session,
        counters: Counters,
    ) -> None:  # fmt: skip
        job = lake_job.job
        self._of, self._session, self._counters = lake_job, session, counters
        self._targets, self._copied = targets, copied
        self._fences: dict[str, Fences] = {}  # of the tables that were met, and that have first copies
        self._files = DataFiles(targets)
        self._wals = GroupWals.found(lake_job.wals, session.store)
        self._feed = QueuedWals(
            job=job, wals=self._wals, store=session.store, keys=job.source.keys(), peer_rules=lake_job.rules, counters=counters,
            deadline=time.monotonic() + job.deadline - time.time(), given_up=partial(permission_for, session, job.peer_id),
            loaded=initial_snapshots(session, job.peer_id),
        )  # fmt: skip
        self._unknown: set[str] = set()
        self._unknown_since = 0.0
        self._running = True
        self._more = False
        self._let_go: list[str] = []
        self._whole = 0  # WALs that were read to their ends
        self._published = time.monotonic()
        self._shipped = {"shippedOps": 0, "shippedCells": 0, "shippedBytes": 0}
        self._last_written = 0

    def run(self) -> LakeGroup:
        """Read the WALs in a row, and write the files."""
        of, found = self._of, LakeGroup(self._of.job.group)
        self._counters.begin(
            peer_cluster=of.peer_cluster, server=of.server, queue_id=of.queue_id, queued=of.queued, wals=self._wals.count,
            bytes_to_ship=self._wals.bytes_to_ship,
        )  # fmt: skip
        status, error = self._read_all()
        self._running = False
        self._counters.end(status, error)
        if self._unknown:
            found.summary, found.unknown = self._summary().to_json(), sorted(self._unknown)
            return found
        found.files = self._files.finish()
        self._shipped["unreadCells"] = sum(file.unread for file in found.files)
        found.summary = self._summary().to_json()
        found.more, found.let_go = self._more, self._let_go
        found.wals, found.lost = self._whole, sorted(self._wals.lost)
        if self._whole < self._wals.count:
            found.offset = self._wals.ends.get(self._whole, 0)
        found.ends = {str(number): end for number, end in self._wals.ends.items()}
        found.unclean = {str(number): size for number, size in self._wals.unclean.items()}
        return found

    def _read_all(self) -> tuple[Status, str | None]:
        """Read the WALs. Returns how that ended, and why."""
        for number in range(self._feed.count):
            try:
                if (status := self._read(number)) is not Status.DONE:
                    return status, None
            except WalError as error:
                if not self._feed.ends_at(number, error):
                    return Status.FAILED, text_of(error)
            except (WalferryError, OSError) as error:  # of reading: an error of writing is a _Void
                return Status.FAILED, text_of(error)
            self._whole = number + 1
        return Status.DONE, None

    def _read(self, number: int) -> Status:
        rules = self._feed.rules(number)
        with closing(self._feed.batches(number)) as batches:
            for batch, path in batches:
                if time.time() > self._of.job.deadline or self._knows_enough():
                    return Status.DEADLINE
                if not self._goes_on():
                    return Status.PAUSED
                if self._files.count > MOST_FILES or len(self._let_go) > MOST_LET_GO:
                    self._more = True
                    return Status.DEADLINE
                self._take_to_first_error(number, batch, rules, path)
        return Status.DONE

    def _take_to_first_error(self, number: int, batch: WalBatch, rules: FilterRules, path: str) -> None:
        """Take a WAL batch. If entries raise errors, take the entries before the first one, and raise its error."""
        try:
            self._take(number, batch, rules, path)
        except WalError as error:
            sound = batch.until(error.offset)
            if len(sound.index):
                self._take_to_first_error(number, sound, rules, path)
            raise

    def _goes_on(self) -> bool:
        """Publish the summary now and then. Returns whether the peer may still be shipped. Raises WalferryError."""
        if time.monotonic() - self._published > PUBLISH_SECONDS:
            self._published = time.monotonic()
            job = self._of.job
            write_group(self._session, job.peer_id, job.run_id, self._summary())
            return why_stopped(self._session, job.peer_id) is None
        return True

    def _take(self, number: int, batch: WalBatch, rules: FilterRules, path: str) -> None:
        """Take all changes of some entries, or none if one of them raises WalError. Raises _Void if a file cannot be written."""
        kept = filter_batch(batch, rules, path)
        let_go, tables = check_only_cells(batch, kept, rules, self._of.job.source, path)
        if (days := days_in(batch, kept)) > MOST_DAYS:
            raise OnlyCells(path, batch.entry_offset(0), f"the entries from here on were written on {days:,} days")
        name, cells, added = self._of.wals[number].queued.name, int(kept.cells.sum()), 0
        unknown = self._has_unknown(tables, batch, path)
        self._read_fences(tables, name, batch, path)
        if not unknown:
            try:
                for each in changes_of(batch, kept, Wal(self._of.job.group, name.text, path)):
                    if count := (rest := self._without_committed(each, name)).rows.num_rows:
                        self._files.add(rest)
                        added += count
            except Exception as error:
                raise _Void(f"files of the lake cannot be written: {error}") from error
        self._let_go += let_go
        self._counters.read(batch, kept)
        if added:
            # Of a batch that was committed in part, and not noted, the rest counts.
            self._shipped["shippedOps"] += int(kept.rows.sum()) * added // cells
            self._shipped["shippedCells"] += added
            self._shipped["shippedBytes"] += int(kept.size.sum()) * added // cells
            self._last_written = shown_ms(int(batch.index.write_time[-1]))
        self._feed.handed_out(number, batch)

    def _has_unknown(self, tables: Mapping[str, int], batch: WalBatch, path: str) -> bool:
        """Note tables that are not among the targets, which the driver makes. Returns whether there are any so far.

        Raises OnlyCells for a table that cannot get edits.
        """
        for name, entry in sorted(tables.items(), key=lambda pair: pair[1]):
            if (why := self._of.refused.get(name)) is not None:
                raise OnlyCells(path, batch.entry_offset(entry), why)
        self._unknown |= tables.keys() - self._targets.keys()
        if self._unknown and not self._unknown_since:
            self._unknown_since = time.monotonic()
        return bool(self._unknown)

    def _read_fences(self, tables: Mapping[str, int], wal: WalName, batch: WalBatch, path: str) -> None:
        """Read what first copies of these tables contain, if that may be in the WAL. Raises OnlyCells, ConnectError."""
        for name in sorted(tables.keys() & self._copied.keys() - self._fences.keys()):
            if (copied := self._copied[name]).until < wal.timestamp:
                continue
            try:
                self._fences[name] = fences_of(self._session, self._of.job.peer_id, name, copied)
            except LakeError as error:
                raise OnlyCells(path, batch.entry_offset(tables[name]), str(error)) from error

    def _knows_enough(self) -> bool:
        """Return whether the tables that were met are to be made now, though there may be more."""
        since = self._unknown_since
        return len(self._unknown) >= MOST_UNKNOWN or (since > 0 and time.monotonic() - since > UNKNOWN_SECONDS)

    def _without_committed(self, changes: Changes, wal: WalName) -> Changes:
        """Return the changes that the table does not have yet."""
        if (fences := self._fences.get(changes.table)) is not None:
            changes = fences.rest(changes, wal.text)
        position = self._of.behind.get(changes.table)
        if position is None:
            return changes
        return changes.only(is_behind(position, wal, changes.rows.column("offset").to_numpy()))

    def _summary(self) -> GroupSummary:
        """Return the counts, with what would be shipped by the end of the task: before that, nothing is."""
        shipped = {} if self._running else self._shipped
        summary = replace(self._counters.summary().plus(**shipped), sink="iceberg")
        if self._running or not self._last_written:
            return summary
        age = max(0, int(time.time() * 1000) - self._last_written)
        return replace(summary, timestampOfLastShippedOp=self._last_written, ageOfLastShippedOp=age)
