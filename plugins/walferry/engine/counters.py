"""Counts while a group is shipped: the reader, the senders and the commit add to one summary."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from walferry.engine.summary import GroupSummary, Status, digest_with, shown_ms
from walferry.hbase.wal.wal_batches import WalBatch
from walferry.replication.filters.entry_filter import KeptEdits, filtered_by_reason
from walferry.replication.filters.rules import Reason
from walferry.replication.sinks.answers import Outage
from walferry.replication.sinks.sink import SinkRequest


class Counters:
    """The summary of one group. Several threads add to it, starting from the counts of an earlier attempt of the run."""

    def __init__(self, before: GroupSummary) -> None:
        self._lock = threading.RLock()
        self._started = time.monotonic()
        self._cpu = time.process_time()
        self._seconds_before = before.seconds
        self._cpu_before = before.cpuSeconds
        self._failed_before = before.failedBatches
        self._summary = replace(before, status=Status.RUNNING, error=None, passing=False)
        self.outage(None)

    def begin(self, *, peer_cluster: str, server: str, queue_id: str, queued: int, wals: int, bytes_to_ship: int) -> None:
        """Begin an attempt: `wals` of the `queued` WALs are closed, and contain `bytes_to_ship` behind their positions."""
        with self._lock:
            self._failed_before = self._summary.failedBatches
            self._add(bytesDoneBefore=self._summary.bytesDone)
            self._set(
                peer_cluster=peer_cluster, server=server, queue_id=queue_id, sizeOfLogQueue=queued, logsLeft=wals,
                bytesToShip=bytes_to_ship, bytesDone=0,
            )  # fmt: skip

    def read(self, batch: WalBatch, kept: KeptEdits) -> None:
        """Count a WAL batch that was read; its entries go to the senders now."""
        index = batch.index
        partial = kept.reason == Reason.SHIPPED
        with self._lock:
            self._add(
                logEditsRead=len(index), logReadInBytes=int(batch.next_positions[-1] - batch.positions[0]),
                cellsFiltered=int((index.cell_count - kept.cells)[partial].sum()),
            )  # fmt: skip
            filtered = Counter(self._summary.logEditsFiltered) + Counter(filtered_by_reason(kept))
            self._set(logEditsFiltered=dict(filtered))

    def shipped(self, request: SinkRequest) -> None:
        """Count an acknowledged request."""
        if not request.entry_count:
            return
        written = shown_ms(request.last_write_time)
        with self._lock:
            self._add(
                shippedBatches=1, shippedOps=request.row_count, shippedCells=request.cell_count, shippedBytes=request.cell_bytes,
                shippedHFiles=request.hfile_count,
            )  # fmt: skip
            self._set(
                timestampOfLastShippedOp=max(self._summary.timestampOfLastShippedOp or 0, written),
                ageOfLastShippedOp=max(0, int(time.time() * 1000) - written),
            )

    def missing_hfiles(self, count: int) -> None:
        """Count `count` files of a bulk load that were gone, and no longer needed."""
        self._add(missingHFiles=count)

    def retried(self, requests: int) -> None:
        """Set how many requests of this attempt had to be sent again so far."""
        self._set(failedBatches=self._failed_before + requests)

    def sent_as(self, sink: str, refused: str | None) -> None:
        """Note how edits are sent now, and why the peer cluster has refused direct writes to its regions, if it has."""
        self._set(sink=sink, directRefused=refused)

    def done(self, bytes_done: int) -> None:
        """Note that `bytes_done` of the bytes to ship are acknowledged or filtered out."""
        self._set(bytesDone=bytes_done)

    def completed(self, *, ignored: int | None) -> None:
        """Count a WAL that left the queue. `ignored`: the bytes behind its last whole entry; None if it was closed cleanly."""
        self._add(
            completedLogs=1, uncleanlyClosedLogs=ignored is not None, ignoredUncleanlyClosedLogContentsInBytes=ignored or 0,
            sizeOfLogQueue=-1, logsLeft=-1,
        )  # fmt: skip

    def read_again(self, wal: str) -> None:
        """Count a WAL, which need not be queued, after shipping all its entries of an interval."""
        with self._lock:
            self._add(completedLogs=1, logsLeft=-1)
            self._set(lastCompletedLog=wal, completedLogsDigest=digest_with(self._summary.completedLogsDigest, wal))

    def quarantined(self, skipped_bytes: int) -> None:
        """Count a broken WAL whose rest, from some offset on, was given up."""
        self._add(quarantinedLogs=1, skippedBytes=skipped_bytes)

    def deleted(self, names: Sequence[str]) -> None:
        """Note tables and families that are deleted at both clusters: their edits are dropped."""
        self._set(deletedAtBoth=tuple(names))

    def next_to_replicate(self, written: int | None) -> None:
        """Note when the oldest edit that is not shipped was written; None if all are shipped."""
        self._set(timestampOfNextToReplicate=None if written is None else shown_ms(written))

    def outage(self, outage: Outage | None) -> None:
        """Note the peer cluster's outage; None if there is none."""
        if outage is None:
            self._set(sinkSilentSince=None, sinkTries=0, sinkError=None)
        else:
            self._set(sinkSilentSince=int(outage.since * 1000), sinkTries=outage.tries, sinkError=outage.error)

    def end(self, status: Status, error: str | None = None, *, passing: bool = False) -> None:
        """Note how the attempt ended. After DONE nothing counts as left, even if a killed attempt had counted something."""
        self._set(status=status, error=error, passing=passing)
        if status is Status.DONE:
            self._set(logsLeft=0, bytesDone=self._summary.bytesToShip, timestampOfNextToReplicate=None)

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

    def _add(self, **counts: int) -> None:
        with self._lock:
            self._summary = self._summary.plus(**counts)

    def _set(self, **changes: object) -> None:
        with self._lock:
            self._summary = replace(self._summary, **changes)  # type: ignore[arg-type]  # names are GroupSummary's
