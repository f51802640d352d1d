"""Defines the summary of a run, WAL group by WAL group, under the names of HBase's metrics."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from enum import StrEnum
from typing import Self, TypeVar

from walferry.base.records import MAX_BYTES, NotARecord, Record, parsed_object, record_of, text_of
from walferry.base.texts import one_line, visible

MAX_ERROR_CHARS = 4000  # ZooKeeper drops a connection that sends it more than 1 MiB
TABLE_COUNTS = 3
MAX_NAMES, MAX_NAME_CHARS = 500, 300  # of tables and families whose edits were dropped
LATEST_MS = 253_402_300_799_999  # the year 9999

T = TypeVar("T")


class Status(StrEnum):
    """The state of a group's shipping, or how it ended."""

    RUNNING = "running"
    DONE = "done"  # every closed WAL of the group is shipped
    DEADLINE = "deadline"  # the run's time was over; the rest stays queued
    WAITING = "waiting"  # for edits in other WAL groups, which a serial peer gets first; the rest stays queued
    HELD = "held"  # another run holds the group's lease
    PAUSED = "paused"  # the peer was paused meanwhile; the rest stays queued until it is resumed
    PEER_DOWN = "peer-down"  # the peer cluster has acknowledged nothing for too long; the next batch tries again
    FAILED = "failed"  # the error says why; acknowledged edits are registered, the rest stays queued


@dataclass(frozen=True, kw_only=True)
class GroupSummary(Record):
    """One WAL group in one run. Counts cover the whole run with all attempts; times are in ms since the epoch, sizes in bytes."""

    group: str
    server: str = ""  # the server whose znode contains the queue
    queue_id: str = ""
    status: Status = Status.RUNNING
    error: str | None = None
    passing: bool = False  # whether a retry may succeed at once: the source's ZooKeeper was away
    shippedBatches: int = 0  # shipments acknowledged
    shippedOps: int = 0  # row mutations in the shipments, as HBase counts
    shippedCells: int = 0
    shippedBytes: int = 0  # of cells
    shippedHFiles: int = 0  # HFiles that sinks have copied for bulk loads
    missingHFiles: int = 0  # among these, gone from the source, which no longer kept them for the peer
    failedBatches: int = 0  # requests that had to be sent again
    logEditsRead: int = 0
    logReadInBytes: int = 0
    logEditsFiltered: Mapping[str, int] = field(default_factory=dict)  # by reason
    unreadCells: int = 0  # in a lake: cells shipped of which a typed column could not be read
    cellsFiltered: int = 0  # cells left out of entries whose other cells were shipped
    deletedAtBoth: tuple[str, ...] = ()  # tables, and families as table:family, whose edits were dropped
    completedLogs: int = 0  # WALs that left the queue
    uncleanlyClosedLogs: int = 0  # among them, WALs that end without a trailer
    ignoredUncleanlyClosedLogContentsInBytes: int = 0  # bytes behind the last whole entry of those WALs
    quarantinedLogs: int = 0  # among the completed WALs, broken ones whose rest was given up
    skippedBytes: int = 0  # bytes given up in quarantined WALs
    sizeOfLogQueue: int = 0  # WALs still queued, including a live server's open WAL
    logsLeft: int = 0  # closed WALs that the attempt found and that are still queued
    bytesToShip: int = 0  # bytes of the closed WALs behind their positions when the attempt began
    bytesDone: int = 0  # of bytesToShip, acknowledged or filtered out
    bytesDoneBefore: int = 0  # done by the run's earlier attempts, of their own bytesToShip
    timestampOfLastShippedOp: int | None = None  # write time of the last edit shipped; None: nothing was shipped
    ageOfLastShippedOp: int | None = None  # ms from that edit's write to its acknowledgement
    timestampOfNextToReplicate: int | None = None  # write time of the oldest edit not shipped, or earlier; None: no edit is left
    replicationLag: int | None = None  # ms from that time to the summary; 0: no closed WAL is left; None: unknown
    peer_cluster: str = ""  # the peer's cluster key
    sink: str = ""  # how edits are sent (walferry.replication.peers.settings.SinkKind); empty: none sent yet
    directRefused: str | None = None  # why the peer cluster refuses writes to its regions; None: it does not, or was not asked
    notLoaded: str | None = None  # in a run that loads files: why part of the group did not go as files
    sinkSilentSince: int | None = None  # since when the peer cluster acknowledges nothing; None: it does, or gets no requests
    sinkTries: int = 0  # failed tries since then
    sinkError: str | None = None  # why the last try failed
    lastCompletedLog: str = ""  # in a replay: the newest WAL that is done
    completedLogsDigest: str = ""  # in a replay: `digest_with` of all WALs that are done, in order
    stages: str = ""  # in a replay: identifies the group's edits in this stage, and the edits that they follow (replay.run)
    shippedBy: str = ""  # in a replay: the try of the run that shipped edits last
    tables: Mapping[str, Sequence[int]] = field(default_factory=dict)  # in a replay: edits, cells, bytes of a table
    editsBeforeCopy: int = 0  # in a replay: edits left out because their table's initial snapshot is newer
    seconds: float = 0.0
    cpuSeconds: float = 0.0  # CPU time of the Spark task's own process while it shipped this group

    @property
    def failed(self) -> bool:
        """Whether the run must end as failed because of this group."""
        return self.status in (Status.FAILED, Status.HELD, Status.PEER_DOWN)

    def plus(self, **counts: int) -> Self:
        """Return the summary with these counts added to its own."""
        return replace(self, **{name: getattr(self, name) + count for name, count in counts.items()})

    def to_json(self) -> str:
        """Return this summary for `from_json`. Each text that may come from outside is cut to one line."""
        return text_of(asdict(self._shown()))

    @classmethod
    def from_json(cls, text: bytes | str, most_bytes: int = MAX_BYTES) -> Self:
        """Return the summary that `to_json` wrote, without unknown fields, and each text cut to one line. Raises NotARecord."""
        values = parsed_object(text, most_bytes)
        if "status" not in values:
            raise NotARecord("it has no status")
        found = record_of(cls, values)
        if not found.group.isprintable():
            raise NotARecord("its group is no name of WALs")
        if any(len(counts) != TABLE_COUNTS for counts in found.tables.values()):
            raise NotARecord(f"a table has not {TABLE_COUNTS} counts")
        return found._shown()

    def _shown(self) -> Self:
        texts = {each.name: text for each in fields(self) if isinstance(text := getattr(self, each.name), str)}
        cut = {name: one_line(text, MAX_ERROR_CHARS) for name, text in texts.items() if name not in ("group", "status")}
        return replace(
            self, **cut,  # type: ignore[arg-type]  # texts stay texts
            logEditsFiltered=_with_shown_names(self.logEditsFiltered), tables=_with_shown_names(self.tables),
            deletedAtBoth=tuple(visible(name, MAX_NAME_CHARS) for name in self.deletedAtBoth[:MAX_NAMES]),
        )  # fmt: skip


def digest_with(digest: str, name: str) -> str:
    """Return a short text that identifies a sequence of names: `name`, behind the names that `digest` identifies."""
    return hashlib.sha256(f"{digest} {name}".encode()).hexdigest()[:16]


def shown_ms(write_time: int) -> int:
    """Return a WAL's write time, which may be any number, within the times that summaries contain: 1970 to 9999."""
    return min(max(0, write_time), LATEST_MS)


def _with_shown_names(values: Mapping[str, T]) -> dict[str, T]:
    return {visible(name, MAX_NAME_CHARS): value for name, value in values.items()}
