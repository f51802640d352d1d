"""Ships intervals again in this process: does the Spark job's work, with threads in place of Spark's tasks."""

from __future__ import annotations

import time
from typing import Any

from embedded.client import JavaClient
from tests.cluster.walferry_runs import sink_of
from tests.threads_backend import Threads
from walferry.base.jobs import Backend
from walferry.engine.summary import GroupSummary
from walferry.replay.interval import Interval
from walferry.replay.job import ReplayJob
from walferry.replay.run import replay
from walferry.replication.source.cluster import SourceCluster


def rows_of(client: JavaClient, table: str) -> frozenset[bytes]:
    return frozenset(cell.row for cell in client.scan_all(table))


def now() -> int:
    """Return the time in ms since the epoch, at some distance from edits and from WALs' begins: see `quick_appends`."""
    time.sleep(0.05)
    at = int(time.time() * 1000)
    time.sleep(0.05)
    return at


def ship_again(
    source: SourceCluster, peer: str, interval: Interval, *, run_id: str = "again", dry_run: bool = False,
    seconds: float = 120, on: Backend | None = None, **options: Any,
) -> list[GroupSummary]:  # fmt: skip
    """Ship an interval again, in the way that the source's settings say."""
    job = ReplayJob(source=source, peer_id=peer, interval=interval, run_id=run_id, deadline=time.time() + seconds, **options)
    summaries = replay(job, on or Threads(), dry_run=dry_run, keep_seconds=600)
    assert all(s.sink in ("", sink_of(source)) and not s.directRefused for s in summaries), summaries
    return summaries
