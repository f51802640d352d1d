"""Records a peer's initial snapshot in ZooKeeper: a later run goes on with it, and no batch ships the queue before its end.

    <root>/initial-snapshots/<quoted znode parent>/<quoted peer>                        CopyState as JSON
    …/<quoted table>                                                               TableRecord as JSON: rows may be at the peer
                                                                                   cluster
    …/<quoted table>/<region>                                                      RegionRecord as JSON
    …/+borders/<id>                                                                Load: which WALs are older (copy_border.py)
    …/+locks/…                                                               see region_lock.py; no table's name begins with "+"

Only the run that holds the peer lock can write any of it (fence.py). The records belong to one peer: the state contains the id of
the transaction that added the peer, and records of an earlier peer with the same name do not count. The tables' znodes are
deleted when the copy is complete; the state stays.

Right before that, the queues' edits up to each border are noted as loaded, for the tables copied since (load/records.py).
So every way of shipping the queues leaves them out. The borders stay, each with its tables, until these are copied again: a
replay of WALs that no queue contains leaves out the same edits.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from urllib.parse import unquote

from kazoo.client import KazooClient

from walferry.base.records import NotARecord, Record
from walferry.base.zk.client import children, read, read_all, read_children
from walferry.base.zk.errors import ZNodeValueError
from walferry.base.zk.records import decode, decode_or_none, delete_fenced, encode, put_fenced, set_fenced, wrong_record
from walferry.hbase.errors import MissingPeer
from walferry.hbase.layout import quoted
from walferry.load.earlier_loads import LoadedBefore
from walferry.load.errors import CopyUnderWay, Overtaken
from walferry.load.fence import Claim
from walferry.load.records import MAX_JSON_BYTES, Folder, Load
from walferry.replication.source.peer_state import added_by
from walferry.replication.source.peers import place_of
from walferry.replication.source.session import Session

MAX_NAMED = 20  # regions, in a state
MAX_TABLES = 100  # in a state
BORDERS = "+borders"
_NO_TABLE = "+"  # begins the names of znodes that belong to no table


class CopyWay(StrEnum):
    """How a region was copied."""

    FILES = "files"
    SCAN = "scan"


@dataclass(frozen=True)
class RegionRecord(Record):
    """A region's copy. With a `way` it is done; before that, the record only names the folder for its files."""

    way: str = ""
    families: tuple[str, ...] = ()  # families that were copied, in hexadecimal digits
    files: int = 0
    bytes: int = 0
    cells: int = 0  # cells copied by a scan
    staging: str = ""  # the folder of a bulk load that was begun
    peer_cluster_region: str = ""  # full name of the peer cluster's region for which the folder was made
    why_scan: str = ""
    by: str = ""  # the task that wrote the record


@dataclass(frozen=True)
class TableRecord(Record):
    """A table's copy: the life of the table in which it began (lives.py), and its border.

    Once all regions are copied, the table is `whole`, with these families.
    """

    life: str = ""
    border: str = ""
    whole: bool = False
    families: tuple[str, ...] = ()


@dataclass(frozen=True)
class CopyState(Record):
    """The state of a whole initial snapshot. `added` is the transaction that added the peer."""

    added: int
    run: str
    complete: bool = False
    tables: tuple[str, ...] = ()  # the first tables
    regions: int = 0
    files: int = 0
    bytes: int = 0
    cells: int = 0
    by_scan: tuple[str, ...] = ()  # some of the regions that were scanned, with the reason


class Records:
    """The records of one peer's initial snapshot. Writing and deleting needs a claim. Methods raise ConnectError.

    Writes and deletions raise Overtaken once another run holds the peer lock.
    """

    def __init__(self, session: Session, peer_id: str, claim: Claim | None = None) -> None:
        self._zk = session.zk
        self._claim = claim
        self._path = session.own.initial_snapshot(peer_id)
        self._loads = session.own.loads(peer_id)
        self._peer_id = peer_id
        self._session = session

    def state(self) -> CopyState | None:
        """Return the state of this peer's copy; None if none was begun, or the state cannot be read. Raises MissingPeer."""
        state = self.look()
        return state if isinstance(state, CopyState) else None

    def look(self) -> CopyState | ZNodeValueError | None:
        """Return the state as `state` does, or the error if this peer's state cannot be read. Raises MissingPeer.

        With peers in files, an incomplete copy of an earlier peer counts, too: the peer may only have been ENABLED meanwhile.
        """
        znode = read(self._zk, self._path)
        if znode is None or not znode.value:  # so far, only the znode was made
            return None
        added = self._added()
        try:
            state = decode(CopyState, znode.value)
        except NotARecord as error:
            advice = "See what has written it. If the copy was complete, delete the znode; otherwise run initial_snapshot for it"
            wrong = wrong_record(self._path, "the state of an initial snapshot", error, advice)
            return wrong if znode.stat.mzxid > added else None
        in_files = self._session.source.peers_root is not None
        return state if state.added == added or (in_files and not state.complete) else None

    def begin(self, run: str) -> CopyState:
        """Note that a copy is under way, or goes on, and delete the records of an earlier copy. Raises MissingPeer."""
        known = self.state()
        if known is not None and not known.complete and known.added == self._added():
            return known
        self._forget_tables()
        state = CopyState(self._added(), run)
        self._put(self._path, state)
        return state

    def complete(self, state: CopyState) -> None:
        """Note that the copy is complete. The peer's queue may now be shipped, without edits that are older than the copy."""
        self._note_borders(state.run)
        self._put(self._path, state)
        self._forget_tables()

    def table(self, table: str) -> TableRecord | None:
        """Return the record of a table whose rows may be at the peer cluster; None if the peer cluster cannot have any."""
        znode = read(self._zk, self._table(table))
        return None if znode is None else decode_or_none(TableRecord, znode.value) or TableRecord()

    def begin_table(self, table: str, record: TableRecord) -> None:
        """Write the table's record. From the first one on, rows of the table may be at the peer cluster."""
        self._put(self._table(table), record)

    def begin_table_anew(self, table: str, record: TableRecord) -> None:
        """Forget the table's copied regions, because they are not at the peer cluster any more, and write its record."""
        self._delete(self._tree(self._table(table)))
        self.begin_table(table, record)

    def add_border(self, border: Load) -> str:
        """Note which WALs are older than the tables that are copied next. Returns a name for this border."""
        name = uuid.uuid4().hex
        self._put(f"{self._path}/{BORDERS}/{name}", border)
        return name

    def borders(self) -> dict[str, Load]:
        """Return the borders of this peer by name. The borders of complete copies are `done`. Raises MissingPeer."""
        found = read_children(self._zk, f"{self._path}/{BORDERS}")
        added = self._added() if found else 0
        ours = {name: znode.value for name, znode in found.items() if znode.stat.czxid > added}
        return {name: load for name, value in ours.items() if (load := decode_or_none(Load, value, MAX_JSON_BYTES))}

    def tables(self) -> list[str]:
        """Return the tables that have a record."""
        return [unquote(name) for name in children(self._zk, self._path) or () if not name.startswith(_NO_TABLE)]

    def names(self, table: str) -> list[str]:
        """Return the regions that have a record."""
        return children(self._zk, self._table(table)) or []

    def regions(self, table: str, names: Sequence[str]) -> dict[str, RegionRecord]:
        """Return the records of these regions, as far as they exist."""
        found = read_all(self._zk, [self._region(table, name) for name in names])
        records = {name: decode_or_none(RegionRecord, znode.value) for name, znode in zip(names, found, strict=True) if znode}
        return {name: record for name, record in records.items() if record is not None}

    def forget_region(self, table: str, name: str) -> None:
        """Delete a region's record."""
        self._delete([self._region(table, name)])

    def held(self, table: str, name: str) -> HeldRegion:
        """Take a region's record, in order to write it."""
        assert self._claim is not None
        return HeldRegion(self._zk, self._claim, self._region(table, name))

    def _added(self) -> int:
        added = added_by(self._session, self._peer_id)
        if added is None:
            place = place_of(self._session, self._peer_id)
            raise MissingPeer(self._peer_id, f"there is no {place}", "It was removed, or was never added")
        return added

    def _forget_tables(self) -> None:
        """Delete all records but the borders of complete copies."""
        kept = {name for name, border in self.borders().items() if border.done}
        self._delete([path for name in self._not_kept(kept) for path in self._tree(f"{self._path}/{name}")])

    def _not_kept(self, kept: Collection[str]) -> Iterator[str]:
        for name in children(self._zk, self._path) or ():
            if name != BORDERS or not kept:
                yield name
                continue
            yield from (f"{BORDERS}/{each}" for each in children(self._zk, f"{self._path}/{BORDERS}") or () if each not in kept)

    def _tree(self, path: str) -> list[str]:
        """Return a znode and all znodes below it, children first."""
        return [*(each for name in children(self._zk, path) or () for each in self._tree(f"{path}/{name}")), path]

    def _delete(self, paths: Sequence[str]) -> None:
        """Delete znodes, as far as they exist."""
        assert self._claim is not None
        delete_fenced(self._claim.commit, paths)

    def _note_borders(self, run: str) -> None:
        """Note which edits are older than the copies of whole tables, for runs that ship the queues and for later replays.

        A run that was killed here may have noted some already.
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
        """Have an earlier border no longer apply to families that were copied again."""
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
    """A region's record, held by one task. Methods raise Overtaken once another task has written the record, and ConnectError.

    `record` is the record that this task, or an earlier one, wrote.
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
        """Write the record, unless another task has written it since this task read or wrote it."""
        self.record = replace(record, by=self._task)
        version = set_fenced(self._zk, self._claim.commit, self._path, encode(self.record), self._version)
        if version is None:
            raise self._overtaken()
        self._version = version

    def note(self, folder: Folder) -> None:
        """Note the folder for the region's files, as `put` does."""
        self.put(RegionRecord(staging=folder.token, peer_cluster_region=folder.region))

    def forget(self) -> None:
        """Do nothing: the region's next record names no folder."""

    def check(self) -> None:
        """Check that this task wrote the present record, and that its run holds the peer lock."""
        if self._claim.commit(lambda multi: multi.check(self._path, self._version)) is not None:
            raise self._overtaken()

    def _overtaken(self) -> Overtaken:
        return Overtaken(
            f"another task has written {self._path}", "It copies the region. If it fails, run the initial snapshot again"
        )


def is_copied(record: RegionRecord, families: Collection[bytes]) -> bool:
    """Return whether the region is copied, with all of these families."""
    return bool(record.way) and {family.hex() for family in families} <= set(record.families)


def under_way(session: Session, peer_id: str) -> CopyUnderWay | None:
    """Return why the peer's queue must not be shipped: an incomplete initial snapshot. None if complete. Raises MissingPeer."""
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
    """Raise CopyUnderWay if the peer's initial snapshot is incomplete. It must be complete before anything else is shipped."""
    if (copying := under_way(session, peer_id)) is not None:
        raise copying


def copied_before(session: Session, peer_id: str) -> LoadedBefore:
    """Return which WALs are older than the peer's initial snapshots, queued or not. Raises MissingPeer, ConnectError."""
    return LoadedBefore([border for border in Records(session, peer_id).borders().values() if border.done])
