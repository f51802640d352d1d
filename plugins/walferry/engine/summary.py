"""What a run did, WAL group by WAL group, under the names that HBase's metrics have."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from enum import StrEnum
from typing import Any, Self, TypeVar

from walferry.base.records import MAX_BYTES, NotARecord, Record, parsed_object, record_of, text_of
from walferry.base.texts import one_line, visible

MAX_ERROR_CHARS = 4000  # ZooKeeper drops a connection that sends it more than 1 MiB
TABLE_COUNTS = 3
MAX_NAMES, MAX_NAME_CHARS = 500, 300  # of tables and families that were dropped
LATEST_MS = 253_402_300_799_999  # the year 9999
_ERRORS = ("error", "slaveError", "directRefused", "notLoaded")

T = TypeVar("T")


class Status(StrEnum):
    """How a group's shipping stands, or ended."""

    RUNNING = "running"
    DONE = "done"  # every closed WAL of the group is shipped
    DEADLINE = "deadline"  # the run's time was over; the rest stays queued
    HELD = "held"  # another run holds the group's lease
    PAUSED = "paused"  # the peer was paused meanwhile; the rest stays queued until it is resumed
    SLAVE_DOWN = "slave-down"  # the slave has acknowledged nothing for too long; the next batch tries again
    FAILED = "failed"  # the error says why; what was acknowledged is registered, the rest stays queued


@dataclass(frozen=True, kw_only=True)
class GroupSummary(Record):
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
    cellsFiltered: int = 0  # cells left out of entries whose other cells were shipped
    deletedAtBoth: tuple[str, ...] = ()  # tables, and families as table:family, whose edits were dropped
    completedLogs: int = 0  # WALs that left the queue
    uncleanlyClosedLogs: int = 0  # among them those that end without a trailer
    ignoredUncleanlyClosedLogContentsInBytes: int = 0  # behind the last whole entry of these
    quarantinedLogs: int = 0  # among the completed ones those that were broken, and given up from there on
    skippedBytes: int = 0  # of these
    sizeOfLogQueue: int = 0  # WALs still queued, the open one of a live server among them
    logsLeft: int = 0  # closed WALs that the attempt has found and that have not left the queue
    bytesToShip: int = 0  # of closed WALs when the attempt began, from the positions on
    bytesDone: int = 0  # of these, acknowledged or filtered
    bytesDoneBefore: int = 0  # by the run's earlier attempts, of what these had found
    timestampOfLastShippedOp: int | None = None  # write time of the last edit shipped; None: none was
    ageOfLastShippedOp: int | None = None  # ms from its write to its acknowledgement
    timestampOfNextToReplicate: int | None = None  # write time of the oldest edit not shipped, or earlier; None: none is left
    replicationLag: int | None = None  # ms since then, when this was written; 0: no closed WAL is left; None: not known
    slave: str = ""  # the peer's cluster key
    sink: str = ""  # how edits are sent: walferry.replication.peers.settings.SinkKind; empty: nothing has been yet
    directRefused: str | None = None  # why the slave does not let its regions be written to; None: it does, or was not asked to
    notLoaded: str | None = None  # of a run that loads files: why not all of the group went so
    slaveSilentSince: int | None = None  # since when it acknowledges nothing; None: it does, or is asked nothing
    slaveTries: int = 0  # tries that have failed since then
    slaveError: str | None = None  # why the last of them failed
    lastCompletedLog: str = ""  # of an interval that is shipped again: the newest WAL that is done
    completedLogsDigest: str = ""  # of such an interval: `digest_with` of all WALs that are done, in order
    stages: str = ""  # of such an interval: tells which of the group's edits this is about, and what they follow (replay.run)
    shippedBy: str = ""  # of such an interval: the try of the run that has shipped some of it last
    tables: Mapping[str, Sequence[int]] = field(default_factory=dict)  # of such an interval: edits, cells, bytes of a table
    editsBeforeCopy: int = 0  # of such an interval: edits that are older than the initial snapshot of their table, and left out
    seconds: float = 0.0
    cpuSeconds: float = 0.0  # of the Spark task's own process, while it shipped this group

    @property
    def failed(self) -> bool:
        """Whether the run must end as failed because of this group."""
        return self.status in (Status.FAILED, Status.HELD, Status.SLAVE_DOWN)

    def to_json(self) -> str:
        """This summary for `from_json`; texts that may be from outside are cut to one line each."""
        values = asdict(self)
        deleted = [visible(name, MAX_NAME_CHARS) for name in self.deletedAtBoth[:MAX_NAMES]]
        return text_of(values | _shown(values) | {"deletedAtBoth": deleted})

    @classmethod
    def from_json(cls, text: bytes | str, most_bytes: int = MAX_BYTES) -> Self:
        """The summary that `to_json` wrote; fields of another version are left out, and each text is cut to one line.

        Raises NotARecord.
        """
        values = parsed_object(text, most_bytes)
        if "status" not in values:
            raise NotARecord("it has no status")
        found = record_of(cls, values)
        if not found.group.isprintable():
            raise NotARecord("its group is no name of WALs")
        if any(len(counts) != TABLE_COUNTS for counts in found.tables.values()):
            raise NotARecord(f"a table has not {TABLE_COUNTS} counts")
        texts = {each.name: text for each in fields(found) if isinstance(text := getattr(found, each.name), str)}
        cut = {name: one_line(text, MAX_ERROR_CHARS) for name, text in texts.items() if name not in ("group", "status")}
        return replace(
            found, **cut,  # type: ignore[arg-type]  # texts stay texts
            logEditsFiltered=_with_shown_names(found.logEditsFiltered), tables=_with_shown_names(found.tables),
            deletedAtBoth=tuple(visible(name, MAX_NAME_CHARS) for name in found.deletedAtBoth),
        )  # fmt: skip


def digest_with(digest: str, name: str) -> str:
    """A short text that tells which names there are, in which order: `digest` tells it of those before this one."""
    return hashlib.sha256(f"{digest} {name}".encode()).hexdigest()[:16]


def shown_ms(write_time: int) -> int:
    """A write time of a WAL, which may be any number, as a time that summaries have: from 1970 to 9999."""
    return min(max(0, write_time), LATEST_MS)


def _with_shown_names(values: Mapping[str, T]) -> dict[str, T]:
    return {visible(name, MAX_NAME_CHARS): value for name, value in values.items()}


def _shown(values: Mapping[str, Any]) -> dict[str, str]:
    """The errors among the values, each as one bounded line."""
    return {name: one_line(text, MAX_ERROR_CHARS) for name in _ERRORS if (text := values.get(name))}
