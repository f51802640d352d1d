"""The steps of the retention DAG. They only read, but for copies in the archive whose time is over."""

from __future__ import annotations

import time

from walferry.hbase.files.store import OLD_WALS
from walferry.replication.retention.archive import Expired, WalArchive, expire
from walferry.replication.retention.limits import OldWalLimits, exceeded
from walferry.replication.retention.survey import survey
from walferry.replication.source.cluster import SourceCluster
from walferry.replication.source.session import open_session
from walferry.runs.reports.retention import RetentionReport

DAY_SECONDS = 86400


def report(source: SourceCluster, ttl_seconds: float, limits: OldWalLimits, listed: int) -> RetentionReport:
    """Survey oldWALs. Raises WalferryError."""
    with open_session(source, look_only=True) as session:
        found = survey(session, ttl_seconds, time.time)
    return RetentionReport(f"{source.wal_root}/{OLD_WALS}", found, exceeded(found, limits), listed)


def expire_archive(source: SourceCluster) -> Expired | None:
    """Delete copies that are older than the archive's TTL; None if the source has no archive. Raises StoreError."""
    if source.archive is None:
        return None
    return expire(WalArchive(source.archive), source.archive_days * DAY_SECONDS)
