"""Tasks by which live RegionServers split the WALs of dead ones.

    <base>/splitWAL/<URL-encoded path of the WAL below the WAL root>    value = "PBUF" SplitLogTask{ state, server, mode }
    <base>/splitWAL/RESCAN…                                             makes all workers look at the tasks again

    UNASSIGNED → OWNED (by a worker, which writes it again as its heartbeat) → DONE, ERR or RESIGNED

Source: HBase's SplitLogTask, ZKSplitLog, ZKSplitLogManagerCoordination (branch-1.4).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum
from urllib.parse import unquote_plus

from kazoo.client import KazooClient, TransactionRequest
from kazoo.exceptions import NoNodeError

from walferry.base.protos import hbase_pb2 as pb
from walferry.base.zk.client import children, read_all, retried
from walferry.base.zk.errors import ZNodeValueError
from walferry.base.zk.fenced_lock import FencedLock
from walferry.hbase.layout import ZNodes
from walferry.hbase.names import ServerName, url_encoded
from walferry.hbase.values import PBUF, decode_message
from walferry.master.writes import NOT_AS_READ

RESCAN = "RESCAN"


class TaskState(IntEnum):
    """How far a WAL's split is."""

    UNASSIGNED = 0
    OWNED = 1
    RESIGNED = 2
    DONE = 3
    ERR = 4


@dataclass(frozen=True)
class Task:
    """A task as read. `wal` is the WAL's path below the WAL root, `worker` the server that wrote the task last."""

    wal: str
    state: TaskState
    worker: ServerName
    version: int


def task_name(wal: str) -> str:
    """Encode a WAL's path as Java's URLEncoder does."""
    return url_encoded(wal)


def read_tasks(zk: KazooClient, nodes: ZNodes) -> tuple[dict[str, Task], list[ZNodeValueError]]:
    """Read all tasks by the paths of their WALs, and what is wrong with those that cannot be read."""
    names = [name for name in children(zk, nodes.split_tasks) or [] if not name.startswith(RESCAN)]
    paths = [f"{nodes.split_tasks}/{name}" for name in names]
    tasks, broken = {}, []
    for name, path, found in zip(names, paths, read_all(zk, paths), strict=True):
        if found is None:
            continue
        try:
            message = decode_message(pb.SplitLogTask, found.value, path)
            server = message.server_name
            worker = ServerName.in_message(server.host_name, server.port, server.start_code)
        except ZNodeValueError as error:
            broken.append(error)
            continue
        except ValueError as error:
            broken.append(ZNodeValueError(path, str(error), "Delete the znode: the WAL then gets another task"))
            continue
        wal = unquote_plus(name)
        tasks[wal] = Task(wal, TaskState(message.state), worker, found.stat.version)
    return tasks, broken


class TaskWrites:
    """Changes tasks under the master's role; `me` is the name by which the tasks know this master."""

    def __init__(self, zk: KazooClient, nodes: ZNodes, lock: FencedLock, me: ServerName) -> None:
        self._zk = zk
        self._nodes = nodes
        self._hold = lock
        self._me = me

    def create(self, wal: str) -> bool:
        """Create the task of a WAL. False if it has one already. Raises the role's errors, ConnectError."""
        return self._write(lambda multi: multi.create(self._path(wal), self._value(TaskState.UNASSIGNED)))

    def submit_again(self, task: Task) -> bool:
        """Give a task to another worker. False if it is not as read any more. Raises the role's errors, ConnectError."""
        value = self._value(TaskState.UNASSIGNED)
        return self._write(lambda multi: multi.set_data(self._path(task.wal), value, task.version))

    def delete(self, task: Task) -> bool:
        """Delete a task. False if it is not as read any more. Raises the role's errors, ConnectError."""
        return self._write(lambda multi: multi.delete(self._path(task.wal), task.version))

    def wake_workers(self) -> None:
        """Make all workers look for tasks, which they do by themselves only when a task comes or goes. Raises ConnectError."""
        path = f"{self._nodes.split_tasks}/{RESCAN}"
        made = retried(self._zk, self._zk.create, path, self._value(TaskState.DONE), ephemeral=True, sequence=True)
        with suppress(NoNodeError):  # an earlier try was carried out
            retried(self._zk, self._zk.delete, made)

    def _write(self, operations: Callable[[TransactionRequest], None]) -> bool:
        outcome = self._hold.write(operations)
        if outcome.refusal is not None and not isinstance(outcome.refusal.error, NOT_AS_READ):
            raise outcome.refusal.error
        return outcome.refusal is None

    def _path(self, wal: str) -> str:
        return f"{self._nodes.split_tasks}/{task_name(wal)}"

    def _value(self, state: TaskState) -> bytes:
        task = pb.SplitLogTask(
            state=state.name,
            server_name=pb.ServerName(host_name=self._me.host, port=self._me.port, start_code=self._me.start_code),
            mode=pb.SplitLogTask.LOG_SPLITTING,
        )
        return PBUF + task.SerializeToString()
