"""Copies what the source has already into the tables of changes of a lake: the job, from its start to its end.

    roll the WALs, take snapshots, roll the WALs again               beginning.py
    write a name of our own to each table of changes                 from now on no earlier try can commit
    rounds of tasks: read the snapshots' files, write files          lake_rows.py
    after each round, one commit a table, with the rows that it then has
    note that the table is whole

Killed at any step, the next run goes on with the rows that the tables lack, from a later snapshot. Batches wait meanwhile. They
then leave out of the queue what the copy contains (shipping/lake/copied.py), so each cell is in the lake once.
"""

from __future__ import annotations

import time
import uuid
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import partial

from walferry.base.errors import WalferryError, text_of
from walferry.base.jobs import Backend, BackendFailed, Tell
from walferry.base.texts import one_line
from walferry.base.zk.errors import ConnectError
from walferry.hbase.names import family_text
from walferry.hbase.tables.errors import MissingTable
from walferry.hbase.tables.snapshots import SnapshotRegion, read_manifest, regions_of
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
from walferry.initial_snapshot.lake_pieces import LakeCopy, LakeTask, check_chain, pieces_of, rest_of, tasks_of, why_wrong
from walferry.initial_snapshot.lake_rows import copy_to_lake
from walferry.initial_snapshot.lives import lives
from walferry.initial_snapshot.snapshots import TakeSnapshot, snapshots
from walferry.load.copied_tables import ChosenTable
from walferry.load.copy_border import find_border
from walferry.load.copy_records import MAX_TABLES, CopyState, Records, TableRecord
from walferry.load.errors import CopyRefused, Overtaken
from walferry.load.fence import Claim
from walferry.replication.peers.reading import Peer
from walferry.replication.sinks.iceberg.commits import Batch, FirstCopy, append_copy, other_feeds
from walferry.replication.sinks.iceberg.tables import LakeError
from walferry.replication.source.session import Session, open_session
from walferry.replication.source.source_job import SourceJob
from walferry.shipping.lake.catalog import Lake, identifier
from walferry.shipping.lake.copied import CopiedRows, forget_parts, gaps, newest, read_parts, write_end, write_parts
from walferry.shipping.lake.tables import LakeTables

TASKS_A_CORE = 4  # of a round, after which there are commits
PROGRESS_SECONDS = 10.0
SHOWN_ERRORS, MOST_ERRORS = 5, 1000  # of a round, in the log; of a run
MAX_CHARS = 300


def copy_into_lake(request: SourceJob, asked: Sequence[str], on: Backend, say: Tell) -> Copied:
    """Copy the tables `asked`, or all that the peer replicates, as far as they are not copied yet.

    After a complete copy the peer's queue may be shipped. Raises CopyRefused, NotQueued, NotRolled, PeerLocked, Overtaken,
    WalferryError.
    """
    with open_session(request.source) as session:
        peer_to_copy(session, request.peer_id)
        if (done := ended_before(session, request.peer_id, request.run_id)) is not None:
            return done
        with copying(session, request.peer_id, request.run_id, say) as ours:
            peer, claim = ours
            check_queued(session, peer.id)
            lake = Lake.of(session, peer, peer.lake or "")
            chosen = tables_for_lake(session, peer, lake, asked)
            with snapshots(session, peer.id, claim.attempt) as take:
                return _IntoLake(session, peer, LakeTables(lake), request.run_id, claim, on, say).run(chosen, take)


def tables_for_lake(session: Session, peer: Peer, lake: Lake, asked: Sequence[str]) -> list[ChosenTable]:
    """Choose the tables to copy. Those whose copies are whole are left out. Raises CopyRefused, LakeError, WalferryError."""
    there = {name.casefold() for name in lake.listed()}  # some catalogs ignore capitals
    tables, left = LakeTables(lake), list[ChosenTable]()
    for chosen in choose_tables(session, peer, asked):
        if chosen.why_scan:
            raise CopyRefused(
                f"table {chosen.name} cannot be copied into a lake: {chosen.why_scan}", "Leave it out: name the other tables"
            )
        if chosen.name.casefold() not in there or not _is_whole(tables, chosen):
            left.append(chosen)
    state = Records(session, peer.id).state()
    if not left and (state is None or state.complete):
        raise CopyRefused(
            "the lake has all of these tables already",
            "To copy one again, drop its table of changes: then it gets what HBase has now, and nothing older",
        )
    return left


def _is_whole(tables: LakeTables, chosen: ChosenTable) -> bool:
    """Return whether the lake has a whole copy of a table. Raises CopyRefused if no copy can be made."""
    name, changes = chosen.name, ".".join(identifier(chosen.name))
    tables.add(name, being_copied=True)
    if (why := tables.refused.get(name)) is not None:
        raise CopyRefused(why)
    seen = tables.seen[name]
    if seen.copied is None and (seen.groups or seen.forgotten):
        raise CopyRefused(
            f"table {changes} of the lake has edits of this peer already, and a copy would bring them again",
            f"Leave table {name} out: name the others. Or drop the table of changes: then it gets what HBase has now",
        )
    if seen.copied is None and (others := other_feeds(tables.open[name], tables.lake.feed)):
        raise CopyRefused(
            f"table {changes} of the lake has edits of another feed, {one_line(others[0], MAX_CHARS)}: it would have cells twice",
            f"Leave table {name} out, or let the peers feed two catalogs",
        )
    families = sorted(map(family_text, chosen.families))
    if seen.copied is not None and (new := [family for family in families if family not in seen.copied.families]):
        raise CopyRefused(
            f"the copy of table {name} in the lake was begun without family {', '.join(new)}, which the peer gets by now",
            f"Leave table {name} out: name the others. Or drop {changes} and run again: then it gets what HBase has now",
        )
    return seen.copied is not None and seen.copied.whole


def another_life(table: str) -> CopyRefused:
    """Return the error for a table of changes that may have rows of an earlier life of the table."""
    return CopyRefused(
        f"table {table} was disabled at the source since its copy began, so it may have been truncated, dropped or restored, and "
        f"{'.'.join(identifier(table))} may have rows that it has no more",
        "Drop that table of changes and run again: it is then copied anew",
    )


@dataclass(frozen=True)
class _IntoLake:
    """One run of a copy, which holds the peer lock."""

    session: Session
    peer: Peer
    tables: LakeTables
    run_id: str
    claim: Claim
    on: Backend
    say: Tell
    copied: dict[str, list[CopiedRows]] = field(default_factory=dict)  # by table
    regions: dict[str, list[SnapshotRegion]] = field(default_factory=dict)  # of the newest snapshots, by table
    ends: dict[str, int] = field(default_factory=dict)  # of snapshots: when the newest WAL before each was begun (ms)
    end_of: dict[str, str] = field(default_factory=dict)  # by table
    errors: list[str] = field(default_factory=list)
    failed: set[str] = field(default_factory=set)  # tables of which nothing more is copied

    def run(self, chosen: Sequence[ChosenTable], take: TakeSnapshot) -> Copied:
        records = Records(self.session, self.peer.id, self.claim)
        state = records.begin(self.run_id)  # from now on no run begins to ship a queue of the peer
        await_quiet(self.session, self.peer.id, f"run {self.run_id}, an initial snapshot", self.say, WAIT_SECONDS)
        left = self._usable(records, chosen)
        known, note_end = partial(self._known, records), partial(self._note_end, left)
        begun = begin_tables(self.session, self.peer.id, self.run_id, records, left, take, known, note_end) if left else []
        self._copy([task for each in begun for task in self._begin(records, each)])
        self._end(records, begun)
        state = replace(
            self._counted(state), run=self.run_id, tables=tuple(each.name for each in chosen[:MAX_TABLES]),
            complete=not self.errors,
        )  # fmt: skip
        if state.complete:
            records.complete(state)
        return Copied(state, tuple(self.errors))

    def _usable(self, records: Records, chosen: Sequence[ChosenTable]) -> list[ChosenTable]:
        """Return the tables that are to be copied and can be: batches and other runs have ended only now."""
        now, left = lives(self.session, [each.name for each in chosen]), list[ChosenTable]()
        for each in chosen:
            try:
                if not _is_whole(self.tables, each):
                    self._record(records, each.name, now)
                    left.append(each)
            except CopyRefused as error:
                self._fail(each.name, error)
        return left

    def _record(self, records: Records, name: str, now: Mapping[str, str]) -> TableRecord | None:
        """Return the record of a table whose copy goes on; None if it begins. Raises CopyRefused."""
        if self.tables.seen[name].copied is None:
            return None
        record = records.table(name)
        if record is None:
            raise CopyRefused(
                f"{'.'.join(identifier(name))} has a part of a first copy that was given up: a later run has copied other "
                "tables, or the peer was made anew",
                "Drop that table of changes and run again: it is then copied anew",
            )
        if record.life != now.get(name):
            raise another_life(name)
        return record

    def _known(self, records: Records, tables: Sequence[ChosenTable], now: Mapping[str, str]) -> dict[str, TableRecord]:
        """Return the records of the tables whose copies go on. Raises CopyRefused."""
        found = {each.name: self._record(records, each.name, now) for each in tables}
        return {name: record for name, record in found.items() if record is not None}

    def _note_end(self, chosen: Sequence[ChosenTable], taken: Mapping[str, str]) -> tuple[str, set[str]]:
        """Have all servers begin new WALs: edits behind that are in none of the snapshots. Returns a name for this end.

        Also returns the tables whose regions are not those of their snapshots any more: HBase 1 lets the numbers of a region's
        edits begin below those of its parent, if the parent's newest file has none of its rows (HBASE-20066).
        """
        end = find_border(self.session, self.peer.id, self.run_id)
        name, root = write_end(self.claim, end), self.session.source.hbase_root
        self.ends[name] = newest(end)
        families = {each.name: each.families for each in chosen}
        with Tables(self.session.zk, self.session.nodes, login=self.session.source.login) as tables:
            changed = set()
            for table, snapshot in taken.items():
                self.regions[table] = regions_of(read_manifest(root, snapshot), families[table])
                if {each.encoded_name for each in self.regions[table]} != _names(tables, table):
                    changed.add(table)
        return name, changed

    def _begin(self, records: Records, begun: BegunTable) -> Iterator[LakeTask]:
        """Make sure that no earlier try can commit to a table any more. Return tasks for the rows that the table lacks."""
        try:
            return self._begun(records, begun)
        except (Overtaken, ConnectError):
            raise
        except WalferryError as error:
            self._fail(begun.table.name, error)
            return iter(())

    def _begun(self, records: Records, begun: BegunTable) -> Iterator[LakeTask]:
        name, record = begun.table.name, replace(begun.record, whole=False)
        check_chain(name, self.regions[name])
        if begun.fresh:
            records.begin_table_anew(name, record)
        else:
            records.begin_table(name, record)
        families = tuple(map(family_text, begun.table.families))
        copied = self.tables.seen[name].copied or FirstCopy("", families=families)
        self.end_of[name] = begun.end
        ours = replace(
            copied, by=uuid.uuid4().hex, until=max(copied.until, self.ends[begun.end]),
            families=tuple(family for family in copied.families if family in families),
        )  # fmt: skip
        self._append(name, [], ours)
        forget_parts(self.claim, name, copied.parts)
        self.copied[name] = [row for part in read_parts(self.session, self.peer.id, name, copied.parts) for row in part.rows]
        pieces = list(pieces_of(self.regions[name], gaps(self.copied[name])))
        self.say(
            f"table {name} goes into {'.'.join(identifier(name))}: {len(pieces):,} regions with "
            f"{sum(piece.region.size for piece in pieces):,} bytes of files"
        )
        return tasks_of(name, begun.table.families, pieces)

    def _copy(self, tasks: Iterable[LakeTask]) -> None:
        """Run the tasks in rounds, with commits after each one. Raises BackendFailed, Overtaken, ConnectError."""
        left, done, last = deque(tasks), 0, time.monotonic()

        def report(ended: int, _: int) -> None:
            nonlocal last
            if time.monotonic() - last > PROGRESS_SECONDS:
                last = time.monotonic()
                self.say(f"{done + ended:,} of {done + len(some) + len(left):,} tasks have ended")

        at_once = max(1, min(TASKS_A_CORE * self.on.cores, self.on.most_tasks))
        while left:
            some = [left.popleft() for _ in range(min(at_once, len(left)))]
            self._refresh({task.table for task in some})
            if not (some := [task for task in some if task.table not in self.failed]):
                continue
            targets = {name: self.tables.target(name) for name in {task.table for task in some}}
            function = partial(copy_to_lake, self.session.source, targets)
            answers = self.on.run(function, some, LakeCopy, lost=_lost, progress=report)
            for task, answer in zip(some, answers, strict=True):
                if why := why_wrong(task, answer, self.tables.open[task.table]):
                    raise BackendFailed(f"the answer for table {task.table} makes no sense: {one_line(why, MAX_CHARS)}")
            for name in sorted({answer.table for answer in answers if answer.rows}):
                self._commit(name, [answer for answer in answers if answer.table == name])
            done += len(some)
            left.extendleft(rest for task, answer in zip(some, answers, strict=True) for rest in rest_of(task, answer))
            errors = [error for answer in answers for error in answer.errors]
            self._report(errors)
            if errors and not any(answer.rows for answer in answers):
                self.errors.append(f"a whole round of {len(some):,} tasks has failed, so {len(left):,} others were not begun")
                return

    def _report(self, errors: Sequence[str]) -> None:
        """Report a round's errors, the first ones in words."""
        for error in errors[:SHOWN_ERRORS]:
            self.say(f"not copied: {error}")
        if len(errors) > SHOWN_ERRORS:
            self.say(f"not copied: and {len(errors) - SHOWN_ERRORS:,} more")
        self.errors.extend(errors[: max(0, MOST_ERRORS - len(self.errors))])

    def _refresh(self, names: AbstractSet[str]) -> None:
        """Read tables again: a catalog may lend its storage for an hour only."""
        for name in names - self.failed:
            try:
                self.tables.open[name].refresh()
            except Exception as error:
                why = one_line(str(error), MAX_CHARS)
                self._fail(name, LakeError(f"table {'.'.join(identifier(name))} of the lake cannot be read: {why}"))

    def _commit(self, name: str, answers: Sequence[LakeCopy]) -> None:
        """Commit what tasks have copied of a table. Raises Overtaken, ConnectError."""
        rows = [each for answer in answers for each in answer.rows]
        copied = self._first_copy(name)
        parts = write_parts(self.claim, name, self.end_of[name], rows)
        try:
            self._append(name, answers, replace(copied, parts=(*copied.parts, *parts)))
        except LakeError as error:
            self._fail(name, error)
            return
        self.copied[name] += rows
        unread = sum(file.unread for answer in answers for file in answer.files)
        self.say(
            f"table {name}: {len(self.copied[name]):,} regions with {sum(each.cells for each in self.copied[name]):,} cells are "
            f"in the lake{f'; of the last ones, {unread:,} have a typed column that could not be read' if unread else ''}"
        )

    def _fail(self, name: str, error: WalferryError) -> None:
        """Copy nothing more of a table. The others go on."""
        self.failed.add(name)
        text = text_of(error)
        self.errors.append(text if name in text else f"table {name}: {text}")

    def _end(self, records: Records, begun: Sequence[BegunTable]) -> None:
        """Note which tables are whole; the others have errors. Raises Overtaken, ConnectError."""
        now = lives(self.session, [each.table.name for each in begun])
        for each in (each for each in begun if each.table.name not in self.failed):
            name = each.table.name
            if now.get(name) != each.record.life:
                self._fail(name, another_life(name))
            elif not gaps(self.copied[name]):
                families = tuple(map(family_text, each.table.families))
                records.begin_table(name, replace(each.record, whole=True, families=families))
                try:
                    self._append(name, [], replace(self._first_copy(name), whole=True))
                except LakeError as error:
                    self._fail(name, error)
            elif not self.errors:
                self._fail(name, CopyRefused(f"table {name} is not copied as a whole", "Run again: the copy goes on"))

    def _first_copy(self, name: str) -> FirstCopy:
        copied = self.tables.seen[name].copied
        assert copied is not None
        return copied

    def _append(self, name: str, answers: Iterable[LakeCopy], copied: FirstCopy) -> None:
        files, batch = (file for answer in answers for file in answer.files), Batch(self.tables.lake.feed, self.run_id)
        self.tables.seen[name] = append_copy(self.tables.open[name], batch, files, seen=self.tables.seen[name], copied=copied)

    def _counted(self, state: CopyState) -> CopyState:
        """Return the state with the figures of what is copied."""
        rows = [each for of_table in self.copied.values() for each in of_table]
        return replace(
            state, regions=len(rows), files=sum(each.files for each in rows), bytes=sum(each.bytes for each in rows),
            cells=sum(each.cells for each in rows),
        )  # fmt: skip


def _names(tables: Tables, table: str) -> set[str]:
    """Return the names of a table's regions; none if the table is gone. Raises RegionUnavailable, RpcError, ConnectError."""
    try:
        return {region.encoded_name for region in tables.regions(table)}
    except MissingTable:
        return set()


def _lost(task: LakeTask, why: str) -> LakeCopy:
    return LakeCopy(task.table, errors=(f"table {task.table}: {why}",))
