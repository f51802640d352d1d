"""Records loads in ZooKeeper, so that a killed load leaves nothing harmful behind.

    <root>/loads/<quoted znode parent>/<quoted peer>/<id>            Load, as JSON
    …/<id>/<name>                                                    Folder, as JSON: where files are being put

A load begins with its record, which names the WAL groups whose leases it holds. A task notes a folder at the peer cluster before
it puts files there. Right before it has the peer cluster load them, it checks that record and note are unchanged.

If a run gets the lease of one of the groups and finds the record, it first writes to the record, so that the tasks of the killed
job, which may still run, note no more folders. Then it has the peer cluster delete the noted folders, and last it deletes the
record. So a load of the killed job that reaches the peer cluster late finds no files, and cannot put old edits above newer ones
(staging.py says why that is sure).

When all files are loaded, the record says so in one write: which families of which tables, and up to which WAL of each group.
From then on these edits count as shipped, whatever happens: later runs leave them out. Otherwise, if a job were killed after
taking the WALs of some groups out of their queues, the rest would be loaded again, over newer edits of the same regions. Families
that the peer gets only later are in no record, so requests bring their edits as far as the WALs still contain them. This write
also ends the noting of folders. If tasks that Spark believes dead have noted folders by then, these are deleted before anything
is shipped.

An initial snapshot, once complete, notes in the same way which edits are older than it (load/copy_records.py).
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from typing import Self

from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError

from walferry.base.records import NotARecord, Record, parsed_object, record_of, text_of
from walferry.base.zk.client import Refusal, commit, expected, read_all, read_children, retried
from walferry.base.zk.errors import AnswerTooLong
from walferry.base.zk.records import decode_or_none, encode, set_fenced
from walferry.hbase.binary_text import from_binary_text
from walferry.hbase.names import parse_wal_name
from walferry.load.errors import LoadOvertaken
from walferry.replication.queues.lease import Lease
from walferry.replication.queues.reading import list_queues
from walferry.replication.source.peer_state import added_by, look
from walferry.replication.source.session import Session

BEGUN = 0  # the version of the record while a load goes on
MAX_JSON_BYTES = 16 << 20  # of a Load, which is stored compressed


@dataclass(frozen=True)
class Folder(Record):
    """A folder at the peer cluster that a task has had made: its URL, and the region for whose load it was made."""

    token: str
    table: str
    region: str  # the region's full name, in hexadecimal digits


@dataclass(frozen=True)
class Load(Record):
    """A load: its run, and its groups. Once it is `done`, `groups` gives the last loaded WAL of each group.

    The families of `tables` are texts (names.family_text). With `initial_snapshot`, not these WALs were loaded, but the tables as
    they were after all edits of these WALs. That also covers WALs of other groups that were begun before `others_before` (ms).
    """

    run: str
    groups: Mapping[str, str]
    done: bool = False
    tables: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # tables, with the families whose edits are loaded
    initial_snapshot: bool = False
    others_before: int = 0
    path: str = field(default="", compare=False)
    folders: int = field(default=0, compare=False)  # the number of noted ones

    def to_json(self) -> str:
        """Return this load for `from_json`, without the fields that come from its place in ZooKeeper."""
        return text_of({name: value for name, value in asdict(self).items() if name not in ("path", "folders")})

    @classmethod
    def from_json(cls, text: bytes | str, most_bytes: int = MAX_JSON_BYTES) -> Self:
        """Return the load that `to_json` wrote, if its families and last WALs are valid. Raises NotARecord."""
        values = parsed_object(text, most_bytes)
        found = replace(record_of(cls, values), path="", folders=0)
        try:
            sense = "tables" in values and _makes_sense(found)
        except ValueError as error:
            raise NotARecord(str(error)) from None
        if not sense:
            raise NotARecord("it has no tables, or last WALs of other groups")
        return found

    def may_go_on(self, groups: Collection[str]) -> bool:
        """Return whether its job may still load edits above younger ones. The caller holds the leases of `groups`."""
        if self.done:
            return self.folders > 0
        return not self.groups or any(group in self.groups for group in groups)

    def covers(self, wal: str) -> bool:
        """Return whether a WAL is among the loaded ones."""
        name = parse_wal_name(wal)
        if name.group not in self.groups:
            return self.done and name.timestamp < self.others_before
        last = self.groups[name.group]
        return self.done and bool(last) and name.timestamp <= parse_wal_name(last or wal).timestamp


def _makes_sense(load: Load) -> bool:
    """Return whether each last WAL belongs to its group. Raises ValueError for an invalid name of a WAL or a family."""
    for family in chain.from_iterable(load.tables.values()):
        from_binary_text(family)
    return all(not last or parse_wal_name(last).group == group for group, last in load.groups.items())


def begin_load(session: Session, peer_id: str, run: str, groups: Collection[str], lease: Lease) -> str:
    """Note that a load begins, under one of its leases. Returns the path of its record."""
    folder = session.own.loads(peer_id)
    path = f"{folder}/{uuid.uuid4().hex}"
    value = encode(Load(run, dict.fromkeys(groups, "")))
    retried(session.zk, session.zk.ensure_path, folder)
    expected(lease.write(lambda multi: multi.create(path, value)), NodeExistsError)
    return path


def note_done(zk: KazooClient, path: str, load: Load, lease: Lease) -> None:
    """Note that all files are loaded. Raises LeaseLost, LoadOvertaken."""
    if set_fenced(zk, lease.write, path, encode(load), BEGUN) is None:
        raise _overtaken(path)


class LoadFolder:
    """The folder of one load of a backlog's task, noted with the record at `path` (file_loader.FolderNote)."""

    def __init__(self, session: Session, peer_id: str, path: str, peer_state: tuple[str, int]) -> None:
        self._session = session
        self._peer_id = peer_id
        self._zk = session.zk
        self._path = path
        self._peer_state = peer_state
        self.znode = ""  # of the note

    def note(self, folder: Folder) -> None:
        """Note the folder before files are put into it. Raises LoadOvertaken if the load is over."""
        self.znode = f"{self._path}/{uuid.uuid4().hex}"

        def create() -> Refusal | None:
            multi = self._zk.transaction()
            multi.check(self._path, BEGUN)
            multi.create(self.znode, encode(folder))
            return commit(multi)

        refusal = retried(self._zk, create)
        if refusal is not None and not isinstance(refusal.error, NodeExistsError):  # made by an earlier try of this call
            raise _overtaken(self._path)

    def check(self) -> None:
        """Check that the load goes on, that its note exists, and that the peer has not been enabled. Raises LoadOvertaken."""
        look(self._session, self._peer_id)
        (peer_state, version), path = self._peer_state, self._path
        retried(self._zk, self._zk.sync, path)
        record, noted, state = read_all(self._zk, [path, self.znode, peer_state])
        if record is None or noted is None or record.stat.version != BEGUN:
            raise _overtaken(path)
        if state is None or state.stat.version != version:
            raise LoadOvertaken(f"{peer_state} has changed since the load of {path} began: the peer may have been enabled")

    def forget(self) -> None:
        """Delete the note, because the folder is deleted."""
        forget(self._zk, self.znode)


def _overtaken(path: str) -> LoadOvertaken:
    return LoadOvertaken(f"the load of {path} is over: another run holds the queues, or the driver has gone on without us")


def end(zk: KazooClient, path: str) -> None:
    """End a load, which may have ended already. Its tasks note no more folders, so the folders noted by now are all."""

    def write() -> None:
        with suppress(NoNodeError, BadVersionError):
            zk.set(path, zk.get(path)[0], BEGUN)

    retried(zk, write)


def forget(zk: KazooClient, path: str) -> None:
    """Delete a note, or a record with all of its notes."""
    with suppress(NoNodeError):
        retried(zk, zk.delete, path, recursive=True)


def loads_of(session: Session, peer_id: str) -> list[Load]:
    """Return the peer's loads that have records. A record that cannot be read counts as a load of no groups.

    Records of an earlier peer with this name are deleted: its peer cluster may have been another one.
    """
    folder = session.own.loads(peer_id)
    znodes = read_children(session.zk, folder)
    added = added_by(session, peer_id) if znodes else None
    found = []
    for name, znode in znodes.items():
        path = f"{folder}/{name}"
        if added is not None and znode.stat.czxid < added:
            forget(session.zk, path)
            continue
        load = decode_or_none(Load, znode.value, MAX_JSON_BYTES) or Load("", {})
        found.append(replace(load, path=path, folders=int(znode.stat.numChildren)))
    return found


def folders_of(zk: KazooClient, path: str) -> dict[str, Folder | None]:
    """Return the folders that a load has noted, by the paths of the notes; None for a note that cannot be read."""
    return {f"{path}/{name}": decode_or_none(Folder, znode.value) for name, znode in read_children(zk, path).items()}


def forget_finished(session: Session, peer_id: str) -> None:
    """Forget loads that are done and whose WALs have all left the queues. Raises QueuesMoving, ConnectError."""
    done = [load for load in loads_of(session, peer_id) if load.done and not load.folders]
    if not done:
        return
    try:
        queued = {wal.name.text for queue in list_queues(session, peer_id) for wal in queue.wals}
    except AnswerTooLong:  # that queue may contain any WAL
        return
    for load in done:
        if not any(map(load.covers, queued)):
            forget(session.zk, load.path)
