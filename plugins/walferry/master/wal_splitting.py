"""Gets the WALs of dead servers split, so that their regions find all edits when they are opened again.

    1. fence     WALs/<server> is renamed to WALs/<server>-splitting: the server cannot begin another WAL
    2. split     each WAL gets a task, which a live server carries out; WALs of hbase:meta come first
    3. archive   a WAL that was split goes to oldWALs, or to corrupt if the worker has marked it so
    4. end       the task is deleted after that, and the folder when it is empty

The tasks by which live RegionServers split the WALs:

    <base>/splitWAL/<URL-encoded path of the WAL below the WAL root>    value = "PBUF" SplitLogTask{ state, server, mode }
    <base>/splitWAL/RESCAN…                                             makes all workers look at the tasks again

    UNASSIGNED → OWNED (by a worker, which writes it again as its heartbeat) → DONE, ERR or RESIGNED

A dead server is a server with a folder of WALs and without a session. Each region that it served, or was opening or closing,
waits in `decide` until the folder is gone. So a recovery needs no list of regions, and a new master goes on with a half-done one.

`advance` takes all steps that can be taken now, and never waits. Its steps follow from the folders and the tasks alone, so
another process can go on at any step. An empty WAL is split like the others: the worker finds no edit in it.

Source: HBase's MasterFileSystem.splitLog, SplitLogManager, WALSplitter.finishSplitLogFile, SplitLogTask, ZKSplitLog,
ZKSplitLogManagerCoordination (branch-1.4).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum
from urllib.parse import unquote_plus

from kazoo.client import KazooClient, TransactionRequest
from kazoo.exceptions import NoNodeError

from walferry.base.errors import WalferryError
from walferry.base.protos import hbase_pb2 as pb
from walferry.base.zk.client import NOT_AS_READ, ZNode, expected, read_children, retried
from walferry.base.zk.errors import ZNodeValueError
from walferry.base.zk.fenced_lock import FencedLock
from walferry.hbase.cluster import is_live, live_servers
from walferry.hbase.files.store import OLD_WALS, SPLITTING, WALS, WalStore
from walferry.hbase.files.systems import delete_empty_folder, delete_folder, exists, list_entries, make_folder, rename, touch
from walferry.hbase.layout import ZNodes
from walferry.hbase.names import META_SUFFIX, ServerName, is_server_name, url_encoded
from walferry.hbase.values import PBUF, decode_message
from walferry.master.errors import SplitFailed
from walferry.master.master_calls import ServerRegistry
from walferry.master.znodes import Readings, decoded

CORRUPT = "corrupt"  # HBase's folder for WALs that could not be read to the end, and its mark in STAGING
STAGING = "splitWAL"  # where workers keep unfinished output
HEARTBEAT_SECONDS = 120.0  # hbase.splitlog.manager.timeout
MAX_RESUBMITS = 3  # hbase.splitlog.max.resubmit
RESCAN_SECONDS = 60.0  # after this time without a change, workers are made to look again
RESCAN = "RESCAN"


class TaskState(IntEnum):
    """The state of a WAL's split."""

    UNASSIGNED = 0
    OWNED = 1
    RESIGNED = 2
    DONE = 3
    ERR = 4


@dataclass(frozen=True)
class Task:
    """A task as read. `wal` is the WAL's path below the WAL root, `worker` the last server that wrote the task."""

    wal: str
    state: TaskState
    worker: ServerName
    version: int


def read_tasks(zk: KazooClient, nodes: ZNodes) -> Readings[Task]:
    """Read all tasks by the paths of their WALs, and the errors of unreadable tasks."""
    znodes = {name: found for name, found in read_children(zk, nodes.split_tasks).items() if not name.startswith(RESCAN)}
    tasks, broken = decoded(znodes, nodes.split_tasks, _task)
    return {task.wal: task for task in tasks.values()}, broken


def _task(found: ZNode, path: str) -> Task:
    message = decode_message(pb.SplitLogTask, found.value, path)
    server = message.server_name
    try:
        worker = ServerName.in_message(server.host_name, server.port, server.start_code)
    except ValueError as error:
        raise ZNodeValueError(path, str(error), "Delete the znode: the WAL then gets another task") from error
    return Task(unquote_plus(path.rpartition("/")[2]), TaskState(message.state), worker, found.stat.version)


@dataclass(frozen=True)
class SplitProgress:
    """How many of a dead server's WALs are left, and the error. With `left` 0 all were split, and the folder is gone."""

    server: ServerName
    left: int
    error: WalferryError | None = None


@dataclass
class _Watched:
    """This process's observations of a task."""

    version: int
    since: float
    resubmits: int = 0


def servers_with_wals(root: str) -> frozenset[ServerName]:
    """List the servers that have a folder of WALs, live ones too. Raises WrongRoot, StoreError.

    Files, and folders whose name is not a server's, are skipped.
    """
    WalStore(root).check_root()
    names = (entry.name.removesuffix(SPLITTING) for entry in list_entries(f"{root.rstrip('/')}/{WALS}") if entry.is_folder)
    return frozenset(map(ServerName.parse, filter(is_server_name, names)))


def with_meta_wals(root: str, dead: Iterable[ServerName]) -> frozenset[ServerName]:
    """Return the dead servers with an unsplit WAL of hbase:meta. Raises StoreError."""
    folders = {server: f"{root.rstrip('/')}/{WALS}/{server}" for server in dead}
    return frozenset(
        server
        for server, folder in folders.items()
        if any(entry.name.endswith(META_SUFFIX) for each in (folder, folder + SPLITTING) for entry in list_entries(each))
    )


def fence(root: str, server: ServerName) -> None:
    """Rename a dead server's folder, so that it cannot begin another WAL. Does nothing if already done. Raises StoreError."""
    folder = f"{root}/{WALS}/{server}"
    if not exists(folder):
        return
    if not exists(folder + SPLITTING):
        rename(folder, folder + SPLITTING)
        return
    for entry in list_entries(folder):  # the folder came back after an earlier rename
        rename(f"{folder}/{entry.name}", f"{folder}{SPLITTING}/{entry.name}")
    delete_empty_folder(folder)


class WalSplitting:
    """The WAL splits of one holder of the master's role."""

    def __init__(self, zk: KazooClient, nodes: ZNodes, root: str, lock: FencedLock, me: ServerName) -> None:
        self._zk = zk
        self._nodes = nodes
        self._root = root.rstrip("/")
        self._hold = lock
        self._me = me  # in the tasks
        self._seen: dict[str, _Watched] = {}
        self._last_rescan = time.monotonic()

    def advance(self, dead: Iterable[ServerName]) -> list[SplitProgress]:
        """Take the next steps for these servers. A server's error stops only its own WALs. Raises the role's errors."""
        retried(self._zk, self._zk.ensure_path, self._nodes.split_tasks)
        live = live_servers(self._zk, self._nodes)
        wals: dict[ServerName, list[str]] = {}
        errors: dict[ServerName, WalferryError] = {}
        for server in sorted(dead):
            try:
                wals[server] = self._fenced_wals(server)
            except WalferryError as error:
                self._hold.check()
                errors[server], wals[server] = error, []
        tasks, broken = read_tasks(self._zk, self._nodes)
        meta_first = any(wal.endswith(META_SUFFIX) for each in wals.values() for wal in each)
        unreadable, progress = next(iter(broken.values()), None), []
        for server, its in wals.items():
            left = len(its)
            try:
                if server not in errors:
                    left = self._advance(server, its, tasks, live, meta_first)
            except WalferryError as error:
                self._hold.check()
                errors[server] = error
            progress.append(SplitProgress(server, max(left, server in errors), errors.get(server) or unreadable))
        return progress

    def _fenced_wals(self, server: ServerName) -> list[str]:
        """Return the paths of a dead server's WALs below the root, after it was fenced."""
        self._hold.check()
        if is_live(self._zk, self._nodes, str(server)):
            raise SplitFailed(f"{server} is alive, so its WALs are left to it", "Stop the server first")
        fence(self._root, server)
        folder = f"{WALS}/{server}{SPLITTING}"
        return [f"{folder}/{entry.name}" for entry in list_entries(f"{self._root}/{folder}") if not entry.is_folder]

    def _advance(
        self, server: ServerName, wals: list[str], tasks: dict[str, Task], live: frozenset[ServerName], meta_first: bool
    ) -> int:
        """Take the next step of each WAL of a server. Returns how many are left."""
        folder = f"{WALS}/{server}{SPLITTING}"
        left, failed = 0, []
        for wal in wals:
            task = tasks.get(wal)
            if task is None:
                left += 1
                if not meta_first or wal.endswith(META_SUFFIX):
                    self._create(wal)
            elif task.state is TaskState.DONE:
                self._archive(wal)
                self._delete(task)
                self._seen.pop(wal, None)
            else:
                left += 1
                if not self._look_after(task, live):
                    failed.append(wal)
        for wal, task in tasks.items():
            if wal.startswith(f"{folder}/") and wal not in wals and task.state is not TaskState.OWNED:
                self._delete(task)  # the task's WAL was archived before
        if failed:
            raise SplitFailed(
                f"{len(failed)} WALs of {server} could not be split, the first is {failed[0]}",
                "The servers' logs say why. The next pass tries again; a file that cannot be mended can be moved away by hand",
            )
        if not left:
            delete_empty_folder(f"{self._root}/{folder}")
            left = int(exists(f"{self._root}/{folder}"))
        return left

    def _look_after(self, task: Task, live: frozenset[ServerName]) -> bool:
        """Give a task without progress to another worker. Returns False if it was given away too often, and deletes it."""
        now = time.monotonic()
        seen = self._seen.setdefault(task.wal, _Watched(task.version, now))
        if seen.version != task.version:
            seen.version, seen.since = task.version, now
        idle = now - seen.since
        if task.state is TaskState.UNASSIGNED:
            if idle > RESCAN_SECONDS and now - self._last_rescan > RESCAN_SECONDS:
                self._last_rescan = now
                self.wake_workers()
            return True
        forced = task.state is TaskState.RESIGNED or (task.state is TaskState.OWNED and task.worker not in live)
        if not forced:
            if task.state is TaskState.OWNED and idle < HEARTBEAT_SECONDS:
                return True
            if seen.resubmits >= MAX_RESUBMITS and task.state is TaskState.OWNED:
                return True  # HBase also lets a slow worker go on then
            if seen.resubmits >= MAX_RESUBMITS:
                self._delete(task)
                del self._seen[task.wal]
                return False
            seen.resubmits += 1
        if self._submit_again(task):
            self.wake_workers()
        return True

    def _archive(self, wal: str) -> None:
        """Move a split WAL to the folder where HBase keeps it."""
        name = wal.rpartition("/")[2]
        source, staging = f"{self._root}/{wal}", f"{self._root}/{STAGING}/{name}"
        corrupt = exists(f"{staging}/{CORRUPT}")
        target = f"{self._root}/{CORRUPT if corrupt else OLD_WALS}"
        make_folder(target)
        self._hold.check()
        with suppress(FileNotFoundError):  # another process has archived it
            touch(source)  # before the rename: an archived file with an old time may be cleaned at once
            rename(source, f"{target}/{name}")
        delete_folder(staging)

    def _create(self, wal: str) -> None:
        """Create the task of a WAL, unless it has one already. Raises the role's errors, ConnectError."""
        self._write(lambda multi: multi.create(self._task_path(wal), self._value(TaskState.UNASSIGNED)))

    def _submit_again(self, task: Task) -> bool:
        """Give a task to another worker. Returns False if the task has changed since. Raises the role's errors, ConnectError."""
        value = self._value(TaskState.UNASSIGNED)
        return self._write(lambda multi: multi.set_data(self._task_path(task.wal), value, task.version))

    def _delete(self, task: Task) -> None:
        """Delete a task, unless it has changed since it was read. Raises the role's errors, ConnectError."""
        self._write(lambda multi: multi.delete(self._task_path(task.wal), task.version))

    def wake_workers(self) -> None:
        """Make all workers look for tasks. By themselves they look only when a task comes or goes. Raises ConnectError."""
        path = f"{self._nodes.split_tasks}/{RESCAN}"
        made = retried(self._zk, self._zk.create, path, self._value(TaskState.DONE), ephemeral=True, sequence=True)
        with suppress(NoNodeError):  # an earlier try deleted it
            retried(self._zk, self._zk.delete, made)

    def _write(self, operations: Callable[[TransactionRequest], None]) -> bool:
        return expected(self._hold.write(operations).refusal, *NOT_AS_READ) is None

    def _task_path(self, wal: str) -> str:
        return f"{self._nodes.split_tasks}/{url_encoded(wal)}"

    def _value(self, state: TaskState) -> bytes:
        me = pb.ServerName(host_name=self._me.host, port=self._me.port, start_code=self._me.start_code)
        task = pb.SplitLogTask(state=state.name, server_name=me, mode=pb.SplitLogTask.LOG_SPLITTING)
        return PBUF + task.SerializeToString()


def recover(
    zk: KazooClient, nodes: ZNodes, wal_root: str, registry: ServerRegistry, splitting: WalSplitting
) -> list[SplitProgress]:
    """Take the next steps for the WALs of all dead servers. Raises the role's errors, StoreError, ClusterError, ConnectError.

    A server that only lost its session learns at its next report that it is dead; it is given up before its WALs are touched.
    """
    dead = servers_with_wals(wal_root) - live_servers(zk, nodes)  # in this order: a server that starts meanwhile is not dead
    for server in dead:
        registry.give_up(server)
    return splitting.advance(dead)
