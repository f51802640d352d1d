"""What is known of a peer's initial snapshot, in ZooKeeper: a later run goes on, and no batch ships the queue before its end.

    <root>/initial-snapshots/<quoted znode parent>/<quoted peer>                        CopyState as JSON
    …/<quoted table>                                                               TableRecord as JSON: rows may be at the slave
    …/<quoted table>/<region>                                                      RegionRecord as JSON
    …/+borders/<id>                                                                Load: which WALs are older (copy_border.py)
    …/+turns/…                                                               see region_lock.py; no table's name begins with "+"

Only the run that holds the peer lock can write any of it (fence.py). All of it is of one peer: the state has the id of the
transaction that added the peer, and what an earlier peer of the same name has left does not count. The tables' znodes are
deleted when the copy is complete; the state stays.

Right before that, what the queues have up to each border, of the tables that are copied since, is noted as loaded
(load/records.py). So whoever ships the queues, by whatever way, leaves it out. The borders themselves stay, each with the
tables that it holds for, as long as none of them is copied anew: whoever ships WALs again that no queue has leaves out the same.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any
from urllib.parse import unquote

from kazoo.client import KazooClient

from walferry.base.records import NotARecord, Record
from walferry.base.zk.client import children, read, read_all, read_children
from walferry.base.zk.errors import ZNodeValueError
from walferry.base.zk.records import decode, decode_or_none, delete_fenced, encode, put_fenced, set_fenced, wrong_record
from walferry.hbase.errors import MissingPeer
from walferry.hbase.layout import quoted
from walferry.load.copy_border import Border
from walferry.load.copy_errors import CopyUnderWay, Overtaken
from walferry.load.earlier_loads import LoadedBefore
from walferry.load.fence import Claim
from walferry.load.records import MAX_JSON_BYTES, Folder, Load
from walferry.replication.source.session import Session

MAX_NAMED = 20  # regions, in a state
MAX_TABLES = 100  # in a state
BORDERS = "+borders"
_NO_TABLE = "+"  # begins what is no table's


class CopyWay(StrEnum):
    """How a region was copied."""

    FILES = "files"
    SCAN = "scan"


@dataclass(frozen=True)
class RegionRecord(Record):
    """A region's copy: done if it has a `way`; before that only where its files are being put."""

    way: str = ""
    families: tuple[str, ...] = ()  # that were copied, in hexadecimal digits
    files: int = 0
    bytes: int = 0
    cells: int = 0  # by a scan
    staging: str = ""  # the token of a bulk load that was begun
    slave_region: str = ""  # full name of the region at the slave, for whose load the folder was made
    why_scan: str = ""
    by: str = ""  # the task that has written it


@dataclass(frozen=True)
class TableRecord(Record):
    """A table's copy: in which life of the table it began (lives.py), and with which border.

    Once all regions are copied it is `whole`, with these families.
    """

    life: str = ""
    border: str = ""
    whole: bool = False
    families: tuple[str, ...] = ()


@dataclass(frozen=True)
class CopyState(Record):
    """An initial snapshot as a whole. `added` is the transaction that added the peer."""

    added: int
    run: str
    complete: bool = False
    tables: tuple[str, ...] = ()  # the first ones
    regions: int = 0
    files: int = 0
    bytes: int = 0
    cells: int = 0
    by_scan: tuple[str, ...] = ()  # some of the regions that were scanned, with the reason


class Records:
    """The records of one peer's initial snapshot. Only with a claim can they be written and deleted. Raises ConnectError.

    Writes and deletions raise Overtaken once another run holds the peer lock.
    """

    def __init__(self, session: Session, peer_id: str, claim: Claim | None = None) -> None:
        self._zk = session.zk
        self._claim = claim
        self._path = session.own.initial_snapshot(peer_id)
        self._loads = session.own.loads(peer_id)
        self._peer_id = peer_id
        self._peer = session.nodes.peer(peer_id)

    def state(self) -> CopyState | None:
        """The state of this peer's copy; None if none was begun, or what is there cannot be read. Raises MissingPeer."""
        state = self.look()
        return state if isinstance(state, CopyState) else None

    def look(self) -> CopyState | ZNodeValueError | None:
        """As `state`, but why what was written of this peer cannot be read. Raises MissingPeer."""
        znode = read(self._zk, self._path)
        if znode is None or not znode.value:  # only the znode was made yet
            return None
        added = self._added()
        try:
            state = decode(CopyState, znode.value)
        except NotARecord as error:
            advice = "See what has written it. If the copy was complete, delete the znode; otherwise run initial_snapshot for it"
            wrong = wrong_record(self._path, "the state of an initial snapshot", error, advice)
            return wrong if znode.stat.mzxid > added else None
        return state if state.added == added else None

    def begin(self, run: str) -> CopyState:
        """Note that a copy is under way, or goes on. What does not belong to it is deleted. Raises MissingPeer."""
        known = self.state()
        if known is not None and not known.complete:
            return known
        self._forget_tables()
        state = CopyState(self._added(), run)
        self._put(self._path, state)
        return state

    def complete(self, state: CopyState) -> None:
        """Note that the copy is complete. From now on the peer's queue may be shipped, without what is older than the copy."""
        self._note_borders(state.run)
        self._put(self._path, state)
        self._forget_tables()

    def table(self, table: str) -> TableRecord | None:
        """What is known of a table of which rows may be at the slave; None if none can be."""
        znode = read(self._zk, self._table(table))
        return None if znode is None else decode_or_none(TableRecord, znode.value) or TableRecord()

    def begin_table(self, table: str, record: TableRecord) -> None:
        """Note that rows of the table may be at the slave from now on, or what is known of it now."""
        self._put(self._table(table), record)

    def begin_table_anew(self, table: str, record: TableRecord) -> None:
        """Forget what was copied of the table: it is not at the slave any more."""
        self._delete(self._tree(self._table(table)))
        self.begin_table(table, record)

    def add_border(self, run: str, border: Border) -> str:
        """Note which WALs are older than what is copied next. Returns a name for it."""
        name = uuid.uuid4().hex
        load = Load(run, border.groups, initial_snapshot=True, others_before=border.others_before)
        self._put(f"{self._path}/{BORDERS}/{name}", load)
        return name

    def borders(self) -> dict[str, Load]:
        """The borders of this peer by name: those of copies that are complete are done. Raises MissingPeer."""
        found = read_children(self._zk, f"{self._path}/{BORDERS}")
        added = self._added() if found else 0
        ours = {name: znode.value for name, znode in found.items() if znode.stat.czxid > added}
        return {name: load for name, value in ours.items() if (load := decode_or_none(Load, value, MAX_JSON_BYTES))}

    def tables(self) -> list[str]:
        """The tables of which there is a record."""
        return [unquote(name) for name in children(self._zk, self._path) or () if not name.startswith(_NO_TABLE)]

    def names(self, table: str) -> list[str]:
        """The regions of which there is a record."""
        return children(self._zk, self._table(table)) or []

    def regions(self, table: str, names: Sequence[str]) -> dict[str, RegionRecord]:
        """The records of these regions, as far as there are any."""
        found = read_all(self._zk, [self._region(table, name) for name in names])
        records = {name: decode_or_none(RegionRecord, znode.value) for name, znode in zip(names, found, strict=True) if znode}
        return {name: record for name, record in records.items() if record is not None}

    def forget_region(self, table: str, name: str) -> None:
        """Delete a region's record."""
        self._delete([self._region(table, name)])

    def held(self, table: str, name: str) -> HeldRegion:
        """Take the record of a region, to write it."""
        assert self._claim is not None
        return HeldRegion(self._zk, self._claim, self._region(table, name))

    def _added(self) -> int:
        znode = read(self._zk, self._peer)
        if znode is None:
            raise MissingPeer(self._peer_id, f"there is no {self._peer}", "It was removed, or was never added")
        return int(znode.stat.czxid)

    def _forget_tables(self) -> None:
        """Delete all but the borders of copies that are complete."""
        kept = {name for name, border in self.borders().items() if border.done}
        self._delete([path for name in self._not_kept(kept) for path in self._tree(f"{self._path}/{name}")])

    def _not_kept(self, kept: Collection[str]) -> Iterator[str]:
        for name in children(self._zk, self._path) or ():
            if name != BORDERS or not kept:
                yield name
                continue
            yield from (f"{BORDERS}/{each}" for each in children(self._zk, f"{self._path}/{BORDERS}") or () if each not in kept)

    def _tree(self, path: str) -> list[str]:
        """A znode and all below it, each behind its children."""
        return [*(each for name in children(self._zk, path) or () for each in self._tree(f"{path}/{name}")), path]

    def _delete(self, paths: Sequence[str]) -> None:
        """Delete znodes, as far as they are there."""
        assert self._claim is not None
        delete_fenced(self._claim.commit, paths)

    def _note_borders(self, run: str) -> None:
        """Note what is older than the copies of tables that are whole: for those who ship the queues, and for later replays.

        A run that was killed here has noted some already.
        """
        whole: dict[str, dict[str, tuple[str, ...]]] = defaultdict(dict)
        for name in self.tables():
            record = self.table(name)
            if record is not None and record.whole:
                whole[record.border][name] = record.families
        for name, border in self.borders().items():
            if name in whole:
                load = replace(border, run=run, done=True, tables=whole[name])
                self._put(f"{self._loads}/{name}", load)
                self._put(f"{self._path}/{BORDERS}/{name}", load)
            elif border.done:
                self._leave_out(name, border, {table: families for each in whole.values() for table, families in each.items()})

    def _leave_out(self, name: str, border: Load, copied: Mapping[str, tuple[str, ...]]) -> None:
        """Have an earlier border hold no longer for families that were copied anew."""
        left = {table: tuple(each for each in of if each not in copied.get(table, ())) for table, of in border.tables.items()}
        tables = {table: families for table, families in left.items() if families}
        self._put(f"{self._path}/{BORDERS}/{name}", replace(border, tables=tables, done=bool(tables)))

    def _put(self, path: str, record: Record) -> None:
        assert self._claim is not None
        put_fenced(self._zk, self._claim.commit, path, encode(record))

    def _table(self, table: str) -> str:
        return f"{self._path}/{quoted(table)}"

    def _region(self, table: str, name: str) -> str:
        return f"{self._path}/{quoted(table)}/{quoted(name)}"


class HeldRegion:
    """A region's record in the hands of one task. Raises Overtaken as soon as another task has written it, ConnectError.

    `record` is what this task, or an earlier one, has written.
    """

    def __init__(self, zk: KazooClient, claim: Claim, path: str) -> None:
        self._zk = zk
        self._claim = claim
        self._path = path
        self._task = uuid.uuid4().hex
        znode = read(zk, path)
        self.record = decode_or_none(RegionRecord, znode.value) if znode else None
        self._version = znode.stat.version if znode else None

    def put(self, record: RegionRecord) -> None:
        """Write the record, if no other task has written it since this one has read or written it."""
        self.record = replace(record, by=self._task)
        version = set_fenced(self._zk, self._claim.commit, self._path, encode(self.record), self._version)
        if version is None:
            raise self._overtaken()
        self._version = version

    def note(self, folder: Folder) -> None:
        """Note where the region's files are being put, as `put`."""
        self.put(RegionRecord(staging=folder.token, slave_region=folder.region))

    def forget(self) -> None:
        """Do nothing: the region's next record names no folder."""

    def check(self) -> None:
        """Check that the record is as this task has written it, and that its run holds the peer lock."""
        if self._claim.commit(lambda multi: multi.check(self._path, self._version)) is not None:
            raise self._overtaken()

    def _overtaken(self) -> Overtaken:
        return Overtaken(
            f"another task has written {self._path}", "It copies the region. If it fails, run the initial snapshot again"
        )


def is_copied(record: RegionRecord, families: Collection[bytes]) -> bool:
    """Whether the region is copied, with all of these families."""
    return bool(record.way) and {family.hex() for family in families} <= set(record.families)


def under_way(session: Session, peer_id: str) -> CopyUnderWay | None:
    """Why the peer's queue must not be shipped yet; None if no initial snapshot of it is incomplete. Raises MissingPeer."""
    state = Records(session, peer_id).look()
    if isinstance(state, ZNodeValueError):
        why = f"peer {peer_id}: its queue is not shipped, because of znode {state.znode}: {state.reason}"
        return CopyUnderWay(why, state.advice)
    if state is None or state.complete:
        return None
    return CopyUnderWay(
        f"peer {peer_id}: its initial snapshot, begun by run {state.run}, is not complete, so its queue is not shipped yet",
        "Run initial_snapshot for it: the copy goes on where it stopped, and then the queue is shipped",
    )


def check_copied(session: Session, peer_id: str) -> None:
    """Raises CopyUnderWay if the peer's initial snapshot is not complete: the copy is to be newer than all that is shipped."""
    if (copying := under_way(session, peer_id)) is not None:
        raise copying


def copied_before(session: Session, peer_id: str) -> LoadedBefore:
    """Which WALs are older than the peer's initial snapshots, queued or not. Raises MissingPeer, ConnectError."""
    return LoadedBefore([border for border in Records(session, peer_id).borders().values() if border.done])


def as_xcom(state: CopyState) -> dict[str, Any]:
    """The state in the form of an XCom."""
    return {name: list(value) if isinstance(value, (tuple, list)) else value for name, value in asdict(state).items()}
