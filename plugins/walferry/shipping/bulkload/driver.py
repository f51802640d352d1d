"""Loads a peer's queued WALs as files: the work of a Spark job's driver before and after the tasks.

    take the leases of the groups, read their WALs and positions, find the files
    look at the peer cluster's tables                             targets.py
    note the load                                                 load/records.py
    try whether the peer cluster takes files at all
    tasks: read, filter, count the edits of each region           survey.py
    deal the regions out to tasks                                 shares.py
    tasks: read, filter, sort, merge, write, load                 loading.py
    note what is loaded                                           from here on these edits count as shipped, and no task
    have the folders deleted that tasks have left                 can load anything any more
    take the WALs of groups that are loaded completely out of the queues, give up the leases

A group may have edits that are left over, such as edits of a table that is unfit for files. Such groups are then shipped by
requests as always, but without the edits that are loaded.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from uuid import UUID

from walferry.base.errors import WalferryError
from walferry.base.jobs import Backend, Tell
from walferry.base.zk.errors import ConnectError
from walferry.engine.summary import GroupSummary
from walferry.hbase.cluster import cluster_id
from walferry.hbase.cluster import master as active_master
from walferry.hbase.files.listing import locate_all
from walferry.hbase.files.systems import NewFile
from walferry.hbase.rpc import master
from walferry.hbase.rpc.errors import RpcError
from walferry.hbase.tables.errors import RegionUnavailable
from walferry.hbase.tables.tables import Tables
from walferry.load.copy_records import under_way
from walferry.load.earlier_loads import initial_snapshots
from walferry.load.errors import EditsDiffer
from walferry.load.file_loader import Tries, clean, clean_folders, noted_folder
from walferry.load.records import Load, LoadFolder, begin_load, forget, loads_of, note_done
from walferry.replication.filters.rules import FilterRules, PeerTables
from walferry.replication.peers.peer_tables import peer_tables
from walferry.replication.peers.reading import Peer
from walferry.replication.queues.errors import LastWal, LeaseHeld, QueuesMoving
from walferry.replication.queues.lease import Lease, acquire
from walferry.replication.source.cluster import SourceCluster
from walferry.replication.source.peers import read_peer
from walferry.replication.source.session import Session, open_session
from walferry.shipping.bulkload.job import LoadJob, PlannedRegion
from walferry.shipping.bulkload.load_spread import load_all, survey_all
from walferry.shipping.bulkload.outcome import LoadedGroup, Verdict, verdict_of
from walferry.shipping.bulkload.shares import Share, shares_of
from walferry.shipping.bulkload.survey import WalSurvey, Wanted, wanted_of
from walferry.shipping.bulkload.targets import Targets, read_targets
from walferry.shipping.bulkload.wals import LoadWal, number_wals
from walferry.shipping.candidates import GroupCandidates, candidates
from walferry.shipping.group import lease_given_up
from walferry.shipping.group_job import GroupJob, Left
from walferry.shipping.runs import read_group, write_group

REGISTERED_AT_ONCE = 16  # groups
SHOWN_TABLES = 10
HELD_SECONDS = 1.0  # until leases that other runs hold are tried again
TRIAL_SECONDS = 60.0  # of patience with a region that moves or a server that restarts, before the load

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Group:
    """A group under its lease, with the WALs that may be loaded."""

    job: GroupJob
    lease: Lease
    found: GroupCandidates
    wals: Sequence[LoadWal] = ()


def load_backlog(jobs: Sequence[GroupJob], on: Backend, *, say: Tell = print, tell: Tell = print) -> Left:
    """Load as many of the groups' edits as possible, unless an initial snapshot is under way.

    The jobs are one run's. `say` gets the log's lines, `tell` the progress. Uses the backend only if there is anything to load.
    Raises LeaseLost, LoadOvertaken, StaleLoad, and the tasks' errors: then no WAL leaves its queue; the next try begins again.
    """
    peer_id = jobs[0].peer_id
    with open_session(jobs[0].source) as session, ExitStack() as leases:
        groups = _taken(session, jobs, leases)
        if not groups:
            return Left((), jobs)
        peer = read_peer(session, peer_id)  # as it is once the leases are held
        if peer.paused or peer.serial or under_way(session, peer_id):
            return Left((), jobs)  # shipping by requests leaves the peer alone too
        try:
            with _peer_cluster(peer, session.source) as peer_cluster:
                groups = _without_loaded(session, peer_id, groups, peer_cluster)
                done = _Loading(session, peer, peer_cluster, jobs[0], groups, say, tell).run(on)
        except NotForFiles as why:
            say(f"nothing is loaded as files: {why}")
            if why.tell:
                for group in groups:
                    _note_why(session, group.job, str(why))
            return Left((), jobs)
    finished = {summary.group for summary in done}
    return Left(done, [job for job in jobs if job.group not in finished])


class NotForFiles(Exception):
    """The backlog is shipped by requests, for the reason in the message. A signal, not an error. `tell`: users have to know."""

    def __init__(self, why: str, *, tell: bool = True) -> None:
        super().__init__(why)
        self.tell = tell


@contextmanager
def _peer_cluster(peer: Peer, source: SourceCluster) -> Iterator[Tables]:
    """Yield the peer cluster's tables. Raises NotForFiles if its ZooKeeper does not answer: shipping by requests handles that."""
    with ExitStack() as stack:
        try:
            peer_cluster = stack.enter_context(peer_tables(peer, source.login_to(peer)))
        except ConnectError as error:
            raise NotForFiles(str(error)) from error
        yield peer_cluster


def _note_why(session: Session, job: GroupJob, why: str) -> None:
    """Note in a group's summary why it does not go as files."""
    before = read_group(session, job.peer_id, job.run_id, job.group) or GroupSummary(group=job.group)
    write_group(session, job.peer_id, job.run_id, replace(before, notLoaded=why))


def _taken(session: Session, jobs: Sequence[GroupJob], leases: ExitStack) -> list[_Group]:
    """Return the groups with WALs whose leases can be had. Waits once for the leases of all holders that may have been killed."""
    taken, left = [], list(jobs)
    give_up = lease_given_up(min((job.deadline for job in jobs), default=0.0))
    while left:
        held = []
        for job in left:
            try:
                lease = leases.enter_context(acquire(session, job.peer_id, job.group, job.holder))
                found = candidates(lease.read(job.place))
            except LeaseHeld as error:
                log.info("%s", error)
                held.append(job)
            except QueuesMoving as error:
                log.info("%s", error)
            else:
                if found and found[0].wals:
                    taken.append(_Group(job, lease, found[0]))
        if time.time() > give_up:
            break
        if left := held:
            time.sleep(HELD_SECONDS)
    return taken


def _without_loaded(session: Session, peer_id: str, groups: Sequence[_Group], peer_cluster: Tables) -> list[_Group]:
    """Return the groups without loaded WALs, after deleting files that their killed loads have left at the peer cluster.

    The tasks leave out edits that an initial snapshot contains because it is newer.
    """
    names = {group.job.group for group in groups}
    left = list(groups)
    for load in loads_of(session, peer_id):
        if load.may_go_on(names):
            clean(load, session.zk, peer_cluster, session.source)
        if not load.initial_snapshot:
            left = [group for group in left if not any(load.covers(wal.queued.name.text) for wal in group.found.wals)]
    return left


@dataclass(frozen=True)
class _Loading:
    """A load of groups whose leases are held. `job` is one of the run's jobs."""

    session: Session
    peer: Peer
    peer_cluster: Tables
    job: GroupJob
    groups: Sequence[_Group]
    say: Tell
    tell: Tell

    def run(self, on: Backend) -> list[GroupSummary]:
        """Load the groups. Returns the summaries of the groups that are done. Raises NotForFiles."""
        began = time.monotonic()
        groups = self._with_wals()
        wals = [wal for group in groups for wal in group.wals]
        size = sum(wal.bytes_left for wal in wals)
        least = self.job.settings.least_bytes
        if not wals or size < least:
            raise NotForFiles(f"{len(wals):,} WALs with {size:,} bytes are fewer than {least:,} bytes", tell=False)
        rules = self._rules()
        targets = self._targets(rules.source_id)
        self._await_quiet()
        holder = groups[0].lease
        record = begin_load(self.session, self.peer.id, self.job.run_id, [group.job.group for group in groups], holder)
        try:
            name, target = next(iter(targets.tables.items()))
            note = LoadFolder(self.session, self.peer.id, record, holder.peer_state)
            planned = PlannedRegion(name, target.regions[0])
            if problem := why_not(note, self.peer_cluster, planned, self.job.source.hbase_root):
                raise NotForFiles(f"the peer cluster takes no files: {problem}")
            verdict = self._load(self._load_job(holder, record, rules, targets, wals), [group.wals for group in groups], on, size)
        except BaseException:
            with suppress(WalferryError):  # otherwise the next run does it
                clean(Load("", {}, path=record), self.session.zk, self.peer_cluster, self.job.source)
            raise
        self.say(verdict.loaded)
        if verdict.not_loaded:
            self.say(verdict.not_loaded)
        return self._note(groups, verdict, record, time.monotonic() - began)

    def _await_quiet(self) -> None:
        """Wait until no request of an earlier run that shipped one of the groups can take effect any more.

        Raises NotForFiles if that takes longer than this run has. The driver waits because the tasks' own clocks may be behind.
        """
        seconds = max(group.lease.right.quiet_seconds for group in self.groups)
        if not seconds:
            return
        why = "requests of an earlier run that was cut short may still take effect"
        if time.time() + seconds > self.job.deadline:
            raise NotForFiles(f"for {seconds:.0f} s {why}, and this run's deadline comes before that", tell=False)
        self.say(f"waiting for {seconds:.0f} s: {why}")
        time.sleep(seconds)

    def _load_job(self, holder: Lease, record: str, rules: FilterRules, targets: Targets, wals: Sequence[LoadWal]) -> LoadJob:
        return LoadJob(
            source=self.job.source, peer_id=self.peer.id, record=record, peer_state=holder.peer_state, rules=rules,
            before=initial_snapshots(self.session, self.peer.id), targets=targets, wals=wals, broken_wals=self.job.broken_wals,
            deadline=self.job.deadline,
        )  # fmt: skip

    def _load(self, job: LoadJob, groups: Sequence[Sequence[LoadWal]], on: Backend, size: int) -> Verdict:
        """Read the WALs of the groups, with `size` bytes, and load their edits."""
        self.say(
            f"{len(job.wals):,} WALs with {size:,} bytes are loaded as files; the peer cluster has {len(job.regions):,} regions "
            f"of {len(job.targets.tables):,} tables that are fit for it"
        )
        surveys = survey_all(on, self.tell, job)
        found = list(zip(job.wals, surveys, strict=True))
        wanted = wanted_of(found)
        fit = [number for number, planned in enumerate(job.regions) if wanted.table(planned.table)]
        kept = [(wal, survey) for wal, survey in found if wal.number not in wanted.not_wals]
        shares = shares_of(kept, fit, on)
        _check_complete([survey for _, survey in kept], wanted, shares)
        self.say(
            f"{sum(len(share.regions) for share in shares):,} regions get edits, in {len(shares):,} parts, which read "
            f"{sum(len(share.wals) for share in shares):,} WALs"
        )
        return verdict_of(load_all(on, self.tell, job, shares), wanted, surveys, job.targets, groups)

    def _with_wals(self) -> list[_Group]:
        """Return the groups with the WALs that may be loaded, numbered."""
        wanted = [(wal.queued.name, wal.dead_servers) for group in self.groups for wal in group.found.wals]
        numbered = number_wals([group.found.wals for group in self.groups], locate_all(self.session.store, wanted, {}))
        with_wals = zip(self.groups, numbered, strict=True)
        return [_Group(group.job, group.lease, group.found, wals) for group, wals in with_wals if wals]

    def _rules(self) -> FilterRules:
        source_id, peer_cluster_id = (cluster_id(at.zk, at.nodes) for at in (self.session, self.peer_cluster))
        return FilterRules.of_peer(self.peer, source_id, peer_cluster_id)

    def _targets(self, source_id: UUID) -> Targets:
        """Return the peer cluster's tables. Raises NotForFiles."""
        if self.peer.bandwidth:
            raise NotForFiles("the peer has a bandwidth, which is kept to only when edits go by requests")
        try:
            at = active_master(self.peer_cluster.zk, self.peer_cluster.nodes)
            with master.connect(at, login=self.peer_cluster.login) as connection:
                targets = read_targets(self.peer_cluster, connection, PeerTables.of_peer(self.peer), source_id)
        except WalferryError as error:
            raise NotForFiles(f"the peer cluster's tables cannot be read: {error}") from error
        for note in targets.notes:
            self.say(note)
        if not targets.tables:
            why = "".join(f"; {name.decode()}: {reason}" for name, reason in list(targets.unfit.items())[:SHOWN_TABLES])
            raise NotForFiles(f"the peer cluster has no table that is fit for it{why}")
        return targets

    def _note(self, groups: Sequence[_Group], verdict: Verdict, record: str, seconds: float) -> list[GroupSummary]:
        """Note the loaded edits, and take their WALs out of the queues. Returns the summaries of the groups that are done."""
        if not verdict.tables:
            clean(Load("", {}, path=record), self.session.zk, self.peer_cluster, self.job.source)
            raise NotForFiles(verdict.not_loaded or "the WALs have no edits for files", tell=bool(verdict.not_loaded))
        pairs = list(zip(groups, verdict.groups, strict=True))
        ends = {group.job.group: group.wals[done.count - 1].name for group, done in pairs if done.count}
        loaded = Load(self.job.run_id, ends, done=True, tables=verdict.tables)
        note_done(self.session.zk, record, loaded, groups[0].lease)
        clean_folders(record, self.session.zk, self.peer_cluster, self.job.source)
        with ThreadPoolExecutor(REGISTERED_AT_ONCE, "register") as pool:
            summaries = list(pool.map(lambda pair: self._register(pair[0], pair[1], seconds, verdict.not_loaded), pairs))
        done = [summary for summary in summaries if summary is not None]
        if len(done) == len(groups):  # otherwise the runs that ship the other groups need the record
            forget(self.session.zk, record)
        return done

    def _register(self, group: _Group, done: LoadedGroup, seconds: float, not_loaded: str) -> GroupSummary | None:
        """Take a group's WALs out of its queue and return its summary, if all of them are loaded and nothing of them is left."""
        before = read_group(self.session, self.peer.id, self.job.run_id, group.job.group)
        whole = done.whole and done.count == len(group.found.wals) and self.job.source.archive is None
        removed = 0
        if whole:
            for wal, report in zip(group.wals, done.reports, strict=True):
                group.lease.remove_hfile_refs(report.let_go)
                try:
                    removed += group.lease.remove_wal(wal.name)
                except LastWal:  # the newer WALs have left the queue: this WAL stays, fully shipped
                    group.lease.register_position(wal.name, report.end)
        summary = done.summary(
            before or GroupSummary(group=group.job.group), group.found, group.wals, peer_cluster=str(self.peer.peer_cluster),
            whole=whole, removed=removed, seconds=seconds, not_loaded="" if whole else not_loaded,
        )  # fmt: skip
        write_group(self.session, self.peer.id, self.job.run_id, summary)
        return summary if whole else None


def _check_complete(surveys: Sequence[WalSurvey], wanted: Wanted, shares: Sequence[Share]) -> None:
    """Check that the shares have as many cells as the filters kept of the WALs that are loaded. Raises EditsDiffer."""
    kept = sum(
        cells
        for survey in surveys
        for table, (_, cells, *_) in survey.report.tables.items() if table not in wanted.unfit
    )  # fmt: skip
    dealt = sum(cells for share in shares for _, cells in share.regions)
    if kept != dealt:
        raise EditsDiffer(
            f"the WALs have {kept:,} cells for files, and {dealt:,} were found in their regions",
            "Nothing leaves the queues. Ship by sink=direct, and report this message",
        )


def why_not(note: LoadFolder, peer_cluster: Tables, planned: PlannedRegion, source_root: str) -> str | None:
    """Try whether the peer cluster takes files: have a folder made for a load, make a file in it, and have it deleted.

    Returns the reason if the peer cluster does not. A server of HBase 1 does not know PrepareBulkLoad. With AccessController the
    user needs CREATE or ADMIN on the table. The file system may refuse the write, or be out of reach from here. But a region that
    is on its way to another server says nothing about files: it is looked up again. The folder is noted in `note`.
    """
    tries, place = Tries(seconds=TRIAL_SECONDS), peer_cluster.place(planned.table.decode())
    while True:
        try:
            target = place.locate(planned.region.start)
            folder = noted_folder(place, target, peer_cluster.login, source_root, note, surely=True)
            with folder as (_, token), NewFile(f"{token}/trial"):
                return None  # the file is empty: HDFS takes half a second to end a file with a block
        except (RpcError, RegionUnavailable) as error:
            if not tries.again(error):
                return str(error)
        except (WalferryError, OSError) as error:
            return str(error)
