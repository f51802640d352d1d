"""Counts while a group is shipped: the reader, the senders and the commit add to one summary."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from walferry.engine.summary import GroupSummary, Status, digest_with, shown_ms
from walferry.hbase.wal.windows import Window
from walferry.replication.filters.rules import Reason
from walferry.replication.filters.window import KeptEdits, filtered_by_reason
from walferry.replication.sinks.answers import Outage
from walferry.replication.sinks.sink import SinkRequest


class Counters:
    """The summary of one group. Several threads add to it, starting from the counts of an earlier attempt of the run."""

    def __init__(self, before: GroupSummary) -> None:
        self._lock = threading.Lock()
        self._started = time.monotonic()
        self._cpu = time.process_time()
        self._seconds_before = before.seconds
        self._cpu_before = before.cpuSeconds
        self._failed_before = before.failedBatches
        self._summary = replace(before, status=Status.RUNNING, error=None, passing=False)
        self.outage(None)

    def begin(self, *, slave: str, server: str, queue_id: str, queued: int, wals: int, bytes_to_ship: int) -> None:
        """Begin an attempt: `wals` of the `queued` WALs are closed, and contain `bytes_to_ship` behind their positions."""
        with self._lock:
            self._failed_before = self._summary.failedBatches
        self._add(
            slave=slave, server=server, queue_id=queue_id, sizeOfLogQueue=queued,
            logsLeft=wals, bytesToShip=bytes_to_ship, bytesDone=0,
            bytesDoneBefore=self._summary.bytesDoneBefore + self._summary.bytesDone,
        )  # fmt: skip

    def read(self, window: Window, kept: KeptEdits) -> None:
        """Count a batch that was read; its entries go to the senders now."""
        index = window.index
        reasons = filtered_by_reason(kept)
        partial = kept.reason == Reason.SHIPPED
        with self._lock:
            s = self._summary
            filtered = Counter(s.logEditsFiltered)
            filtered.update(reasons)
            self._summary = replace(
                s,
                logEditsRead=s.logEditsRead + len(index),
                logReadInBytes=s.logReadInBytes + int(window.next_positions[-1] - window.positions[0]),
                logEditsFiltered=dict(filtered),
                cellsFiltered=s.cellsFiltered + int((index.cell_count - kept.cells)[partial].sum()),
            )

    def shipped(self, request: SinkRequest) -> None:
        """Count an acknowledged request."""
        if not request.entry_count:
            return
        written = shown_ms(request.last_write_time)
        with self._lock:
            s = self._summary
            self._summary = replace(
                s,
                shippedBatches=s.shippedBatches + 1,
                shippedOps=s.shippedOps + request.row_count,
                shippedCells=s.shippedCells + request.cell_count,
                shippedBytes=s.shippedBytes + request.cell_bytes,
                shippedHFiles=s.shippedHFiles + request.hfile_count,
                timestampOfLastShippedOp=max(s.timestampOfLastShippedOp or 0, written),
                ageOfLastShippedOp=max(0, int(time.time() * 1000) - written),
            )

    def missing_hfiles(self, count: int) -> None:
        """Count `count` files of a bulk load that were gone, and no longer needed."""
        with self._lock:
            self._summary = replace(self._summary, missingHFiles=self._summary.missingHFiles + count)

    def retried(self, requests: int) -> None:
        """Set how many requests of this attempt had to be sent again so far."""
        self._add(failedBatches=self._failed_before + requests)

    def sent_as(self, sink: str, refused: str | None) -> None:
        """Note how edits are sent now, and why the slave has refused direct writes to its regions, if it has."""
        self._add(sink=sink, directRefused=refused)

    def done(self, bytes_done: int) -> None:
        """Note that `bytes_done` of the bytes to ship are acknowledged or filtered out."""
        self._add(bytesDone=bytes_done)

    def completed(self, *, ignored: int | None) -> None:
        """Count a WAL that left the queue. `ignored`: the bytes behind its last whole entry; None if it was closed cleanly."""
        with self._lock:
            s = self._summary
            self._summary = replace(
                s,
                completedLogs=s.completedLogs + 1,
                uncleanlyClosedLogs=s.uncleanlyClosedLogs + (ignored is not None),
                ignoredUncleanlyClosedLogContentsInBytes=s.ignoredUncleanlyClosedLogContentsInBytes + (ignored or 0),
                sizeOfLogQueue=s.sizeOfLogQueue - 1,
                logsLeft=s.logsLeft - 1,
            )

    def read_again(self, wal: str) -> None:
        """Count a WAL, which need not be queued, after shipping all its entries of an interval."""
        with self._lock:
            s = self._summary
            self._summary = replace(
                s,
                completedLogs=s.completedLogs + 1,
                logsLeft=s.logsLeft - 1,
                lastCompletedLog=wal,
                completedLogsDigest=digest_with(s.completedLogsDigest, wal),
            )

    def quarantined(self, skipped_bytes: int) -> None:
        """Count a broken WAL whose rest, from some offset on, was given up."""
        with self._lock:
            s = self._summary
            self._summary = replace(s, quarantinedLogs=s.quarantinedLogs + 1, skippedBytes=s.skippedBytes + skipped_bytes)

    def deleted(self, names: Sequence[str]) -> None:
        """Note tables and families that are deleted at both clusters: their edits are dropped."""
        self._add(deletedAtBoth=tuple(names))

    def next_to_replicate(self, written: int | None) -> None:
        """Note when the oldest edit that is not shipped was written; None if all are shipped."""
        self._add(timestampOfNextToReplicate=None if written is None else shown_ms(written))

    def outage(self, outage: Outage | None) -> None:
        """Note the slave's outage; None if there is none."""
        if outage is None:
            self._add(slaveSilentSince=None, slaveTries=0, slaveError=None)
        else:
            self._add(slaveSilentSince=int(outage.since * 1000), slaveTries=outage.tries, slaveError=outage.error)

    def end(self, status: Status, error: str | None = None, *, passing: bool = False) -> None:
        """Note how the attempt ended. After DONE nothing counts as left, even if a killed attempt had counted something."""
        self._add(status=status, error=error, passing=passing)
        if status is Status.DONE:
            self._add(logsLeft=0, bytesDone=self._summary.bytesToShip, timestampOfNextToReplicate=None)

    def summary(self) -> GroupSummary:
        """Return the counts as they are now."""
        with self._lock:
            s = self._summary
            lag = 0 if s.status is Status.DONE else None
            if s.timestampOfNextToReplicate is not None:
                lag = max(0, int(time.time() * 1000) - s.timestampOfNextToReplicate)
            return replace(
                s,
                replicationLag=lag,
                seconds=round(self._seconds_before + time.monotonic() - self._started, 3),
                cpuSeconds=round(self._cpu_before + time.process_time() - self._cpu, 3),
            )

    def _add(self, **changes: object) -> None:
        with self._lock:
            self._summary = replace(self._summary, **changes)  # type: ignore[arg-type]  # names are GroupSummary's
