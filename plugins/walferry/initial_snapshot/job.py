"""Copies the tables of a new peer to its peer cluster: the job, from its start to its end. Each task copies some regions.

Copied regions are noted in ZooKeeper (walferry.load.copy_records), so the job may be killed at any time, and the next one goes
on. While the job runs, it reports its progress.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import ClassVar

from walferry.base.jobs import Backend, JobOutcome, Tell
from walferry.base.periodic import every
from walferry.hbase.cluster import cluster_id
from walferry.hbase.cluster import master as active_master
from walferry.hbase.names import family_text
from walferry.hbase.rpc import master
from walferry.hbase.rpc.connection import Connection
from walferry.hbase.tables.snapshots import read_manifest, regions_of, split_keys
from walferry.hbase.tables.tables import Tables
from walferry.initial_snapshot.beginning import (
    WAIT_SECONDS,
    BegunTable,
    Copied,
    await_quiet,
    begin_tables,
    check_queued,
    choose_tables,
    copying,
    ended_before,
    peer_to_copy,
)
from walferry.initial_snapshot.files_copy import clean
from walferry.initial_snapshot.lives import lives
from walferry.initial_snapshot.region_copy import CopiedRegions, RegionOutcome, RegionTask, copy_some
from walferry.initial_snapshot.snapshots import TakeSnapshot, snapshots
from walferry.initial_snapshot.targets import check_target, has_rows, make_target, reported
from walferry.load.copied_tables import ChosenTable
from walferry.load.copy_records import MAX_NAMED, MAX_TABLES, CopyState, CopyWay, Records, RegionRecord, TableRecord, is_copied
from walferry.load.errors import CopyRefused
from walferry.load.fence import Claim
from walferry.load.staging import PATIENCE_SECONDS
from walferry.replication.peers.peer_tables import peer_tables
from walferry.replication.peers.reading import Peer
from walferry.replication.source.session import Session, open_session
from walferry.replication.source.source_job import SourceJob

TASKS_A_CORE = 8  # each connects to both clusters once; the last tasks should end at about the same time
PROGRESS_SECONDS = 10.0

log = logging.getLogger(__name__)

Spread = Callable[[Sequence[RegionTask]], Collection[RegionOutcome]]


@dataclass(frozen=True, kw_only=True)
class CopyRun(SourceJob):
    """A request to copy `tables`; without any, all tables that the peer replicates."""

    kind: ClassVar[str] = "copy"
    nothing_done: ClassVar[str] = "the initial snapshot has stopped"

    tables: tuple[str, ...] = ()
    allow_not_empty: bool = False  # copy into tables that have rows at the peer cluster

    def run(self, on: Backend, say: Tell) -> JobOutcome:
        """Copy all tables and regions that are not copied yet. Raises the errors of initial_snapshot."""
        copied = self._copy(on, say)
        return JobOutcome(errors=copied.errors, failed=not copied.state.complete, result=json.dumps(asdict(copied.state)))

    def _copy(self, on: Backend, say: Tell) -> Copied:
        with open_session(self.source, look_only=True) as session:
            into_lake = bool(peer_to_copy(session, self.peer_id).lake)
        if not into_lake:
            return initial_snapshot(self, partial(self._spread, on), say)
        if self.allow_not_empty:
            why = f"peer {self.peer_id} goes into a lake, whose tables would have rows twice"
            raise CopyRefused(why, "Leave out allow_not_empty")
        from walferry.initial_snapshot.into_lake import copy_into_lake

        return copy_into_lake(self, self.tables, on, say)

    def _spread(self, on: Backend, tasks: Sequence[RegionTask]) -> list[RegionOutcome]:
        """Copy the regions, the largest first, dealt out to the tasks."""
        count = min(len(tasks), TASKS_A_CORE * on.cores)
        dealt = [tasks[first::count] for first in range(count)]
        copied = on.run(partial(copy_some, self.source, self.peer_id), dealt, CopiedRegions)
        return [outcome for each in copied for outcome in each.outcomes]


def initial_snapshot(request: CopyRun, spread: Spread, say: Tell = print) -> Copied:
    """Copy all that is not copied yet; `spread` runs the regions' tasks. After a complete copy the peer's queue may be shipped.

    Raises CopyRefused, NotQueued, NotRolled, PeerLocked, Overtaken, WalferryError.
    """
    with open_session(request.source) as session:
        peer_to_copy(session, request.peer_id)
        if (done := ended_before(session, request.peer_id, request.run_id)) is not None:
            return done
        with copying(session, request.peer_id, request.run_id, say) as ours:
            peer, claim = ours
            with peer_tables(peer, request.source.login_to(peer)) as peer_cluster:
                check_queued(session, peer.id)
                chosen = chosen_tables(session, peer, peer_cluster, request)
                with snapshots(session, peer.id, claim.attempt) as take:
                    return _Copy(session, peer, peer_cluster, request, claim, say).run(chosen, take, spread)


def tables_to_copy(session: Session, peer: Peer, request: CopyRun) -> list[ChosenTable]:
    """Choose the tables, and check that they can be copied, wherever the peer's edits go. Raises CopyRefused, WalferryError."""
    if peer.lake:
        from walferry.initial_snapshot.into_lake import tables_for_lake
        from walferry.shipping.lake.catalog import Lake

        return tables_for_lake(session, peer, Lake.of(session, peer, peer.lake), request.tables)
    with peer_tables(peer, request.source.login_to(peer)) as peer_cluster:
        return chosen_tables(session, peer, peer_cluster, request)


def chosen_tables(session: Session, peer: Peer, peer_cluster: Tables, request: CopyRun) -> list[ChosenTable]:
    """Choose the tables, and check that they can be copied to the peer cluster. Raises CopyRefused, WalferryError."""
    if cluster_id(session.zk, session.nodes) == cluster_id(peer_cluster.zk, peer_cluster.nodes):
        raise CopyRefused(f"peer {peer.id}: its cluster key {peer.cluster_key} leads to the source cluster itself", "Correct it")
    chosen = choose_tables(session, peer, request.tables)
    records = Records(session, peer.id)
    state = records.state()
    goes_on = state is not None and not state.complete
    now = lives(session, [table.name for table in chosen])
    with master.connect(active_master(peer_cluster.zk, peer_cluster.nodes), login=peer_cluster.login) as there:
        for table in chosen:
            ours = records.table(table.name) if goes_on else None
            check_target(there, peer_cluster, table, may_have_rows=request.allow_not_empty or ours is not None)
            going_on(there, peer_cluster, table.name, ours, now)
    return chosen


def going_on(
    there: Connection, peer_cluster: Tables, table: str, ours: TableRecord | None, now: Mapping[str, str]
) -> TableRecord | None:
    """Return the record of a table whose copy goes on; None if its copy starts over. `now` gives the tables' present lives.

    Raises CopyRefused if the peer cluster has rows of an earlier life of the table.
    """
    if ours is None or ours.life == now.get(table):
        return ours
    if table in master.table_schemas(there, [table]) and has_rows(peer_cluster, table):
        raise another_life(table)
    return None


def another_life(table: str) -> CopyRefused:
    """Return the error for a table whose rows at the peer cluster may be of an earlier life of the table."""
    return CopyRefused(
        f"table {table} was disabled at the source since its copy began, so it may have been truncated, dropped or restored, and "
        "the peer cluster may have rows that it has no more",
        "Truncate or drop it at the peer cluster and run again: it is then copied anew",
    )


@dataclass(frozen=True)
class _Copy:
    """One run of a copy whose tables have been checked."""

    session: Session
    peer: Peer
    peer_cluster: Tables
    request: CopyRun
    claim: Claim
    say: Tell = print

    def run(self, chosen: Sequence[ChosenTable], take: TakeSnapshot, spread: Spread) -> Copied:
        records = Records(self.session, self.peer.id, self.claim)
        state = records.begin(self.request.run_id)  # from now on no run begins to ship a queue of the peer
        await_quiet(self.session, self.peer.id, f"run {self.request.run_id}, an initial snapshot", self.say, WAIT_SECONDS)
        for table in records.tables():  # also tables that are not asked for any more
            self._clean(records, table)
        begun = begin_tables(
            self.session, self.peer.id, self.request.run_id, records, chosen, take, partial(self._known, records)
        )
        tasks = [task for each in begun for task in self._begin(records, each)]
        done = _Done(records, tasks)
        left = sorted(done.left(), key=lambda task: task.region.size, reverse=True)
        self.say(f"{len(chosen)} tables, {len(tasks)} regions; {len(tasks) - len(left)} of them are copied already")
        with every(PROGRESS_SECONDS, lambda: _tell(self.say, done)):
            outcomes = spread(left) if left else ()
        self.say(done.as_text())
        unfinished = {task.region.table for task in done.left()}
        others = self._end_all(records, begun, unfinished)
        errors = (*(outcome.error for outcome in outcomes if outcome.error), *others)
        names = tuple(table.name for table in chosen[:MAX_TABLES])
        state = replace(done.counted(state), run=self.request.run_id, tables=names, complete=not (unfinished or others))
        if state.complete:
            records.complete(state)
        return Copied(state, errors)

    def _known(self, records: Records, tables: Sequence[ChosenTable], now: Mapping[str, str]) -> dict[str, TableRecord]:
        """Return the records of the tables whose copies go on."""
        with master.connect(active_master(self.peer_cluster.zk, self.peer_cluster.nodes), login=self.peer_cluster.login) as there:
            found = {each.name: going_on(there, self.peer_cluster, each.name, records.table(each.name), now) for each in tables}
        return {name: record for name, record in found.items() if record is not None}

    def _begin(self, records: Records, begun: BegunTable) -> list[RegionTask]:
        """Make the table at the peer cluster. Returns a task for each region."""
        table = begun.table
        regions = regions_of(read_manifest(self.request.source.hbase_root, begun.snapshot), table.families)
        records.begin_table(table.name, begun.record)
        with master.connect(active_master(self.peer_cluster.zk, self.peer_cluster.nodes), login=self.peer_cluster.login) as there:
            target = make_target(there, table.schema, split_keys(regions))
        if target.made:
            self.say(f"table {table.name} is made at the peer cluster, with {len(regions)} regions")
            if target.left:
                self.say(
                    f"table {table.name} at the peer cluster has not got these settings of the source: {reported(target.left)}"
                )
        if target.made or begun.fresh or not has_rows(self.peer_cluster, table.name):  # it may have been dropped or truncated
            records.begin_table_anew(table.name, begun.record)
        claim = self.claim
        return [RegionTask(each, table.families, table.why_scan, claim.attempt, claim.peer_version) for each in regions]

    def _end_all(self, records: Records, begun: Sequence[BegunTable], unfinished: Collection[str]) -> list[str]:
        """Note which tables are copied completely. Returns an error for each table that is another table by now."""
        now, errors = lives(self.session, [each.table.name for each in begun]), list[str]()
        for each in begun:
            name = each.table.name
            if now.get(name) != each.record.life:
                errors.append(str(another_life(name)))
            elif name not in unfinished:
                families = tuple(map(family_text, each.table.families))
                records.begin_table(name, replace(each.record, whole=True, families=families))
        return errors

    def _clean(self, records: Records, table: str) -> None:
        """Delete the files that earlier tries left at the peer cluster, also of regions that are no longer in the snapshot."""
        for name, record in records.regions(table, records.names(table)).items():
            if not record.way:
                clean(self.peer_cluster.place(table), record, self.request.source.hbase_root, PATIENCE_SECONDS)
                records.forget_region(table, name)


class _Done:
    """The progress of a copy's regions, from their records. A finished region's record is not read again."""

    def __init__(self, records: Records, tasks: Sequence[RegionTask]) -> None:
        self._records = records
        self._tasks = {(task.region.table, task.region.encoded_name): task for task in tasks}
        self._done: dict[tuple[str, str], RegionRecord] = {}
        self._lock = threading.Lock()

    def left(self) -> Iterator[RegionTask]:
        """Return the tasks of the regions that are not copied."""
        self._look()
        return (task for key, task in self._tasks.items() if key not in self._done)

    def as_text(self) -> str:
        """Return the progress of the copy in words."""
        left = [task.region for task in self.left()]
        bytes_done = sum(record.bytes for record in self._done.values())
        return (
            f"{len(self._done):,} of {len(self._tasks):,} regions, {bytes_done:,} bytes of files are copied; "
            f"{len(left):,} regions with {sum(region.size for region in left):,} bytes are left"
        )

    def counted(self, state: CopyState) -> CopyState:
        """Return the state with the figures of the finished regions."""
        self._look()
        scanned = [
            f"{self._tasks[key].region}: {record.why_scan}" for key, record in self._done.items() if record.way == CopyWay.SCAN
        ]
        records = self._done.values()
        return replace(
            state, regions=len(records), files=sum(record.files for record in records), by_scan=tuple(scanned[:MAX_NAMED]),
            bytes=sum(record.bytes for record in records), cells=sum(record.cells for record in records),
        )  # fmt: skip

    def _look(self) -> None:
        with self._lock:
            left = self._tasks.keys() - self._done.keys()
            for table in sorted({table for table, _ in left}):
                names = {name for name in self._records.names(table) if (table, name) in left}
                found = self._records.regions(table, sorted(names))
                ours = {(table, name): record for name, record in found.items()}
                self._done |= {key: record for key, record in ours.items() if is_copied(record, self._tasks[key].families)}


def _tell(say: Tell, done: _Done) -> None:
    """Report the progress of the copy."""
    try:
        say(done.as_text())
    except Exception as error:  # the copy goes on without this report
        log.info("the copy's progress is not known: %s", error)
