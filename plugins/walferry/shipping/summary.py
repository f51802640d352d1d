"""What a run did, queue group by queue group, under the names that HBase's metrics have.

While a Spark task ships a WAL group it keeps its summary in a znode of our own root, so progress can be watched and the
summary comes back whatever the master and deploy mode:

    <root>/runs/<quoted znode parent>/<peer>/<quoted run id>                    until when it is kept, in s since the epoch
    <root>/runs/<quoted znode parent>/<peer>/<quoted run id>/<quoted group>     GroupSummary as JSON

A retry of the same run goes on counting where the killed attempt's last summary stopped.

While a dead server's queues are drained, job by job, hundreds of batches of the same peer may begin and end. So each job says how
long its run is to be kept; of the runs whose time is over the newest are.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum

from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError, NoNodeError, NotEmptyError

from walferry.hbase.layout import quoted
from walferry.source.cluster import SourceCluster
from walferry.source.session import Session
from walferry.texts import one_line
from walferry.zk.client import ZNode, children, read, read_all, retried

RUNS_KEPT = 20  # of one peer: the newest
RUNS_AT_MOST = 200  # of one peer, those among them that have to be kept longer
MAX_ERROR_CHARS = 4000  # ZooKeeper drops a connection that sends it more than 1 MiB

log = logging.getLogger(__name__)


class Status(StrEnum):
    """How a group's shipping stands."""

    RUNNING = "running"
    DONE = "done"  # every closed WAL of the group is shipped
    DEADLINE = "deadline"  # the run's time was over; the rest stays queued
    HELD = "held"  # somebody else holds the group's lease
    SLAVE_DOWN = "slave-down"  # the slave has acknowledged nothing for too long; the next batch tries again
    FAILED = "failed"  # the error says why; what was acknowledged is registered, the rest stays queued


@dataclass(frozen=True, kw_only=True)
class GroupSummary:
    """One WAL group in one run. Counts are of the whole run, over its attempts; times in ms since the epoch; sizes in bytes."""

    group: str
    server: str = ""  # under whose znode the queue lies
    queue_id: str = ""
    status: Status = Status.RUNNING
    error: str | None = None
    passing: bool = False  # whether what failed may go better at once: the source's ZooKeeper was away
    shippedBatches: int = 0  # shipments acknowledged
    shippedOps: int = 0  # row mutations in them, as HBase counts
    shippedCells: int = 0
    shippedBytes: int = 0  # of cells
    shippedHFiles: int = 0  # that sinks have copied for bulk loads
    missingHFiles: int = 0  # among these, gone from the source, which did not keep them for the peer any more
    failedBatches: int = 0  # requests that had to be sent again
    logEditsRead: int = 0
    logReadInBytes: int = 0
    logEditsFiltered: Mapping[str, int] = field(default_factory=dict)  # by reason
    cellsFiltered: int = 0  # cells left out, in entries of which others were shipped too
    completedLogs: int = 0  # WALs that left the queue
    uncleanlyClosedLogs: int = 0  # among them those that end without a trailer
    ignoredUncleanlyClosedLogContentsInBytes: int = 0  # behind the last whole entry of these
    quarantinedLogs: int = 0  # among the completed ones those that were broken, and given up from there on
    skippedBytes: int = 0  # of these
    sizeOfLogQueue: int = 0  # WALs still queued, the open one of a live server among them
    logsLeft: int = 0  # closed WALs that the attempt has found and that have not left the queue
    bytesToShip: int = 0  # of closed WALs when the attempt began, from the positions on
    bytesDone: int = 0  # of these, acknowledged or filtered
    timestampOfLastShippedOp: int | None = None  # write time of the last edit shipped; None: none was
    ageOfLastShippedOp: int | None = None  # ms from its write to its acknowledgement
    timestampOfNextToReplicate: int | None = None  # write time of the oldest edit not shipped, or earlier; None: none is left
    replicationLag: int | None = None  # ms since then, when this was written; 0: no closed WAL is left; None: not known
    slave: str = ""  # the peer's cluster key
    slaveSilentSince: int | None = None  # since when it acknowledges nothing; None: it does, or is asked nothing
    slaveTries: int = 0  # that have failed since then
    slaveError: str | None = None  # why the last of them has
    seconds: float = 0.0
    cpuSeconds: float = 0.0  # of the Spark task's own process, while it shipped this group

    @property
    def failed(self) -> bool:
        """Whether the run must end as failed because of this group."""
        return self.status in (Status.FAILED, Status.HELD, Status.SLAVE_DOWN)

    def to_json(self) -> str:
        """This summary as JSON, read back by `from_json`; of errors, in which others may have their say, a line each."""
        errors = {name: one_line(text, MAX_ERROR_CHARS) for name in ("error", "slaveError") if (text := getattr(self, name))}
        return json.dumps(asdict(self) | errors, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> GroupSummary:
        """The summary that `to_json` wrote; fields of another version are left out."""
        known = {f.name for f in fields(cls)}
        values = {k: v for k, v in json.loads(text).items() if k in known}
        return cls(**{**values, "status": Status(values["status"])})


def begin_run(session: Session, peer_id: str, run_id: str, keep_s: float) -> None:
    """Make the run's znode, to be kept for `keep_s` at least, and delete runs of the peer that need not be kept any more.

    Raises ConnectError.
    """
    _put(session.zk, _run_path(session.source, peer_id, run_id), str(int(time.time() + keep_s)).encode())
    parent = _run_path(session.source, peer_id, "").rstrip("/")
    names = children(session.zk, parent) or []
    znodes = dict(zip(names, read_all(session.zk, [f"{parent}/{name}" for name in names]), strict=True))
    for name in _superfluous({name: znode for name, znode in znodes.items() if znode is not None}):
        try:
            retried(session.zk, session.zk.delete, f"{parent}/{name}", recursive=True)
        except NotEmptyError:  # somebody writes to it after all: it is for the next run to delete
            log.info("the summaries of %s are written to while they are being deleted", name)


def delete_old_runs(session: Session, peer_id: str, at_most: int) -> int:
    """Delete the runs of a peer that is gone, once their time is over, and its folder with the last one; how many."""
    parent = _run_path(session.source, peer_id, "").rstrip("/")
    names = children(session.zk, parent) or []
    znodes = zip(names, read_all(session.zk, [f"{parent}/{name}" for name in names]), strict=True)
    old = [name for name, znode in znodes if znode is None or _kept_until(znode) <= time.time()]
    for path in (*(f"{parent}/{name}" for name in old[:at_most]), *([parent] if len(old[:at_most]) == len(names) else ())):
        try:
            retried(session.zk, session.zk.delete, path, recursive=path != parent)
        except (NoNodeError, NotEmptyError):  # another run deletes it too, or somebody writes to it after all
            log.info("%s is being changed while it is being deleted", path)
    return len(old[:at_most])


def _superfluous(runs: Mapping[str, ZNode]) -> list[str]:
    """Those of the runs that go: all but the newest, and those that have to be kept longest."""
    by_age = sorted(runs, key=lambda name: runs[name].stat.czxid, reverse=True)
    others = sorted(by_age[RUNS_KEPT:], key=lambda name: _kept_until(runs[name]), reverse=True)
    places = RUNS_AT_MOST - RUNS_KEPT
    return [name for place, name in enumerate(others) if place >= places or _kept_until(runs[name]) <= time.time()]


def _kept_until(run: ZNode) -> int:
    return int(run.value) if run.value.isdigit() else 0


def write_group(session: Session, peer_id: str, run_id: str, summary: GroupSummary) -> None:
    """Keep a group's summary; the last one written counts. Raises ConnectError."""
    _put(session.zk, f"{_run_path(session.source, peer_id, run_id)}/{quoted(summary.group)}", summary.to_json().encode())


def _put(zk: KazooClient, path: str, value: bytes) -> None:
    try:
        retried(zk, zk.set, path, value)
    except NoNodeError:
        try:
            retried(zk, zk.create, path, value, makepath=True)
        except NodeExistsError:  # made by a request of ours whose answer was lost
            retried(zk, zk.set, path, value)


def read_group(session: Session, peer_id: str, run_id: str, group: str) -> GroupSummary | None:
    """What this run has written of the group so far. Raises ConnectError."""
    znode = read(session.zk, f"{_run_path(session.source, peer_id, run_id)}/{quoted(group)}")
    return GroupSummary.from_json(znode.value.decode()) if znode else None


def read_run(session: Session, peer_id: str, run_id: str) -> list[GroupSummary]:
    """All groups' summaries of a run, sorted by group; empty if the run shipped nothing or is no longer kept."""
    path = _run_path(session.source, peer_id, run_id)
    znodes = read_all(session.zk, [f"{path}/{name}" for name in children(session.zk, path) or ()])
    return [GroupSummary.from_json(znode.value.decode()) for znode in znodes if znode]


def _run_path(source: SourceCluster, peer_id: str, run_id: str) -> str:
    return f"{source.root}/runs/{quoted(source.znode_parent)}/{quoted(peer_id)}/{quoted(run_id) if run_id else ''}"
