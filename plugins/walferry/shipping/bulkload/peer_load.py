"""One peer's part in a load: its WAL groups under their leases, its peer cluster, and the load's record.

A load is one peer's, or several peers' that have queued the same WALs: then the WALs are read, sorted and written once. Each peer
keeps its own leases, its own record and its own outcome, so that what befalls one of them does not touch the others.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace

from walferry.base.errors import WalferryError
from walferry.base.jobs import Tell
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
from walferry.load.file_loader import Tries, clean, clean_folders, noted_folder
from walferry.load.records import Load, LoadFolder, begin_load, forget, loads_of, note_done
from walferry.replication.filters.rules import FilterRules, PeerTables
from walferry.replication.peers.peer_tables import peer_tables
from walferry.replication.peers.reading import Peer
from walferry.replication.queues.errors import LastWal, LeaseHeld, QueuesMoving
from walferry.replication.queues.lease import Lease, acquire
from walferry.replication.source.cluster import SourceCluster
from walferry.replication.source.peers import read_peer
from walferry.replication.source.session import Session
from walferry.shipping.bulkload.job import LoadJob, PlannedRegion
from walferry.shipping.bulkload.outcome import LoadedGroup, Verdict
from walferry.shipping.bulkload.targets import Targets, read_targets
from walferry.shipping.bulkload.wals import LoadWal, number_wals, numbered_again
from walferry.shipping.candidates import GroupCandidates, candidates
from walferry.shipping.group import lease_given_up
from walferry.shipping.group_job import GroupJob
from walferry.shipping.runs import read_group, write_group

REGISTERED_AT_ONCE = 16  # groups
SHOWN_TABLES = 10
HELD_SECONDS = 1.0  # until leases that other runs hold are tried again
TRIAL_SECONDS = 60.0  # of patience with a region that moves or a server that restarts, before the load

log = logging.getLogger(__name__)


class NotForFiles(Exception):
    """The backlog is shipped by requests, for the reason in the message. A signal, not an error. `tell`: users have to know."""

    def __init__(self, why: str, *, tell: bool = True) -> None:
        super().__init__(why)
        self.tell = tell


@dataclass(frozen=True)
class TakenGroup:
    """A group under its lease, with the WALs that may be loaded."""

    job: GroupJob
    lease: Lease
    found: GroupCandidates
    wals: Sequence[LoadWal] = ()

    def note_why(self, session: Session, why: str) -> None:
        """Note in the group's summary why it does not go as files."""
        job = self.job
        before = read_group(session, job.peer_id, job.run_id, job.group) or GroupSummary(group=job.group)
        write_group(session, job.peer_id, job.run_id, replace(before, notLoaded=why))


def take_groups(session: Session, jobs: Sequence[GroupJob], leases: ExitStack, *, wait: bool = True) -> list[TakenGroup]:
    """Return the groups with WALs whose leases can be had. Waits once for the leases of all holders that may have been killed.

    Without `wait` it waits for nothing, and raises PeerSettling.
    """
    taken, left = [], list(jobs)
    give_up = lease_given_up(min((job.deadline for job in jobs), default=0.0)) if wait else 0.0
    while left:
        held = []
        for job in left:
            try:
                lease = leases.enter_context(acquire(session, job.peer_id, job.group, job.holder, wait=wait))
                found = candidates(lease.read(job.place))
            except LeaseHeld as error:
                log.info("%s", error)
                held.append(job)
            except QueuesMoving as error:
                log.info("%s", error)
            else:
                if found and found[0].wals:
                    taken.append(TakenGroup(job, lease, found[0]))
        if time.time() > give_up:
            break
        if left := held:
            time.sleep(HELD_SECONDS)
    return taken


def loadable_peer(session: Session, peer_id: str) -> Peer | None:
    """Return a peer as it is once its leases are held; None if it is left alone now, by requests, too."""
    peer = read_peer(session, peer_id)
    return None if peer.paused or peer.serial or under_way(session, peer_id) else peer


@dataclass(frozen=True)
class PeerLoad:
    """A peer's groups with numbered WALs, its peer cluster's tables, and the rules for its edits."""

    session: Session
    peer: Peer
    peer_cluster: Tables
    groups: Sequence[TakenGroup]
    rules: FilterRules
    targets: Targets

    @property
    def wals(self) -> list[LoadWal]:
        """The WALs of all groups, by their numbers."""
        return [wal for group in self.groups for wal in group.wals]

    @property
    def bytes_left(self) -> int:
        """Bytes behind the WALs' positions."""
        return sum(wal.bytes_left for wal in self.wals)

    @property
    def quiet_seconds(self) -> float:
        """How long requests of an earlier run that shipped one of the groups may still take effect."""
        return max(group.lease.right.quiet_seconds for group in self.groups)

    def only(self, names: Collection[str]) -> PeerLoad:
        """Return the peer's part in a load of some of its groups."""
        groups = [group for group in self.groups if group.job.group in names]
        numbered = numbered_again([group.wals for group in groups])
        return replace(self, groups=[replace(group, wals=wals) for group, wals in zip(groups, numbered, strict=True)])

    @property
    def _job(self) -> GroupJob:
        return self.groups[0].job

    def begin(self, *, trial_seconds: float = TRIAL_SECONDS, deadline: float | None = None) -> LoadJob:
        """Note the load, and try whether the peer cluster takes files, for so long if a region moves. Raises NotForFiles.

        No region is loaded after `deadline` (seconds since the epoch), or the run's.
        """
        holder, source = self.groups[0].lease, self._job.source
        record = begin_load(self.session, self.peer.id, self._job.run_id, [group.job.group for group in self.groups], holder)
        job = LoadJob(
            source=source, peer_id=self.peer.id, record=record, peer_state=holder.peer_state, rules=self.rules,
            before=initial_snapshots(self.session, self.peer.id), targets=self.targets, wals=self.wals,
            broken_wals=self._job.broken_wals, deadline=self._job.deadline if deadline is None else deadline,
        )  # fmt: skip
        try:
            name, target = next(iter(self.targets.tables.items()))
            note = LoadFolder(self.session, self.peer.id, record, holder.peer_state)
            planned = PlannedRegion(name, target.regions[0])
            if problem := why_not(note, self.peer_cluster, planned, source.hbase_root, trial_seconds):
                raise NotForFiles(f"the peer cluster takes no files: {problem}")
        except BaseException:
            self.give_up(job)
            raise
        return job

    def give_up(self, job: LoadJob) -> None:
        """End a load of which nothing is noted, and have the files deleted that it has left."""
        with suppress(WalferryError):  # otherwise the next run does it
            clean(Load("", {}, path=job.record), self.session.zk, self.peer_cluster, job.source)

    def note(self, job: LoadJob, verdict: Verdict, seconds: float) -> list[GroupSummary]:
        """Note the loaded edits, and take their WALs out of the queues. Returns the summaries of the groups that are done.

        Raises NotForFiles if nothing is loaded.
        """
        groups, zk, source = self.groups, self.session.zk, job.source
        if not verdict.tables:
            clean(Load("", {}, path=job.record), zk, self.peer_cluster, source)
            raise NotForFiles(verdict.not_loaded or "the WALs have no edits for files", tell=bool(verdict.not_loaded))
        pairs = list(zip(groups, verdict.groups, strict=True))
        ends = {group.job.group: group.wals[done.count - 1].name for group, done in pairs if done.count}
        loaded = Load(self._job.run_id, ends, done=True, tables=verdict.tables)
        note_done(zk, job.record, loaded, groups[0].lease)
        clean_folders(job.record, zk, self.peer_cluster, source)
        with ThreadPoolExecutor(REGISTERED_AT_ONCE, "register") as pool:
            summaries = list(pool.map(lambda pair: self._register(pair[0], pair[1], seconds, verdict.not_loaded), pairs))
        done = [summary for summary in summaries if summary is not None]
        if len(done) == len(groups):  # otherwise the runs that ship the other groups need the record
            forget(zk, job.record)
        return done

    def _register(self, group: TakenGroup, done: LoadedGroup, seconds: float, not_loaded: str) -> GroupSummary | None:
        """Take a group's WALs out of its queue and return its summary, if all of them are loaded and nothing of them is left."""
        run_id = group.job.run_id
        before = read_group(self.session, self.peer.id, run_id, group.job.group)
        whole = done.whole and done.count == len(group.found.wals) and group.job.source.archive is None
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
        write_group(self.session, self.peer.id, run_id, summary)
        return summary if whole else None


@contextmanager
def peer_load(
    session: Session, peer: Peer, groups: Sequence[TakenGroup], say: Tell, *, cleans: bool = True
) -> Iterator[PeerLoad]:
    """Yield the peer's part in a load: look at its peer cluster and at the WALs.

    What killed loads have left is deleted first, or (not `cleans`) is a reason not to load. Raises NotForFiles, PeerError,
    StaleLoad.
    """
    if not cleans and any(load.may_go_on({group.job.group for group in groups}) for load in loads_of(session, peer.id)):
        raise NotForFiles("a load that was killed has left files at its cluster, which its own run has deleted first")
    with _peer_cluster(peer, session.source) as peer_cluster:
        with_wals = _with_wals(session, _without_loaded(session, peer.id, groups, peer_cluster))
        wals = [wal for group in with_wals for wal in group.wals]
        size, least = sum(wal.bytes_left for wal in wals), groups[0].job.settings.least_bytes
        if not wals or size < least:
            raise NotForFiles(f"{len(wals):,} WALs with {size:,} bytes are fewer than {least:,} bytes", tell=False)
        source_id, peer_cluster_id = (cluster_id(at.zk, at.nodes) for at in (session, peer_cluster))
        rules = FilterRules.of_peer(peer, source_id, peer_cluster_id)
        yield PeerLoad(session, peer, peer_cluster, with_wals, rules, _targets(peer, peer_cluster, rules, say))


@contextmanager
def _peer_cluster(peer: Peer, source: SourceCluster) -> Iterator[Tables]:
    """Yield the peer cluster's tables. Raises NotForFiles if its ZooKeeper does not answer: shipping by requests handles that."""
    with ExitStack() as stack:
        try:
            peer_cluster = stack.enter_context(peer_tables(peer, source.login_to(peer)))
        except ConnectError as error:
            raise NotForFiles(str(error)) from error
        yield peer_cluster


def _without_loaded(session: Session, peer_id: str, groups: Sequence[TakenGroup], peer_cluster: Tables) -> list[TakenGroup]:
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


def _with_wals(session: Session, groups: Sequence[TakenGroup]) -> list[TakenGroup]:
    """Return the groups with the WALs that may be loaded, numbered."""
    wanted = [(wal.queued.name, wal.dead_servers) for group in groups for wal in group.found.wals]
    numbered = number_wals([group.found.wals for group in groups], locate_all(session.store, wanted, {}))
    return [replace(group, wals=wals) for group, wals in zip(groups, numbered, strict=True) if wals]


def _targets(peer: Peer, peer_cluster: Tables, rules: FilterRules, say: Tell) -> Targets:
    """Return the peer cluster's tables. Raises NotForFiles."""
    if peer.bandwidth:
        raise NotForFiles("the peer has a bandwidth, which is kept to only when edits go by requests")
    try:
        at = active_master(peer_cluster.zk, peer_cluster.nodes)
        with master.connect(at, login=peer_cluster.login) as connection:
            targets = read_targets(peer_cluster, connection, PeerTables.of_peer(peer), rules.source_id)
    except WalferryError as error:
        raise NotForFiles(f"the peer cluster's tables cannot be read: {error}") from error
    for note in targets.notes:
        say(note)
    if not targets.tables:
        why = "".join(f"; {name.decode()}: {reason}" for name, reason in list(targets.unfit.items())[:SHOWN_TABLES])
        raise NotForFiles(f"the peer cluster has no table that is fit for it{why}")
    return targets


def why_not(
    note: LoadFolder, peer_cluster: Tables, planned: PlannedRegion, source_root: str, seconds: float = TRIAL_SECONDS
) -> str | None:
    """Try whether the peer cluster takes files: have a folder made for a load, make a file in it, and have it deleted.

    Returns the reason if the peer cluster does not. A server of HBase 1 does not know PrepareBulkLoad. With AccessController the
    user needs CREATE or ADMIN on the table. The file system may refuse the write, or be out of reach from here. But a region that
    is on its way to another server says nothing about files: for `seconds` it is looked up again. The folder is noted in `note`.
    """
    tries, place = Tries(seconds=seconds), peer_cluster.place(planned.table.decode())
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
