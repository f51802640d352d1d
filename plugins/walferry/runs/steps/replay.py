"""Plans an interval that is shipped again, inside an Airflow task. The Spark job does the shipping."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection

from walferry.load.copy_records import check_copied
from walferry.replay.files import OPEN_SLACK_MS, FoundWals
from walferry.replay.interval import Interval
from walferry.replay.job import check_tables
from walferry.replay.run import check_whole, find_left, problems_of
from walferry.replication.queues import rolling
from walferry.replication.source.agreement import check_peer
from walferry.replication.source.cluster import SourceCluster
from walferry.replication.source.session import Session, open_session
from walferry.runs.reports.replay import PlannedInterval
from walferry.shipping.runs import end_run

CLOSED_SECONDS = 30.0  # until the WALs that a roll has ended are closed
POLL_SECONDS = 2.0

log = logging.getLogger(__name__)


def end(source: SourceCluster, peer_id: str, run_id: str) -> None:
    """Forget a run's summaries: there may be hundreds of runs of one backfill. Raises WalferryError."""
    with open_session(source) as session:
        end_run(session, peer_id, run_id)


def plan(
    source: SourceCluster, peer_id: str, interval: Interval, attempt: str, *, tables: Collection[str], roll: bool, whole: bool
) -> PlannedInterval:
    """Find the WALs of an interval; with `roll`, have open WALs among them closed. Raises WalferryError.

    With `whole` it raises IntervalGone if a part of the interval is gone.
    """
    with open_session(source) as session:
        check_tables(check_peer(session, peer_id), tables)
        check_copied(session, peer_id)
        found = find_left(session, interval)
        if found.open and roll:
            # The WALs that begin now must be too young to contain entries of the interval.
            time.sleep(max(0.0, (interval.end + OPEN_SLACK_MS) / 1000 - time.time()))
            rolled = rolling.roll(session, ())
            for server, why in rolled.failures.items():
                log.warning("roll of %s: %s", server, why)
            found = _find_closed(session, interval)
    if whole:
        check_whole(found, interval)
    return PlannedInterval.of(
        attempt, peer_id, interval.start, interval.end, groups=len(found.groups), wals=found.wals, bytes=found.bytes,
        problems=problems_of(found),
    )  # fmt: skip


def _find_closed(session: Session, interval: Interval) -> FoundWals:
    """Find the WALs that are left after a roll. A RegionServer closes the WAL that it has rolled a moment later."""
    give_up = time.monotonic() + CLOSED_SECONDS
    while (found := find_left(session, interval)).open and time.monotonic() < give_up:
        time.sleep(POLL_SECONDS)
    return found
