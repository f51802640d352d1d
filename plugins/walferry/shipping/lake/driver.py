"""The driver of a batch for a lake.

    take the leases of the groups, read their WALs and positions
    read the tables, and up to where each one has all edits           iceberg/commits.py
    tasks: read the WALs, write files                                 reading.py
    commit each table's files, with the positions
    move the positions in the queues, and take finished WALs out

Killed at any step, the next batch goes on from the positions in the queues, and leaves out of each table what that table has
already. Of two drivers that believe to hold a lease, one can commit.
"""

from __future__ import annotations

import logging
import operator
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial

from walferry.base.errors import WalferryError, text_of
from walferry.base.jobs import Backend, BackendFailed, Tell
from walferry.base.texts import one_line
from walferry.base.zk.fenced_lock import is_held
from walferry.engine.counters import Counters
from walferry.engine.in_flight import WalOffset
from walferry.engine.summary import GroupSummary, Status
from walferry.hbase.errors import PeerError
from walferry.hbase.names import TABLE, WalName, parse_wal_name
from walferry.load.copy_records import under_way
from walferry.replication.filters.rules import FilterRules
from walferry.replication.peers.reading import Peer, check_shippable
from walferry.replication.queues.consistent import looked_for
from walferry.replication.queues.errors import LeaseLost
from walferry.replication.queues.queue import edits_through
from walferry.replication.queues.reading import queued_names
from walferry.replication.sinks.iceberg.commits import Batch, append
from walferry.replication.sinks.iceberg.data_files import ChangeFile
from walferry.replication.sinks.iceberg.tables import LakeError
from walferry.replication.sinks.positions import Position, is_ahead, order_of
from walferry.replication.source.agreement import check_queues_complete
from walferry.replication.source.peers import read_peer
from walferry.replication.source.session import Session, open_session
from walferry.shipping.bulkload.peer_load import TakenGroup, take_groups
from walferry.shipping.candidates import candidates
from walferry.shipping.group_job import GroupJob
from walferry.shipping.lake.catalog import Lake, identifier, is_file_of
from walferry.shipping.lake.reading import LakeGroup, LakeJob, read_lake_group
from walferry.shipping.lake.tables import LakeTables
from walferry.shipping.queue_positions import Archiver, QueuePositions
from walferry.shipping.queued_wals import GroupWals
from walferry.shipping.runs import read_group, write_group

FORGET_SECONDS = 7 * 86_400.0
MAX_CHARS = 300  # of what is shown of an answer
LATE_SECONDS = 60.0
ARCHIVE_SECONDS = 0.5  # between two looks at copies under way

log = logging.getLogger(__name__)


def ship_to_lake(jobs: Sequence[GroupJob], catalog: str, on: Backend, say: Tell) -> list[GroupSummary]:
    """Ship the groups' closed WALs into the tables of a catalog. Returns a summary of each group.

    Raises LakeError, BackendFailed, and WalferryError: what was not noted until then stays queued.
    """
    with open_session(jobs[0].source) as session, ExitStack() as held:
        groups = take_groups(session, jobs, held)
        peer = read_peer(session, jobs[0].peer_id)
        check_shippable(peer)
        if peer.serial:
            raise PeerError(peer.id, f"it is serial, and goes to {peer.target}", "Set SERIAL => false: sequence_id has the order")
        if (copying := under_way(session, peer.id)) is not None:
            raise LakeError(str(copying))
        taken = {group.job.group for group in groups}
        others = [_not_taken(session, job) for job in jobs if job.group not in taken]
        broken = {group.job.group: why for group in groups if (why := _broken_position(group))}
        others += [_failed(session, group, broken[group.job.group]) for group in groups if group.job.group in broken]
        groups = [group for group in groups if group.job.group not in broken]
        if not groups:
            return others
        done = {job.group: read_group(session, job.peer_id, job.run_id, job.group) for job in jobs}
        ended: dict[str, GroupSummary] = {}
        try:
            lake = Lake.of(session, peer, catalog)
            while groups:
                before = {name: summary for name, summary in {**done, **ended}.items() if summary is not None}
                round_ = _Batch(session, peer, lake, groups, say, before).run(on)
                ended |= {summary.group: summary for summary, _ in round_}
                left = {summary.group for summary, more in round_ if more and summary.status is Status.DEADLINE}
                groups = [found for group in groups if group.job.group in left for found in _found_again(group)]
        except WalferryError as error:
            for group in groups:
                _failed(session, group, text_of(error), passing=error.retry_helps)
            raise
        return [*ended.values(), *others]


def _found_again(group: TakenGroup) -> Iterator[TakenGroup]:
    """Yield a group with the WALs that are left, if there are any. Raises LeaseLost, QueuesMoving, ConnectError."""
    for found in candidates(group.lease.read(group.job.place)):
        if found.wals:
            yield replace(group, found=found)


def _broken_position(group: TakenGroup) -> str:
    """Return why a group cannot be read: the position of its first WAL makes no sense. Empty if it does."""
    found = group.found.wals[0].queued.position_or_problem
    return "" if isinstance(found, int) else str(found)


def _failed(session: Session, group: TakenGroup, why: str, *, passing: bool = False) -> GroupSummary:
    """Write that a group has failed before anything of it was read, or committed."""
    job = group.job
    before = read_group(session, job.peer_id, job.run_id, job.group) or GroupSummary(group=job.group)
    summary = replace(
        before, server=group.found.server, queue_id=group.found.queue_id, status=Status.FAILED, error=why, passing=passing,
        sizeOfLogQueue=group.found.queued,
    )  # fmt: skip
    write_group(session, group.job.peer_id, group.job.run_id, summary)
    return summary


def _not_taken(session: Session, job: GroupJob) -> GroupSummary:
    """Return the summary of a group whose lease another run holds, or that has nothing to ship by now."""
    before = read_group(session, job.peer_id, job.run_id, job.group) or GroupSummary(group=job.group)
    if is_held(session.zk, session.own.lease(job.peer_id, job.group)):
        return replace(before, status=Status.HELD, error="another run ships it")
    return replace(before, status=Status.DONE, error=None)


@dataclass(frozen=True)
class _Batch:
    """A batch of groups whose leases are held."""

    session: Session
    peer: Peer
    lake: Lake
    groups: Sequence[TakenGroup]
    say: Tell
    before: Mapping[str, GroupSummary]  # of groups of which the job has shipped some already

    def run(self, on: Backend) -> list[tuple[GroupSummary, bool]]:
        """Read, commit, and move the positions. Returns each group's summary, and whether more of it can be read at once."""
        tables = LakeTables.of(self.lake, self.session, self.peer)
        found = self._read(tables, on)
        self._commit(tables, found)
        return [(self._register(group, done), done.more) for group, done in zip(self.groups, found, strict=True)]

    def _read(self, tables: LakeTables, on: Backend) -> list[LakeGroup]:
        """Have the groups read. Tables that the tasks meet and nobody knew are made, and such groups are read again.

        If there is no time for that, such a group has read nothing: the next batch knows the tables.
        """
        done: dict[str, LakeGroup] = {}
        left = list(self._jobs(tables, done))
        while left:
            targets = {name: tables.target(name) for name in tables.open}
            oldest = min(job.wals[0].queued.name.timestamp for job in left)
            answers = on.run(partial(read_lake_group, targets, tables.copied(oldest)), left, LakeGroup, lost=_lost)
            for job, answer in zip(left, answers, strict=True):
                if why := _why_wrong(job, answer, tables):
                    raise BackendFailed(f"the answer for WAL group {job.job.group} makes no sense: {one_line(why, MAX_CHARS)}")
            done |= {answer.group: answer for answer in answers if not answer.unknown}
            for name in sorted({name for answer in answers for name in answer.unknown}):
                self.say(f"table {name} gets a table of changes: {'.'.join(identifier(name))}")
                tables.add(name)
            left = list(self._jobs(tables, done))
            if left and time.time() > left[0].job.deadline:
                done |= {job.job.group: _unread(job) for job in left}
                break
        return [done[group.job.group] for group in self.groups]

    def _jobs(self, tables: LakeTables, done: Collection[str]) -> Iterator[LakeJob]:
        """Yield a job for each group that is not `done`."""
        rules = FilterRules.of_peer(self.peer, self.lake.source_id, self.lake.id)
        for group in (each for each in self.groups if each.job.group not in done):
            found, first = group.found, group.found.wals[0].queued
            begins = first.name.timestamp, first.position
            behind = {
                name: position
                for name, positions in tables.seen.items()
                if (position := positions.groups.get(found.group)) and order_of(position) > begins
            }
            refused = dict(tables.refused) | {
                name: f"it has WAL group {found.group} up to {position[0]}, which is not queued, though older WALs are"
                for name, position in behind.items()
                if is_ahead(position, [wal.queued.name for wal in found.wals])
            }
            before = self.before.get(found.group)
            yield LakeJob(
                job=group.job, server=found.server, queue_id=found.queue_id, queued=found.queued, wals=found.wals, rules=rules,
                behind=behind, refused=refused, peer_cluster=self.peer.target, before=before.to_json() if before else "",
            )  # fmt: skip

    def _commit(self, tables: LakeTables, found: Sequence[LakeGroup]) -> None:
        """Commit the files of each table. Raises LakeError: the tables that were committed before have their edits then."""
        moved = {
            group.job.group: position
            for group, done in zip(self.groups, found, strict=True)
            if (position := _position(group, done)) is not None
        }
        files: dict[str, list[ChangeFile]] = {}
        for file in (file for done in found for file in done.files):
            files.setdefault(file.table, []).append(file)
        began, rows = time.monotonic(), 0
        now, queued = int(time.time() * 1000), self._queued() if files else None
        groups = frozenset() if queued is None else {wal.group for wal in queued}
        through = None if queued is None else self._valid_through(queued, found, now)
        batch = Batch(self.lake.feed, self.groups[0].job.run_id, through)
        for name in sorted(files):
            self._check_leases()
            seen, known = tables.seen[name], tables.seen[name].groups
            ahead = {group: max(position, known.get(group, position), key=order_of) for group, position in moved.items()}
            gone = () if queued is None else [group for group in known.keys() - groups - ahead.keys() if _is_old(known[group])]
            append(tables.open[name], batch, files[name], seen=seen, moved=ahead, gone=gone)
            rows += sum(file.rows for file in files[name])
            if unread := sum(file.unread for file in files[name]):
                self.say(f"table {name}: {unread:,} cells have a typed column that could not be read")
        if files:
            self.say(
                f"committed {rows:,} changes in {sum(map(len, files.values())):,} files to {len(files):,} tables within "
                f"{time.monotonic() - began:.1f} s"
            )

    def _check_leases(self) -> None:
        """Raise LeaseLost unless the leases hold. A driver without them is refused by the tables, too, but later."""
        for group in self.groups:
            if not group.lease.is_sure():
                raise LeaseLost(self.peer.id, group.job.group, "it has ended while the WALs were read")

    def _queued(self) -> frozenset[WalName] | None:
        """Return the WALs that are queued now; None if that is not known. A group that has left the queues never comes back."""
        try:
            check_queues_complete(self.session, self.peer.id)
            found: frozenset[WalName] = looked_for(self.session, lambda: queued_names(self.session, self.peer.id), operator.or_)
            check_queues_complete(self.session, self.peer.id)  # a server may have died in between
            return found
        except WalferryError as error:
            log.info("positions of WAL groups that are gone stay in the lake: %s", error)
            return None

    def _valid_through(self, queued: Collection[WalName], found: Sequence[LakeGroup], now: int) -> int:
        """Return the time up to which the tables have all edits once this batch is committed. `now` (ms) is before `queued`."""
        read = {
            wal.queued.name.text for group, done in zip(self.groups, found, strict=True) for wal in group.found.wals[: done.wals]
        }
        return edits_through(min([now, *(wal.timestamp for wal in queued if wal.text not in read)]))

    def _register(self, group: TakenGroup, done: LakeGroup) -> GroupSummary:
        """Move a group's position, take its finished WALs out of the queue, and write its summary."""
        summary = GroupSummary.from_json(done.summary)
        counters = Counters(summary)
        try:
            self._move(group, done, counters)
        except WalferryError as error:
            counters.end(Status.FAILED, text_of(error), passing=error.retry_helps)
        else:
            counters.end(summary.status, summary.error, passing=summary.passing)
        ended = replace(counters.summary(), seconds=summary.seconds, cpuSeconds=summary.cpuSeconds)
        write_group(self.session, self.peer.id, group.job.run_id, ended)
        return ended

    def _move(self, group: TakenGroup, done: LakeGroup, counters: Counters) -> None:
        """Move a group's position. Raises LeaseLost, StorageError, ConnectError, and the archive's errors."""
        wals = GroupWals.found(group.found.wals, self.session.store)
        wals.ends = {int(number): end for number, end in done.ends.items()}
        wals.unclean = {int(number): size for number, size in done.unclean.items()}
        wals.lost = set(done.lost)
        group.lease.remove_hfile_refs(done.let_go)
        failed = list[BaseException]()
        positions = QueuePositions(wals, group.lease, counters, Archiver(self.session, failed.append, lambda *_: False))
        offset = WalOffset(done.wals, done.offset)
        try:
            positions.commit(offset)
            before, late = counters.summary().completedLogs, group.job.deadline + LATE_SECONDS
            # In HBase 3 no position moves behind a WAL that is being copied. So a batch waits for one copy, even if it is late.
            while positions.pending and not failed:
                one = counters.summary().completedLogs > before
                if time.time() > (group.job.deadline if one else late):
                    break
                time.sleep(ARCHIVE_SECONDS)
                positions.commit(offset)
            positions.commit(offset)
        finally:
            positions.stop()
        for error in failed:
            raise error


def _why_wrong(job: LakeJob, answer: LakeGroup, tables: LakeTables) -> str:
    """Return what is wrong with a task's answer; empty if it may be committed."""
    if answer.group != job.job.group:
        return f"it is one for {answer.group}"
    if odd := [name for name in answer.unknown if name in tables.known or not TABLE.fullmatch(name)]:
        return f"{odd[0]} is no table to be made"
    if not 0 <= answer.wals <= len(job.wals) or answer.offset < 0:
        return f"it has read {answer.wals} of {len(job.wals)} WALs, up to {answer.offset}"
    for file in answer.files:
        if not is_file_of(tables.open.get(file.table), file.path):
            return f"{file.path} is no file of table {file.table}"
    return ""


def _lost(job: LakeJob, why: str) -> LakeGroup:
    summary = GroupSummary(group=job.job.group, status=Status.FAILED, error=why)
    return LakeGroup(job.job.group, summary.to_json())


def _unread(job: LakeJob) -> LakeGroup:
    summary = GroupSummary(group=job.job.group, server=job.server, queue_id=job.queue_id, status=Status.DEADLINE)
    return LakeGroup(job.job.group, replace(summary, sizeOfLogQueue=job.queued).to_json())


def _position(group: TakenGroup, done: LakeGroup) -> Position | None:
    """Return the WAL and the offset up to which a task has read a group; None if it has read nothing."""
    names = [wal.queued.name.text for wal in group.found.wals]
    if done.offset and done.wals < len(names):
        return names[done.wals], done.offset
    if not done.wals:
        return None
    last = done.wals - 1
    return names[last], done.ends.get(str(last), group.found.wals[last].queued.position)


def _is_old(position: Position) -> bool:
    """Return whether a WAL was begun long ago, so that no claim of its queue is under way, which a listing could miss."""
    return time.time() * 1000 - parse_wal_name(position[0]).timestamp > FORGET_SECONDS * 1000
